"""Gradient attacks as back ends (appendix G): they answer a `Query` with a lower bound only.

Enters: a query. Leaves: an `Answer` whose witness is where the attack arrived, and whose upper end is infinite. Where
the attack arrived at no input that satisfies the constraints, the answer has no witness and its note says so.

    Fgsm            one step along the gradient's sign, from the middle to the border of the domain
    Pgd             many small steps, each projected onto the domain
    ConstrainedPgd  the paper's: a penalty on violated constraints, its multipliers found anew in every round
    StrongAttack    many starts, momentum, growing multipliers, and the best feasible input of the whole way

The paper's L(x) = |N1(x) - N2(x)| is the largest objective of the cases that share a box and constraints. Steps are
measured in half-widths of the box, since the paper does not say in which units its step sizes are.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from karenina.network import Network, concatenate
from karenina.query import Answer, Case, Goal, Query, Status

__all__ = ["FAILED", "LOWER_BOUND", "ConstrainedPgd", "Fgsm", "Pgd", "StrongAttack"]

Tensor = torch.Tensor
LOWER_BOUND = "a gradient attack: the upper end is unknown"
FAILED = "the attack arrived at no input that satisfies the constraints"
_SLACK = 1e-9  # as the other back ends: a constraint violated by less holds
_DEFAULT = Goal()


@dataclass(frozen=True, eq=False)
class _Task:
    """Cases that share box and constraints: maximise the largest of their objectives."""

    joint: Network  # all networks of the query as one
    places: tuple[int, ...]  # of the cases
    case: Case
    objectives: Tensor  # (cases, outputs)
    offsets: Tensor  # (cases,)
    rows: Tensor  # (constraints, outputs)
    row_offsets: Tensor  # (constraints,)
    middle: Tensor  # (inputs,)
    half: Tensor  # (inputs,)

    def point(self, u: Tensor) -> Tensor:
        """Inputs from places in the box, which are in [-1, 1]."""
        return self.middle + self.half * u

    def look(self, u: Tensor) -> _Look:
        """The networks at places (points, inputs)."""
        h, slopes = self.point(u), []
        for layer in self.joint.layers:
            z = h @ layer.weight.T + layer.bias
            slopes.append(layer.derivative(z))
            h = layer.activate(z)
        return _Look(self, h, slopes)


@dataclass(frozen=True, eq=False)
class _Look:
    """Values and gradients at some points."""

    task: _Task
    outputs: Tensor  # (points, outputs)
    slopes: list[Tensor]  # of the activations, layer by layer

    @property
    def values(self) -> Tensor:
        """(points,) L(x)."""
        return (self.outputs @ self.task.objectives.T + self.task.offsets).max(1).values

    @property
    def slack(self) -> Tensor:
        """(points, constraints), negative where violated."""
        return self.outputs @ self.task.rows.T + self.task.row_offsets

    @property
    def feasible(self) -> Tensor:
        return (self.slack >= -_SLACK).all(1)

    def gradient(self, multipliers: Tensor | None = None) -> Tensor:
        """(points, inputs) of L(x) - sum of multipliers * violation, in half-widths of the box."""
        task = self.task
        best = (self.outputs @ task.objectives.T + task.offsets).argmax(1)
        back = task.objectives[best]
        if multipliers is not None:
            back = back + (multipliers * (self.slack < 0)) @ task.rows
        for layer, slope in zip(reversed(task.joint.layers), reversed(self.slopes), strict=True):
            back = (back * slope) @ layer.weight
        return back * task.half


def _tasks(query: Query) -> list[_Task]:
    groups: dict[bytes, list[int]] = {}
    for place, case in enumerate(query.cases):
        parts = (case.box.lower, case.box.upper, case.constraints, case.constraint_offsets)
        groups.setdefault(b"".join(part.tobytes() for part in parts), []).append(place)
    return [_task(query, places) for places in groups.values()]


def _task(query: Query, places: list[int]) -> _Task:
    cases = [query.cases[place] for place in places]
    box, own = cases[0].box, cases[0]
    rows = own.constraints if len(own.constraint_offsets) else np.zeros((0, query.output_size))
    return _Task(
        functools.reduce(concatenate, query.networks),
        tuple(places),
        own,
        torch.as_tensor(np.stack([case.objective for case in cases])),
        torch.tensor([case.offset for case in cases], dtype=torch.float64),
        torch.as_tensor(rows),
        torch.as_tensor(own.constraint_offsets),
        torch.as_tensor((box.lower + box.upper) / 2),
        torch.as_tensor((box.upper - box.lower) / 2),
    )


def _answer(query: Query, goal: Goal, arrive: Callable[[_Task], Tensor]) -> Answer:
    """The best feasible point that the attack arrives at; the networks themselves are asked there."""
    start = time.perf_counter()
    found = [candidate for task in _tasks(query) for candidate in _candidates(query, task, arrive)]
    if not found:
        return Answer(query.floor, math.inf, Status.FAILED, seconds=time.perf_counter() - start, note=FAILED)
    value, place, x = max(found, key=lambda candidate: candidate[0])
    lower = max(value, query.floor)
    reached = goal.threshold is not None and value >= goal.threshold
    status = Status.DECIDED if reached else Status.FAILED
    return Answer(lower, math.inf, status, x, place, 0, time.perf_counter() - start, LOWER_BOUND)


def _candidates(
    query: Query, task: _Task, arrive: Callable[[_Task], Tensor]
) -> Iterator[tuple[float, int, npt.NDArray[np.float64]]]:
    """Value, case and input of every feasible point that the attack arrives at."""
    with torch.no_grad():
        points = task.point(arrive(task)).numpy()
    for point in points:
        x = np.clip(point, task.case.box.lower, task.case.box.upper)
        y = query.outputs(x)
        if (task.case.slack(y) >= -_SLACK).all():
            value, place = max((query.cases[k].value(y), k) for k in task.places)
            yield value, place, x


def _middle(task: _Task) -> Tensor:
    """The paper's start: (1, inputs)."""
    return torch.zeros(1, len(task.middle), dtype=torch.float64)


