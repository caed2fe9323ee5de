"""What a back end knows so far: the best confirmed witness, and an upper bound for every case.

Enters: inputs a solver proposes, bounds it proves. Leaves: the `Answer`. A solver's word is never taken
for a witness: the networks themselves are evaluated there, in float64, and the constraints checked.
"""

from __future__ import annotations

import math
import time

import numpy as np
import numpy.typing as npt
import torch

from karenina.backends.linear_bounds import objective_bounds
from karenina.backends.relu_form import ReluForm, relu_form
from karenina.domain import Box
from karenina.query import Answer, Case, Goal, Query, Status

__all__ = ["CONSTRAINT_TOLERANCE", "DEFAULT_GOAL", "Progress", "begin"]

Array = npt.NDArray[np.float64]

# A witness may violate a constraint by this much: as good as zero, and float64 cannot always do better
# (two opposite constraints make an equation).
CONSTRAINT_TOLERANCE = 1e-9

DEFAULT_GOAL = Goal()

_SAMPLES = 1000
_REPAIRS = 8  # Newton steps towards the constraints
_NEAR = 1e-5  # constraints this near to being active are held while others are repaired


def begin(query: Query, goal: Goal) -> tuple[Progress, ReluForm]:
    """What bounds by back-substitution and sampled inputs tell, before any solver is asked."""
    progress, form = Progress(query, goal), relu_form(query.networks)
    for k, upper in enumerate(objective_bounds(form, query.cases)):
        progress.tighten(k, upper)
    progress.sample(np.random.default_rng(0))
    return progress, form


class Progress:
    """The interval reached, from the cases' upper bounds and the best witness offered."""

    def __init__(self, query: Query, goal: Goal) -> None:
        self.query = query
        self.goal = goal
        self.best = -math.inf
        self.witness: Array | None = None
        self.case: int | None = None
        self.upper_bounds = [math.inf] * len(query.cases)
        self.boxes = 0
        self._start = time.perf_counter()

    @property
    def lower(self) -> float:
        return max(self.best, self.query.floor)

    @property
    def upper(self) -> float:
        return math.inf if self.contradicted else max(self.lower, *self.upper_bounds)

    @property
    def contradicted(self) -> bool:
        """Whether the networks attain more than the solver holds possible: then its bounds are worth nothing."""
        return self.case is not None and self.upper_bounds[self.case] < self.best

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.goal.time_limit - self.seconds)

    @property
    def threshold_reached(self) -> bool:
        return self.goal.threshold is not None and self.best >= self.goal.threshold

    def is_settled(self, case: int) -> bool:
        """Whether the case can no longer change the interval, to the goal's tolerance, or its side of the threshold."""
        upper, threshold = self.upper_bounds[case], self.goal.threshold
        if threshold is not None and (self.threshold_reached or upper < threshold):
            return True
        return upper <= self.lower + self.goal.gap(self.lower)

    def is_open(self, case: int) -> bool:
        """Whether there is anything to ask about the case: it is not settled, or nobody knows if it has any input.

        A floor can settle a case before one input is found that satisfies the constraints; but "infeasible" is an
        answer of its own.
        """
        unknown = self.witness is None and self.upper_bounds[case] > -math.inf and self.goal.threshold is None
        return unknown or not self.is_settled(case)

    def open_cases(self) -> list[int]:
        """The open cases, the most promising first."""
        return sorted(filter(self.is_open, range(len(self.upper_bounds))), key=lambda k: -self.upper_bounds[k])

    def tighten(self, case: int, upper: float) -> None:
        """An upper bound of one case; minus infinity says that it is infeasible."""
        if upper < self.upper_bounds[case]:  # never NaN
            self.upper_bounds[case] = upper

    def offer(self, case: int, x: Array) -> float | None:
        """An input that a solver proposes: its value in the real networks, or None where it is no witness."""
        where = self.query.cases[case]
        point = np.clip(x, where.box.lower, where.box.upper)
        if not np.isfinite(point).all():
            return None
        point = _repaired(self.query, where, point)
        outputs = self.query.outputs(point)
        value = where.value(outputs)
        if not (math.isfinite(value) and np.all(where.slack(outputs) >= -CONSTRAINT_TOLERANCE)):  # NaN fails too
            return None
        if value > self.best:
            self.best, self.witness, self.case = value, point, case
        return value

    def sample(self, rng: np.random.Generator) -> None:
        """Offer the best of some random inputs, and the middle of the box, to every case."""
        points: dict[int, tuple[Array, Array]] = {}
        for k, case in enumerate(self.query.cases):
            if not np.isfinite(case.box.upper - case.box.lower).all():
                continue
            if id(case.box) not in points:
                x = np.vstack([case.box.sample(_SAMPLES, rng), _middle(case.box)])
                points[id(case.box)] = x, self.query.outputs(x)
            x, y = points[id(case.box)]
            values = y @ case.objective
            if len(case.constraint_offsets):
                values[np.any(y @ case.constraints.T + case.constraint_offsets < 0, axis=1)] = -math.inf
            if np.max(values) > -math.inf:
                self.offer(k, x[np.argmax(values)])

    def answer(self, otherwise: Status, note: str = "") -> Answer:
        """What is known as an answer; `otherwise` is the status where the goal is not reached."""
        attained = self.witness is not None and self.best >= self.query.floor
        status = self._status(otherwise)
        if self.contradicted:
            note = f"the solver's upper bound is below {self.best}, which the networks attain"
        return Answer(
            lower=self.lower,
            upper=self.upper,
            status=status,
            witness=self.witness if attained else None,
            case=self.case if attained else None,
            boxes=self.boxes,
            seconds=self.seconds,
            note="" if status.finished else note,
        )

    def _status(self, otherwise: Status) -> Status:
        if self.contradicted:
            return Status.FAILED
        if self.witness is None and max(self.upper_bounds) == -math.inf:
            return Status.INFEASIBLE
        threshold = self.goal.threshold
        if threshold is not None and (self.threshold_reached or self.upper < threshold):
            return Status.DECIDED
        return Status.EXACT if all(map(self.is_settled, range(len(self.upper_bounds)))) else otherwise


