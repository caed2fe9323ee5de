"""`karenina zoo`: the paper's benchmarks on the command line. Enters: arguments. Leaves: results as text.

Attached to `karenina` by an entry point. What computes is imported inside the commands.
"""

from __future__ import annotations

import json as json_format
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karenina.cli.groups import expanded
from karenina.cli.options import Action, Json, Reading
from karenina.cli.terminal import working, write
from karenina.errors import InputError, MissingExtra
from karenina.zoo.rewards_command import rewards, table
from karenina.zoo.train_command import assignments, train

if TYPE_CHECKING:
    from karenina.network import Network
    from karenina.zoo.evaluation import Evaluation

__all__ = ["app", "evaluate", "evaluation_json", "evaluation_text"]

app = typer.Typer(
    name="zoo",
    help="The paper's benchmarks: train and evaluate policies.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_QUIET_SECONDS = 10.0  # between two lines of progress where there is no terminal


@app.command()
@expanded
def evaluate(
    benchmark: Annotated[
        str, typer.Argument(metavar="BENCH", help="Such as cartpole, aurora_short, pendulum; a wrong one lists all.")
    ],
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="More policies, as after --models.", show_default=False),
    ] = None,
    *,
    models: Annotated[
        list[Path] | None,
        typer.Option("--models", metavar="PATH...", help="Policy files and folders of them; if none, those shipped."),
    ] = None,
    preset: Annotated[
        list[str] | None,
        typer.Option("--preset", metavar="NAME", help="All of the benchmark's if not given; repeatable."),
    ] = None,
    episodes: Annotated[
        int, typer.Option("--episodes", min=1, metavar="N", help="Of every policy and preset.")
    ] = 20_000,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="Decides all scenarios.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", min=1, metavar="N", help="Processes at a time.")] = 1,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the environment; repeatable."),
    ] = None,
    reading: Reading,
    json: Json = False,
) -> None:
    """Measure the reward of policies in simulation, in and out of distribution.

    Every policy plays the same scenarios. A policy is good in a preset if its mean reward is above the benchmark's
    threshold.
    """
    with working("reading"):
        changes = assignments(change or ())
        policies = _policies(benchmark, [*(models or []), *(paths or [])], reading)
        try:
            from karenina.zoo.evaluation import evaluate as play
        except ModuleNotFoundError as missing:
            raise MissingExtra(str(missing.name), "zoo") from missing
    with _progress() as told:
        executed = reading.action is Action.EXECUTED
        options: dict[str, Any] = {"episodes": episodes, "seed": seed, "jobs": jobs, "changes": changes}
        found = play(policies, benchmark, preset or (), executed=executed, progress=told, **options)
    write(evaluation_json(found) if json else evaluation_text(found))


app.command()(train)
app.command()(rewards)


def _policies(benchmark: str, paths: list[Path], reading: Reading) -> dict[str, Network]:
    """The models of the paths by name, or the shipped ones."""
    from karenina.zoo.environments.benchmark import benchmark_named

    benchmark_named(benchmark)
    if paths:
        from karenina.cli.population import population

        return {member.name: member.network for member in population(paths, reading)}
    if reading != Reading():
        raise InputError("--action, --normalisation and --activation are about the files of --models")
    from karenina.zoo.population import load

    return load(benchmark).networks


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """What to tell how far the work has come; on stderr."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("playing", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines() -> Callable[[int, int], None]:
    """A line now and then."""
    told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > _QUIET_SECONDS:
            told = time.monotonic()
            print(f"{done} of {total} evaluations done", file=sys.stderr, flush=True)

    return tell


def evaluation_json(found: Evaluation) -> str:
    """One JSON object: what was asked, and `models` -> name -> preset -> mean, std, standard_error, good."""
    asked = {
        "benchmark": found.benchmark.name,
        "episodes": found.episodes,
        "seed": found.seed,
        "threshold": found.benchmark.threshold,
        "presets": {preset: asdict(own) for preset, own in found.presets.items()},
    }
    models = {name: {preset: asdict(r) for preset, r in earned.items()} for name, earned in found.models.items()}
    return json_format.dumps(asked | {"models": models}, indent=2) + "\n"


def evaluation_text(found: Evaluation) -> str:
    """A table: a line for every policy, a column for every preset."""
    judged = found.benchmark
    head = f"{judged.name}: mean reward of {found.episodes} episodes, seed {found.seed}; * above {judged.threshold:g}\n"
    rows = [["", *found.presets]]
    for name, earned in found.models.items():
        cells = [f"{r.mean:.2f} ± {r.std:.2f} {'*' if r.good else ' '}" for r in earned.values()]
        rows.append([name, *cells])
    return head + table(rows)
