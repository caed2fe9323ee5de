"""`karenina plot`. Enters: a run's folder. Leaves: a figure for a paper, as a file."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from karenina.cli.groups import expanded
from karenina.cli.options import Judging, RunFolder
from karenina.cli.report import rewards_of
from karenina.cli.terminal import working, write
from karenina.errors import InputError

__all__ = ["Format", "Kind", "Order", "plot"]


class Kind(enum.StrEnum):
    """The figures of `karenina.report.drawing`."""

    RATIO = "ratio"
    REWARDS = "rewards"
    SCORES = "scores"
    HEATMAP = "heatmap"


class Format(enum.StrEnum):
    """What kind of file."""

    PDF = "pdf"
    PNG = "png"
    SVG = "svg"


class Order(enum.StrEnum):
    """The orders of `karenina.report.ordering`."""

    REMOVAL = "removal"
    CLUSTERING = "clustering"
    GIVEN = "given"


@expanded
def plot(
    run: RunFolder,
    *,
    kind: Annotated[
        Kind, typer.Option("--kind", help="Good and bad models left, rewards left, scores, or the table of all pairs.")
    ],
    format: Annotated[Format | None, typer.Option("--format", help="If not given: what --out ends in, or pdf.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="If not given: KIND.FORMAT in the run's folder.")
    ] = None,
    order: Annotated[Order, typer.Option("--order", help="Of the models in the table.")] = Order.REMOVAL,
    judging: Judging,
) -> None:
    """Draw a figure of a finished run into a file.

    The figures ratio and rewards need rewards. For example:

        karenina plot karenina-runs/domain-1a2b3c --kind heatmap --format svg
    """
    with working("drawing"):
        from karenina.report import read_run
        from karenina.report.drawing import FORMATS, draw

        found = read_run(run)
        place = out or run / f"{kind}.{format or Format.PDF}"
        if place.suffix[1:] not in FORMATS or (format is not None and place.suffix[1:] != format):
            endings = f".{format}" if format else ", ".join(f".{known}" for known in FORMATS)
            raise InputError(f"--out {place} does not end in {endings}")
        draw(kind, found.selection, place, rewards_of(found, judging, "figure"), order)
    write(f"{place}\n")
