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

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from karenina.experiments.attack_tasks import SLACK, Task, tasks
from karenina.query import Answer, Goal, Query, Status

__all__ = ["FAILED", "LOWER_BOUND", "ConstrainedPgd", "Fgsm", "Pgd", "StrongAttack"]

Tensor = torch.Tensor
LOWER_BOUND = "a gradient attack: the upper end is unknown"
FAILED = "the attack arrived at no input that satisfies the constraints"
_DEFAULT = Goal()


def _answer(query: Query, goal: Goal, arrive: Callable[[Task], Tensor]) -> Answer:
    """The best feasible point that the attack arrives at; the networks themselves are asked there."""
    start = time.perf_counter()
    found = [candidate for task in tasks(query) for candidate in _candidates(query, task, arrive)]
    if not found:
        return Answer(query.floor, math.inf, Status.FAILED, seconds=time.perf_counter() - start, note=FAILED)
    value, place, x = max(found, key=lambda candidate: candidate[0])
    lower = max(value, query.floor)
    reached = goal.threshold is not None and value >= goal.threshold
    status = Status.DECIDED if reached else Status.FAILED
    return Answer(lower, math.inf, status, x, place, 0, time.perf_counter() - start, LOWER_BOUND)


def _candidates(
    query: Query, task: Task, arrive: Callable[[Task], Tensor]
) -> Iterator[tuple[float, int, npt.NDArray[np.float64]]]:
    """Value, case and input of every feasible point that the attack arrives at."""
    with torch.no_grad():
        points = task.point(arrive(task)).numpy()
    for point in points:
        x = np.clip(point, task.case.box.lower, task.case.box.upper)
        y = query.outputs(x)
        if (task.case.slack(y) >= -SLACK).all():
            value, place = max((query.cases[k].value(y), k) for k in task.places)
            yield value, place, x


def _middle(task: Task) -> Tensor:
    """The paper's start: (1, inputs)."""
    return torch.zeros(1, len(task.middle), dtype=torch.float64)


@dataclass(frozen=True)
class Fgsm:
    """Attack 1."""

    step: float = 1.0  # half-widths: to the border

    def answer(self, query: Query, goal: Goal = _DEFAULT) -> Answer:
        return _answer(query, goal, self._arrive)

    def _arrive(self, task: Task) -> Tensor:
        start = _middle(task)
        return (start + self.step * task.look(start).gradient().sign()).clamp(-1, 1)


@dataclass(frozen=True)
class Pgd:
    """Attack 2."""

    steps: int = 100
    step: float = 0.05

    def answer(self, query: Query, goal: Goal = _DEFAULT) -> Answer:
        return _answer(query, goal, self._arrive)

    def _arrive(self, task: Task) -> Tensor:
        return _ascended(task, _middle(task), None, self.steps, self.step)


def _ascended(task: Task, u: Tensor, multipliers: Tensor | None, steps: int, step: float) -> Tensor:
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

    def _arrive(self, task: Task) -> Tensor:
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

    def _arrive(self, task: Task) -> Tensor:
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
            move = velocity * (1 - self.momentum)
            move[::2] = velocity[::2].sign()  # steep and flat directions alike, which corners need
            u = (u + step * move).clamp(-1, 1)
            multiplier = (multiplier * self.multiplier_growth).clamp(max=1e3)
        return best[values.argsort(descending=True)[:1]]

    def _starts(self, task: Task) -> Tensor:
        """The middle (twice, for both kinds of steps), and points drawn at random, half of them corners.

        Where a query has many boxes or cases they share the starts, eight each at least.
        """
        generator = torch.Generator().manual_seed(self.seed)
        number = max(8, self.starts // task.beside)
        u = 2 * torch.rand(number, len(task.middle), generator=generator, dtype=torch.float64) - 1
        u[: number // 2] = u[: number // 2].sign()
        u[:2] = 0.0
        return u
