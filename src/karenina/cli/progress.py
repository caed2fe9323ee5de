"""How far a selection has come. Enters: its reports. Leaves: a live line on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from karenina.cli.terminal import remark

if TYPE_CHECKING:
    from karenina.selection import Progress

__all__ = ["described", "showing"]

_QUIET_SECONDS = 10.0


@contextmanager
def showing() -> Iterator[Callable[[Progress], None]]:
    """What to tell of the progress; on stderr."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    words, bar_column = TextColumn("{task.description}", markup=False), BarColumn(bar_width=15)
    columns = SpinnerColumn(), words, bar_column, MofNCompleteColumn()
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        yield _Live(bar)


def described(progress: Progress) -> str:
    """Where the selection stands, in words."""
    known = f"{progress.exact_pairs}/{progress.pairs} pairs exact"
    return f"iteration {max(1, progress.iteration)}: {progress.models} models, {known}"


class _Live:
    """A bar for the measurements of the current round."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None)

    def __call__(self, progress: Progress) -> None:
        if progress.done == 0 and progress.planned:
            self._bar.reset(self._task, total=progress.planned)
        self._bar.update(self._task, description=described(progress), completed=progress.done, total=progress.planned)


class _Lines:
    """A line when a round starts, and every few seconds."""

    def __init__(self) -> None:
        self._started = self._told = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if not progress.planned:
            return
        if progress.done == 0:
            self._started = now
        elif now - self._told < _QUIET_SECONDS:
            return
        self._told = now
        remark(self._line(progress, now))

    def _line(self, progress: Progress, now: float) -> str:
        """What a round is about when it starts, then how far it is; either fits a terminal of 80 columns."""
        if not progress.done:
            which = f"iteration {max(1, progress.iteration)}, {progress.models} models"
            return f"{which}: {progress.doing} ({progress.planned})"
        left = (now - self._started) * (progress.planned - progress.done) / progress.done
        return f"{described(progress)}; {progress.done}/{progress.planned} measured, about {left:.0f} s left"
