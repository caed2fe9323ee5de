"""A back end that asks a MILP solver: HiGHS, or Gurobi where the user has it.

Enters: a query on piecewise-linear networks. Leaves: its answer, by one programme a case (see `big_m`).

How far to trust it: `lower` is the networks' own value at the witness, evaluated in float64. `upper` is the
solver's bound plus `SOLVER_TOLERANCE` (relative above 1): a MILP solver works in floating point to its own
tolerances, so its bound is its word, not a proof, and what lies within the tolerance is not decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from karenina.backends.big_m import Encoding, Programme, encode
from karenina.backends.linear_bounds import neuron_bounds
from karenina.backends.progress import DEFAULT_GOAL, Progress, begin
from karenina.backends.relu_form import ReluForm
from karenina.backends.solvers import Request, Solved, gurobi, highs, library
from karenina.domain import Box
from karenina.errors import InputError
from karenina.query import Answer, Goal, Query, Status

__all__ = ["SOLVER_TOLERANCE", "Milp"]

SOLVER_TOLERANCE = 2e-6

_SOLVERS: dict[str, tuple[Callable[[Programme, Request], Solved], str, str]] = {
    "highs": (highs, "highspy", "milp"),
    "gurobi": (gurobi, "gurobipy", "gurobi"),
}


def _tolerance(value: float) -> float:
    return SOLVER_TOLERANCE * max(1.0, abs(value))


class Milp:
    """Answers queries exactly, to a MILP solver's tolerance: `Milp("highs").answer(query)`."""

    def __init__(self, solver: str = "highs", threads: int = 1) -> None:
        if solver not in _SOLVERS:
            raise InputError(f"unknown MILP solver {solver!r}; known: {', '.join(_SOLVERS)}")
        self._solve, name, extra = _SOLVERS[solver]
        library(name, extra)  # a missing library is said now, not in the middle of a run
        self.solver = solver
        self.threads = threads

    def answer(self, query: Query, goal: Goal = DEFAULT_GOAL) -> Answer:
        """The interval reached; InputError for networks that are not piecewise linear."""
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is found by looking, and is a status
            return self._search(*begin(query, goal))

    def _search(self, progress: Progress, form: ReluForm) -> Answer:
        encodings: dict[int, Encoding] = {}
        asked: set[int] = set()
        otherwise = Status.PRECISION
        while remaining := [k for k in progress.open_cases() if k not in asked]:
            k, case = remaining[0], progress.query.cases[remaining[0]]
            if not math.isfinite(progress.upper_bounds[k]):
                return progress.answer(Status.OVERFLOW)
            if not progress.seconds_left:
                return progress.answer(Status.TIME_LIMIT)
            if id(case.box) not in encodings:
                encodings[id(case.box)] = _encoding(form, case.box)
            programme = encodings[id(case.box)].programme(case)
            solved = self._solve(programme, self._request(progress, k))
            if solved.status is Status.INFEASIBLE and not len(case.constraint_offsets):
                solved = Solved(Status.FAILED, note=f"{self.solver} found no input at all in a box")
            if solved.status is Status.FAILED:
                return progress.answer(Status.FAILED, solved.note)
            if solved.status is Status.TIME_LIMIT:
                otherwise = Status.TIME_LIMIT
            asked.add(k)
            _take(progress, k, solved)
        return progress.answer(otherwise, f"{self.solver} decides nothing closer than its own tolerance")

    def _request(self, progress: Progress, case: int) -> Request:
        """What is still of interest: values above the best known, and which side of the threshold they are on."""
        goal, cutoff, target = progress.goal, -math.inf, math.inf
        if progress.witness is not None:
            cutoff = progress.lower
        if goal.threshold is not None:
            margin = 2 * _tolerance(goal.threshold)
            target = goal.threshold + margin
            cutoff = max(cutoff, goal.threshold - margin)
        return Request(_gap(progress, case), progress.seconds_left, self.threads, cutoff, target)


def _gap(progress: Progress, case: int) -> float:
    """The solver's own gap: good for any value the maximum may have, less the tolerance added to its bound."""
    lower, upper = progress.lower, progress.upper_bounds[case]
    smallest = 0.0 if lower <= 0 <= upper else min(abs(lower), abs(upper))
    return max(0.0, 0.9 * progress.goal.gap(smallest) - 2 * _tolerance(smallest))


def _encoding(form: ReluForm, box: Box) -> Encoding:
    return encode(form, neuron_bounds(form, box), box)


def _take(progress: Progress, case: int, solved: Solved) -> None:
    """Add what the solver found to what is known."""
    progress.boxes += solved.nodes
    if solved.x is not None:
        progress.offer(case, solved.x[: progress.query.cases[case].box.size])
    if math.isfinite(solved.upper):
        progress.tighten(case, solved.upper + _tolerance(solved.upper))
    elif solved.status is Status.INFEASIBLE:
        progress.tighten(case, -math.inf)
