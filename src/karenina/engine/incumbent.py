"""The incumbent: the best witness so far, and gradient ascent to find one.

Enters: points. Leaves: the largest value that is certain to be attained, rounding considered, and where.
"""

from __future__ import annotations

import math
import time

import torch

from karenina.engine.cases import Cases
from karenina.engine.exact import reaches_exactly
from karenina.engine.joint import Joint
from karenina.engine.polish import MOST_INPUTS, Polisher
from karenina.query import Goal, Query

__all__ = ["Incumbent", "ascend", "random_starts"]

Tensor = torch.Tensor
MOST_STARTS = 8192
EXACT_CHECKS = 64  # of points on the edge of a constraint: each takes milliseconds


class Incumbent:
    """The best certified value over all cases, its witness and its case."""

    def __init__(self, query: Query, joint: Joint, cases: Cases) -> None:
        self.query, self._joint, self._cases = query, joint, cases
        self.value = query.floor
        self.witness: Tensor | None = None
        self.case: int | None = None
        self._exact_checks = 0
        self._polished: float | None = None  # the value that polishing has already seen
        self._exactly: tuple[float, bool] | None = None  # the last value compared in exact arithmetic

    def offer(self, x: Tensor, case: Tensor) -> None:
        """Try points x (points, inputs), each for its case."""
        values, holds = self._cases.certified(case, self._joint.outputs(x))
        self._take(x, case, torch.where(holds > 0, values, -math.inf))
        if self._cases.constrained and self._exact_checks < EXACT_CHECKS:
            self._offer_in_doubt(x, case, torch.where(holds == 0, values, -math.inf))

    def _take(self, x: Tensor, case: Tensor, values: Tensor) -> None:
        best = int(values.argmax())
        value = float(values[best])
        if value > self.value or (self.witness is None and -math.inf < value == self.value):
            self.value, self.witness, self.case = value, x[best].clone(), int(case[best])

    def _offer_in_doubt(self, x: Tensor, case: Tensor, values: Tensor) -> None:
        """The best point on the very edge of a constraint: exact arithmetic tells whether it is inside."""
        best = int(values.argmax())
        value = float(values[best])
        if value <= self.value + 1e-9 * abs(self.value) or value == -math.inf:
            return
        self._exact_checks += 1
        inside = reaches_exactly(self.query, self.query.cases[int(case[best])], x[best].cpu().numpy(), value)
        if inside:
            self._take(x[best][None], case[best][None], values[best][None])

    def polish(self, deadline: float) -> None:
        """Climb from a new witness to an exact local maximum, where the query is piecewise linear."""
        if self.case is None or self.witness is None or self.value == self._polished:
            return
        linear = all(network.piecewise_linear for network in self.query.networks)
        if linear and self._joint.inputs <= MOST_INPUTS:
            x = Polisher(self._joint, self._cases, self.case)(self.witness.cpu().numpy(), deadline)
            self.offer(
                torch.as_tensor(x, device=self.witness.device)[None],
                torch.tensor([self.case], device=self.witness.device),
            )
        self._polished = self.value

    def snap(self) -> None:
        """Try points near the witness with few binary digits: a maximum that touches a threshold often has such."""
        if self.witness is None or self.case is None:
            return
        grid = 2.0 ** torch.arange(4, 44, 4, dtype=torch.float64, device=self.witness.device)[:, None]
        box = self._cases.lower[self.case], self._cases.upper[self.case]
        x = ((self.witness * grid).round() / grid).clamp(*box)
        self.offer(x, torch.full((len(x),), self.case, device=x.device))

    def decides(self, goal: Goal) -> bool:
        """Whether the value alone answers: it reaches the threshold, or the ceiling."""
        threshold = goal.threshold
        if self.value >= (goal.ceiling if threshold is None else min(threshold, goal.ceiling)):
            return True
        return threshold is not None and self.reaches(threshold)

    def reaches(self, threshold: float) -> bool:
        """Whether the witness attains the threshold; within rounding of it, exact arithmetic decides.

        When it does, `value` becomes the threshold.
        """
        if self.witness is None or self.case is None:
            return False
        if self.value >= threshold:
            return True
        if self.value + 2 * float(self._cases.error[self.case]) < threshold or (self._exactly == (self.value, False)):
            return False
        exactly = reaches_exactly(self.query, self.query.cases[self.case], self.witness.cpu().numpy(), threshold)
        self._exactly = (self.value, exactly)
        if exactly:
            self.value = threshold
        return exactly


def ascend(
    joint: Joint,
    cases: Cases,
    incumbent: Incumbent,
    x: Tensor,
    case: Tensor,
    box: tuple[Tensor, Tensor],
    *,
    steps: int,
    deadline: float,
) -> None:
    """Signed gradient ascent from points x inside their boxes; outside a constraint, towards it first."""
    lower, upper = box
    for k in range(steps):
        if time.perf_counter() > deadline:
            break
        hidden, outputs = joint.forward(x)
        rows = cases.objective[case]
        if cases.constrained:
            incumbent.offer(x, case)
            slack = cases.slack(case, outputs.movedim(0, 1).flatten(1)) - 2 * cases.row_error[case]
            violated = (slack < 0).to(x.dtype)
            repair = (violated[:, None] @ cases.rows[case]).squeeze(1)
            rows = torch.where((violated.sum(1) > 0)[:, None], repair, rows)
        move = joint.gradient(hidden, rows).sign() * (upper - lower) * (0.5 * 0.8**k)
        x = torch.minimum(torch.maximum(x + move, lower), upper)
    incumbent.offer(x, case)


def random_starts(cases: Cases, count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Uniform points in every case's box, fewer if there are many boxes, and the case of each; alike on all devices."""
    count = max(1, min(count, MOST_STARTS // len(cases.offset)))
    case = torch.arange(len(cases.offset)).repeat_interleave(count)[:MOST_STARTS]
    unit = torch.rand(
        (len(case), cases.lower.shape[1]), generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    case = case.to(cases.lower.device)
    lower, upper = cases.lower[case], cases.upper[case]
    return lower + unit.to(cases.lower.device) * (upper - lower), case