@dataclass(frozen=True)
class Fgsm:
    """Attack 1."""

    step: float = 1.0  # half-widths: to the border

    def answer(self, query: Query, goal: Goal = _DEFAULT) -> Answer:
        return _answer(query, goal, self._arrive)

    def _arrive(self, task: _Task) -> Tensor:
        start = _middle(task)
        return (start + self.step * task.look(start).gradient().sign()).clamp(-1, 1)


@dataclass(frozen=True)
class Pgd:
    """Attack 2."""

    steps: int = 100
    step: float = 0.05

    def answer(self, query: Query, goal: Goal = _DEFAULT) -> Answer:
        return _answer(query, goal, self._arrive)

    def _arrive(self, task: _Task) -> Tensor:
        return _ascended(task, _middle(task), None, self.steps, self.step)


def _ascended(task: _Task, u: Tensor, multipliers: Tensor | None, steps: int, step: float) -> Tensor:
    for _ in range(steps):
        u = (u + step * task.look(u).gradient(multipliers).sign()).clamp(-1, 1)
    return u


@dataclass(frozen=True)
class ConstrainedPgd:
    """Attack 3: rounds of multipliers (from 0, by gradient steps) and of steps of x, which goes on from where it is.

    The paper's returns where it ends, which is often a little outside the constraints; with `keep` it is the best
    feasible input at the end of any round.
    """

    rounds: int = 30
    steps: int = 10
    multiplier_steps: int = 10
    step: float = 0.02
    multiplier_step: float = 1.0
    keep: bool = False

    def answer(self, query: Query, goal: Goal = _DEFAULT) -> Answer:
        return _answer(query, goal, self._arrive)

    def _arrive(self, task: _Task) -> Tensor:
        u = best = _middle(task)
        most = -math.inf
        for _ in range(self.rounds):
            # The derivative by a multiplier is minus the violation, whatever the multiplier: the steps add up.
            violation = (-task.look(u).slack).clamp(min=0)
            multipliers = self.multiplier_steps * self.multiplier_step * violation
            u = _ascended(task, u, multipliers, self.steps, self.step)
            look = task.look(u)
            if bool(look.feasible) and float(look.values) > most:
                best, most = u, float(look.values)
        return best if self.keep and most > -math.inf else u


@dataclass(frozen=True)
class StrongAttack:
    """What a fair competitor would do; it keeps the best feasible input it passes."""

    starts: int = 64
    steps: int = 200
    momentum: float = 0.9
    first_step: float = 0.2
    last_step: float = 0.001
    multiplier_growth: float = 1.1
    seed: int = 0

    def answer(self, query: Query, goal: Goal = _DEFAULT) -> Answer:
        return _answer(query, goal, self._arrive)

    def _arrive(self, task: _Task) -> Tensor:
        u = self._starts(task)
        velocity = torch.zeros_like(u)
        best, values = u.clone(), torch.full((len(u),), -math.inf, dtype=torch.float64)
        multiplier = torch.ones(1, dtype=torch.float64)
        for k in range(self.steps + 1):
            look = task.look(u)
            value = torch.where(look.feasible, look.values, -math.inf)
            best[value > values] = u[value > values]
            values = torch.maximum(values, value)
            gradient = look.gradient(multiplier.expand(len(u), len(task.rows)))
            velocity = self.momentum * velocity + gradient / gradient.abs().amax(1, keepdim=True).clamp(min=1e-30)
            step = self.first_step * (self.last_step / self.first_step) ** (k / self.steps)
            u = (u + step * velocity * (1 - self.momentum)).clamp(-1, 1)
            multiplier = (multiplier * self.multiplier_growth).clamp(max=1e3)
        return best[values.argsort(descending=True)[:1]]

    def _starts(self, task: _Task) -> Tensor:
        """The middle, and points drawn at random, half of them corners."""
        generator = torch.Generator().manual_seed(self.seed)
        u = 2 * torch.rand(self.starts, len(task.middle), generator=generator, dtype=torch.float64) - 1
        u[::2] = u[::2].sign()
        u[0] = 0.0
        return u
