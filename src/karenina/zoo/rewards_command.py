"""`karenina zoo rewards`: what the shipped policies earned, beside what a selection made of them.

Enters: a benchmark, and perhaps a run's folder. Leaves: a table on stdout. Nothing is simulated: the rewards were
measured when the population was assembled.
"""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from karenina.cli.options import Json
from karenina.cli.terminal import write
from karenina.errors import InputError

__all__ = ["fates", "rewards", "rewards_text", "table"]


def rewards(
    benchmark: Annotated[
        str,
        typer.Argument(
            metavar="BENCH", help="Such as cartpole, aurora_short, pendulum; a wrong one lists all.", show_default=False
        ),
    ],
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", help="A finished selection among them: who was removed, who survived."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All policies that passed the filter, not only the named 16.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the rewards of the shipped policies, as measured; with --run, beside what became of them there."""
    from karenina.zoo.population import load

    population = load(benchmark, everything)
    fate = {} if run is None else fates(run)
    if run is not None and not set(fate) & set(population.networks):
        raise InputError(f"{run} is a selection among other models than the shipped policies of {benchmark}")
    if json:
        models = {
            name: {**own, **({"fate": fate[name]} if name in fate else {})} for name, own in population.rewards.items()
        }
        write(json_format.dumps({"benchmark": benchmark, "models": models}, indent=2) + "\n")
    else:
        write(rewards_text(population.rewards, fate, float(population.provenance["evaluation"]["threshold"])))


def fates(run: Path) -> dict[str, str]:
    """What became of every model of a finished run."""
    from karenina.store.seal import unseal

    path = run / "selection.json"
    try:
        result = unseal(path.read_bytes())
        found = {
            name: f"removed in iteration {iteration['number']}"
            for iteration in result["iterations"]
            for name in iteration["removed"]
        }
        found |= dict.fromkeys(result["survivors"], "survives")
        found[result["recommended"]] = "survives, recommended"
    except FileNotFoundError:
        raise InputError(f"{run} holds no finished selection: {path} is missing") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not the result of a selection: {error!r}") from None
    return found


def rewards_text(earned: Mapping[str, Mapping[str, Any]], fate: Mapping[str, str], threshold: float) -> str:
    """A line for every policy, those that went first at the top; * marks the good."""
    presets = list(next(iter(earned.values())))
    names = [*(name for name in fate if name in earned), *(name for name in earned if name not in fate)]
    rows = [["", *presets, *(["selection"] if fate else [])]]
    for name in names:
        cells = [f"{own['mean']:.2f} {'*' if own['good'] else ' '}" for own in earned[name].values()]
        rows.append([name, *cells, *([fate.get(name, "")] if fate else [])])
    return f"mean reward; * above {threshold:g}\n" + table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Cells in columns, to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(line.rstrip() + "\n" for line in lines)
