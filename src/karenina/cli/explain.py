"""`karenina explain`. Enters: a run's folder and two of its models. Leaves: where they disagree most, in words."""

from __future__ import annotations

from typing import Annotated

import typer

from karenina import presentation
from karenina.cli.options import Json, RunFolder
from karenina.cli.terminal import notes, working, write

__all__ = ["explain"]


def explain(
    run: RunFolder,
    first: Annotated[str, typer.Argument(metavar="A", help="A model of the run, by name.", show_default=False)],
    second: Annotated[str, typer.Argument(metavar="B", help="Another.", show_default=False)],
    *,
    json: Json = False,
) -> None:
    """Tell where two models of a finished run disagree most.

    The input that shows it, where in the domain it lies, and what each model does there and around it. For example:

        karenina explain karenina-runs/domain-1a2b3c seed_1 seed_2
    """
    with working("reading"):
        from karenina.errors import InputError
        from karenina.report import read_run
        from karenina.report.explanation import explain as explained
        from karenina.report.explanation import explanation_text

        if first == second:
            raise InputError(f"{first} is compared with itself: name two different models")
        found = read_run(run)
        told = explained(found, first, second)
    notes(note for note in found.notes if note.startswith((f"{first} ", f"{second} ")))
    write(presentation.as_json(told.to_dict()) if json else explanation_text(told))
