"""What a command says while it runs. Enters: results and messages. Leaves: text on stdout and stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["message", "notes", "working", "write"]


def write(text: str) -> None:
    """Results to stdout. A reader that left early (`| head -1`) has what it wanted: that is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python's last flush fails again
        if not isinstance(error, BrokenPipeError):
            raise


def message(kind: str, style: str, text: str) -> None:
    """One line on stderr."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble((f"{kind}: ", style), " ".join(text.split()))
    Console(stderr=True).print(line, soft_wrap=True)


def notes(given: Iterable[str]) -> None:
    """What a user should know, each once."""
    for note in dict.fromkeys(filter(None, given)):
        message("note", "yellow", note)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A sign of life on a terminal's stderr."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield
