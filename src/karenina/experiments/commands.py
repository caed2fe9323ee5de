"""`karenina reproduce`: the experiments on the command line. Enters: arguments. Leaves: data, figures and tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from karenina.cli.terminal import write

__all__ = ["app", "reproduce"]

app = typer.Typer(
    name="reproduce",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_QUIET_SECONDS = 10.0  # between two lines of progress


@app.command()
def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="tables, selections, combinations, gradients, uncertainty, choices; a population; or all.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="For data and figures; tables found there are used.")
    ] = Path("results"),
    population: Annotated[
        list[str] | None,
        typer.Option("--population", metavar="NAME", help="Of the zoo; all if not given; repeatable."),
    ] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Measure all pairs, also those that are stored.")] = False,
    tolerance: Annotated[float, typer.Option("--tolerance", metavar="T", help="Of a pair's disagreement.")] = 1e-3,
    jobs: Annotated[int, typer.Option("--jobs", min=0, metavar="N", help="Processes; 0: one for every core.")] = 1,
    models: Annotated[
        int | None,
        typer.Option("--models", min=2, metavar="N", help="The first N of a population, or as many as are stored."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="A page whose tables are written anew as well.")
    ] = None,
    figures: Annotated[bool, typer.Option(help="Draw the figures.")] = True,
) -> None:
    """Recompute experiments of the paper, and ours, from the shipped populations."""
    from karenina.experiments.figures import draw
    from karenina.experiments.page import fill
    from karenina.experiments.reproduce import Work
    from karenina.experiments.reproduce import reproduce as run

    told = _told()
    results = run(names, population or [], out, Work(anew, tolerance, jobs, models), told)
    if figures:
        draw(results, told)
    if page is not None:
        fill(page, results)
    write(f"results are in {out}\n")


def _told() -> Callable[[str], None]:
    """A line on stderr now and then."""
    last = -_QUIET_SECONDS

    def tell(text: str) -> None:
        nonlocal last
        if time.monotonic() - last > _QUIET_SECONDS:
            last = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    return tell
