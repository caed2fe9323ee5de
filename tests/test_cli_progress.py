"""What is told of a selection's progress, on a terminal and elsewhere."""

from __future__ import annotations

import io
import time
from dataclasses import replace

import pytest

from karenina.cli.progress import showing
from karenina.selection import Progress

START = Progress("bounding all pairs", 0, 16, 120, 0, 0, 120, 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_when_a_round_starts_and_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with showing() as show:
        for done in range(121):
            now[0] += 0.5
            show(replace(START, done=done, measurements=done))
        show(replace(START, doing="deciding", iteration=1, planned=0, done=0))
    out, err = capsys.readouterr()
    assert out == ""
    first, *rest = err.splitlines()
    assert first == "iteration 1, 16 models: bounding all pairs (120)"
    assert len(rest) == 6  # a minute, every ten seconds
    assert rest[0] == "iteration 1: 16 models, 0/120 pairs exact; 20/120 measured, about 50 s left"
    assert rest[-1].endswith("; 120/120 measured, about 0 s left")


def test_a_live_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with showing() as show:
        show(START)
        show(replace(START, iteration=3, models=9, exact_pairs=7, done=60))
        time.sleep(0.2)
    text = terminal.getvalue()
    assert "iteration 3: 9 models, 7/120 pairs exact" in text
    assert "60/120" in text
    assert text.endswith("\x1b[2K")  # and it is gone at the end
