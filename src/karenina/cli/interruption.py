"""How a run ends when it is told to stop. Enters: SIGINT (Ctrl-C) or SIGTERM. Leaves: a note, and an exit code.

All that was measured is on disk already, so there is nothing to save. What there is to do is to end soon: a thread in
the middle of a pair cannot be interrupted, and whoever pressed Ctrl-C would wait for it; after `PATIENCE` nobody waits.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import typer

from karenina.cli.terminal import notes

__all__ = ["PATIENCE", "interruptible"]

PATIENCE = 2.0  # seconds for an orderly end
_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


@contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """A signal to stop is no loss of what is in the run's folder, and whoever sent it should know."""
    ending = _Ending(folder)
    with ending.listening():
        try:
            yield
        except KeyboardInterrupt:
            ending.tell()
            if ending.number == signal.SIGINT:
                raise
            raise typer.Exit(128 + ending.number) from None
        finally:
            ending.over()


class _Ending:
    """The end of a run, from the signal on."""

    def __init__(self, folder: Path) -> None:
        self.number = signal.SIGINT
        self._folder = folder
        self._timer: threading.Timer | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals, unless they are ignored (as by nohup) or somebody else's (not the main thread's)."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._stop) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self.number = signal.Signals(number)
        if self._timer is None:
            self._timer = threading.Timer(PATIENCE, self._leave)
            self._timer.daemon = True
            self._timer.start()
        raise KeyboardInterrupt

    def tell(self) -> None:
        """Say what is kept, and how to go on."""
        if (self._folder / "run.json").exists():
            kept = "what was measured is kept; to go on, the same command, or karenina resume"
            notes([f"{_SIGNALS[self.number]}: {kept} {self._folder}"])
        else:
            notes([f"{_SIGNALS[self.number]} before anything was measured"])

    def _leave(self) -> None:
        """Threads are busy with pairs that nobody waits for any more."""
        with suppress(OSError):
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
        self.tell()
        os._exit(128 + self.number)

    def over(self) -> None:
        """The end came in time."""
        if self._timer is not None:
            self._timer.cancel()
