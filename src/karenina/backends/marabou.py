"""A back end that asks Marabou, by bisection: the paper's Algorithm 1, with one-sided queries.

Enters: a query on piecewise-linear networks. Leaves: its answer. Each step asks whether the objective of one
case can reach a value, as one linear inequality; a disjunction is never asked (Marabou has known false results
there). Every step runs in a process of its own, killed at its deadline: Marabou can hang past its own time limit.

How far to trust it: `lower` is the networks' own value at the witness, evaluated in float64. `upper` is
Marabou's word: the value it says cannot be reached plus `MARABOU_TOLERANCE` (relative above 1), because it
works in floating point to about that tolerance.
"""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.backends.marabou_request import MAGNIFICATION, Reduced, reduce_case
from karenina.backends.progress import DEFAULT_GOAL, Progress, begin
from karenina.backends.relu_form import ReluForm
from karenina.errors import InputError, MissingExtra
from karenina.query import Answer, Goal, Query, Status

__all__ = ["MARABOU_TOLERANCE", "Marabou"]

Array = npt.NDArray[np.float64]

MARABOU_TOLERANCE = 1e-6

_CONFIRMED = 1e-4  # a witness may fall short of the value asked for by this much, relative above 1
_WORKER = (sys.executable, "-m", "karenina.backends.marabou_worker")
_LONGEST = 10**6  # seconds; beyond it there is no limit


@dataclass(frozen=True, eq=False)
class _Reply:
    """What came of one step: Marabou's word, or that it was killed or died."""

    word: str  # "sat", "unsat", "TIMEOUT", or anything else for a failure
    x: Array | None = None


_Stuck = tuple[Status, str]  # why a case cannot be narrowed further, with a note


def _tolerance(value: float) -> float:
    return MARABOU_TOLERANCE * max(1.0, abs(value))


class Marabou:
    """Answers queries by bisection with Marabou 2: `Marabou(query_timeout=60).answer(query)`.

    `query_timeout` is in seconds and for one step; the goal's time limit is for the whole answer. `worker` is the
    command run for every step.
    """

    def __init__(self, query_timeout: float | None = None, *, worker: Sequence[str] = _WORKER) -> None:
        if query_timeout is not None and not query_timeout > 0:
            raise InputError(f"query_timeout must be a number of seconds > 0, not {query_timeout}")
        if worker is _WORKER and importlib.util.find_spec("maraboupy") is None:
            raise MissingExtra("maraboupy, on Python 3.11", "marabou")
        self.query_timeout = math.inf if query_timeout is None else query_timeout
        self.worker = tuple(worker)

    def answer(self, query: Query, goal: Goal = DEFAULT_GOAL) -> Answer:
        """The interval reached; InputError for networks that are not piecewise linear."""
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is found by looking, and is a status
            return self._search(*begin(query, goal))

    def _search(self, progress: Progress, form: ReluForm) -> Answer:
        otherwise: _Stuck = (Status.PRECISION, "")
        asked: set[int] = set()
        while remaining := [k for k in progress.open_cases() if k not in asked]:
            k = remaining[0]
            if not math.isfinite(progress.upper_bounds[k]):
                return progress.answer(Status.OVERFLOW)
            reduced = reduce_case(form, progress.query.cases[k])
            otherwise = self._bisect(progress, k, reduced, probe=bool(asked)) or otherwise
            asked.add(k)
        return progress.answer(*otherwise)

    def _bisect(self, progress: Progress, case: int, reduced: Reduced, probe: bool) -> _Stuck | None:
        """Narrow one case's interval until it is closed, or until it is stuck."""
        while progress.is_open(case):
            if not progress.seconds_left:
                return Status.TIME_LIMIT, ""
            at_least = _next(progress, case, probe)
            if at_least is None:
                return Status.PRECISION, "Marabou decides nothing closer than its own tolerance"
            probe = False
            before = progress.best, progress.upper_bounds[case]
            reply = self._ask(reduced, at_least, min(self.query_timeout, progress.seconds_left))
            progress.boxes += 1
            if stuck := _take(progress, case, at_least, reply):
                return stuck
            if (progress.best, progress.upper_bounds[case]) == before:
                return Status.PRECISION, "Marabou decides nothing closer than its own tolerance"
        return None

    def _ask(self, reduced: Reduced, at_least: float, seconds: float) -> _Reply:
        """Whether the case's objective can be `at_least` under its constraints."""
        needed = reduced.needed(at_least)
        if needed is None:
            return _Reply("unsat")
        rows, offsets = needed
        if not len(rows):
            return _Reply("sat", reduced.input(MAGNIFICATION * reduced.lower))
        limit = math.ceil(seconds) + 1 if seconds < _LONGEST else 0
        answer = _run(self.worker, reduced.request(rows, offsets, limit), seconds if limit else None)
        x = None if answer.get("x") is None else reduced.input(np.array(answer["x"], dtype=np.float64))
        return _Reply(str(answer["word"]), x)


def _run(worker: Sequence[str], request: dict[str, Any], seconds: float | None) -> dict[str, Any]:
    """The worker's answer. It runs in an empty folder, where Marabou may leave files, and is killed at the deadline."""
    try:
        with tempfile.TemporaryDirectory() as folder, _started(worker, folder) as process:
            try:
                output, _ = process.communicate(json.dumps(request, allow_nan=False), timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()  # SIGKILL: Marabou does not heed the polite signals
                process.communicate()
                return {"word": "TIMEOUT"}
            finally:
                process.kill()
        return {"word": "", **json.loads(output)}
    except (OSError, ValueError, TypeError):
        return {"word": "its process gave no answer"}


def _started(worker: Sequence[str], folder: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(worker, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=folder, text=True)


def _next(progress: Progress, case: int, probe: bool) -> float | None:
    """The value to ask for next: minus infinity asks for any input at all, None says that asking is of no use."""
    lower, upper, goal = progress.lower, progress.upper_bounds[case], progress.goal
    if progress.witness is None:
        return -math.inf
    if goal.threshold is not None:
        # Marabou's witnesses lie on the boundary of what was asked: a little below the threshold `unsat` decides,
        # a little above it `sat` does.
        margin = 2 * _tolerance(goal.threshold)
        return goal.threshold + (margin if lower >= goal.threshold - 2 * margin else -margin)
    if upper - lower <= 4 * _tolerance(upper):
        return None
    gap = 0.9 * goal.gap(lower)
    # A case that comes after another is most often below it: one `unsat` just above the best value closes it.
    if probe and 4 * _tolerance(lower) < gap < upper - lower:
        return lower + gap
    return lower + (upper - lower) / 2


def _take(progress: Progress, case: int, at_least: float, reply: _Reply) -> _Stuck | None:
    """Add one reply to what is known; the reason where the case is stuck."""
    if reply.word == "unsat":
        progress.tighten(case, at_least + _tolerance(at_least) if at_least > -math.inf else -math.inf)
        return None
    if reply.word == "TIMEOUT":
        return Status.TIME_LIMIT, f"Marabou did not decide in time whether {at_least} can be reached"
    if reply.word != "sat" or reply.x is None:
        return Status.FAILED, f"Marabou failed: {reply.word}"
    value = progress.offer(case, reply.x)
    if value is None or value < at_least - _CONFIRMED * max(1.0, abs(at_least)):
        return Status.FAILED, f"Marabou says that {at_least} is reached where the networks give {value}"
    return None
