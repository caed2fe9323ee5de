"""What a command says while it runs. Enters: results and messages. Leaves: text on stdout and stderr.

Names of files and what they hold may be part of it: nothing is passed on that a terminal would obey.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from karenina.errors import WorkStopped
from karenina.printable import one_line, printable

__all__ = ["message", "notes", "remark", "working", "write"]


def write(text: str) -> None:
    """Results to stdout. A reader that left early (`| head -1`) has what it wanted: that is no error."""
    try:
        sys.stdout.write(printable(text, keep="\n\t"))
        sys.stdout.flush()
    except OSError as error:
        _no_more(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise WorkStopped(f"the output cannot be written ({error.strerror or error})") from error


def _no_more(stream: TextIO) -> None:
    """Or Python's last flush fails again, and the exit code with it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def remark(text: str) -> None:
    """A line on stderr that nothing depends on: where stderr is a full disk, work goes on in silence."""
    try:
        print(one_line(text), file=sys.stderr, flush=True)
    except OSError:
        _no_more(sys.stderr)


def message(kind: str, style: str, text: str) -> None:
    """One line on stderr."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble((f"{kind}: ", style), one_line(text))
    try:
        Console(stderr=True).print(line, soft_wrap=True)
    except OSError:
        _no_more(sys.stderr)


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
