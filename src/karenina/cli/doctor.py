"""`karenina doctor`. Enters: nothing. Leaves: what is installed, which device there is, which back ends work."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import typer

from karenina import presentation
from karenina.cli.options import Json
from karenina.cli.terminal import working, write

if TYPE_CHECKING:
    from karenina.cli.diagnosis import Check, Diagnosis

__all__ = ["diagnosis_text", "doctor"]

_COLUMNS = 80


def doctor(*, json: Json = False) -> None:
    """Tell what is installed and which back ends work.

    Exit code 1 if karenina itself does not work; extras and other back ends are optional.
    """
    with working("looking"):
        from karenina.cli.diagnosis import diagnose

        found = diagnose()
    write(presentation.as_json(found.to_dict()) if json else diagnosis_text(found))
    raise typer.Exit(0 if found.well else 1)


def diagnosis_text(found: Diagnosis) -> str:
    """For a terminal of 80 columns."""
    parts = [_part("", found.system), _part("Optional libraries", found.extras), _part("Back ends", found.backends)]
    verdict = "karenina works." if found.well else "karenina does not work here: see the lines with !"
    return "\n".join([*parts, verdict]) + "\n"


def _part(title: str, checks: Sequence[Check]) -> str:
    lines = [title] if title else []
    for check in checks:
        start = f"  {' ' if check.well else '!'} {check.name:<12} "
        lines.append(fill(check.found, _COLUMNS, initial_indent=start, subsequent_indent=" " * len(start)))
    return "\n".join(lines) + "\n"