def _middle(box: Box) -> Array:
    middle: Array = box.lower / 2 + box.upper / 2
    return np.clip(middle, box.lower, box.upper)


def _repaired(query: Query, case: Case, x: Array) -> Array:
    """A point near x inside the constraints, by Newton steps; x itself where it satisfies them already.

    Solvers satisfy constraints to their own tolerance (1e-6 or so); the step needed is of that size.
    """
    point = x
    for _ in range(_REPAIRS):
        slack = case.slack(query.outputs(point))
        if not np.any(slack < 0) or not np.isfinite(slack).all():
            return point
        near = slack < _NEAR
        gradient = case.constraints[near] @ _jacobian(query, point)  # (near, inputs)
        if not np.isfinite(gradient).all():
            return point
        wanted = np.maximum(slack[near], CONSTRAINT_TOLERANCE) - slack[near]
        step = np.linalg.lstsq(gradient, wanted, rcond=None)[0]
        point = np.clip(point + step, case.box.lower, case.box.upper)
    return point


def _jacobian(query: Query, x: Array) -> Array:
    """The derivative of all outputs at x, (outputs, inputs)."""
    rows = []
    for network in query.networks:
        h = torch.as_tensor(x, device=network.layers[0].weight.device)
        slope = torch.eye(len(x), dtype=torch.float64, device=h.device)
        for layer in network.layers:
            z = layer.weight @ h + layer.bias
            slope = layer.derivative(z)[:, None] * (layer.weight @ slope)
            h = layer.activate(z)
        rows.append(slope.cpu().numpy())
    return np.vstack(rows)
