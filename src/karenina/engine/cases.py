"""A query's cases as tensors: objectives, constraints, and the rounding each bound must allow for.

Enters: a `Query` and its `Joint`. Leaves: `Cases`, with the Lagrangian of a batch of nodes and the
certified value of points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from karenina.engine.joint import Joint
from karenina.engine.rounding import UNIT, Rounding
from karenina.query import Query

__all__ = ["Cases"]

Tensor = torch.Tensor


@dataclass(frozen=True, eq=False)
class Cases:
    """Rows padded to one number of constraints (0 @ y + 0 >= 0 always holds)."""

    lower: Tensor  # (cases, inputs)
    upper: Tensor
    objective: Tensor  # (cases, outputs)
    offset: Tensor  # (cases,)
    rows: Tensor  # (cases, constraints, outputs)
    row_offset: Tensor  # (cases, constraints)
    error: Tensor  # (cases,) rounding of a bound of the objective, or of its value at a point
    row_error: Tensor  # (cases, constraints)
    least: float  # no input of any case has an objective below this

    @classmethod
    def of(cls, query: Query, joint: Joint, device: torch.device, *, near: bool = False) -> tuple[Cases, Rounding]:
        def tensor(values: list[np.ndarray]) -> Tensor:
            return torch.as_tensor(np.stack(values), dtype=torch.float64, device=device)

        count = max(len(case.constraint_offsets) for case in query.cases)
        rows, row_offset = np.zeros((len(query.cases), count, query.output_size)), np.zeros((len(query.cases), count))
        for i, case in enumerate(query.cases):
            rows[i, : len(case.constraint_offsets)] = case.constraints if len(case.constraint_offsets) else 0
            row_offset[i, : len(case.constraint_offsets)] = case.constraint_offsets
        lower, upper = (
            tensor([case.box.lower for case in query.cases]),
            tensor([case.box.upper for case in query.cases]),
        )
        objective, offset = (
            tensor([case.objective for case in query.cases]),
            tensor([np.array(case.offset) for case in query.cases]),
        )
        g, h = torch.as_tensor(rows, device=device), torch.as_tensor(row_offset, device=device)
        rounding = Rounding.of(joint, lower.amin(0), upper.amax(0), near=near)
        # 2x: a row's own products and sums with the outputs, and those over the constraints, round once more
        gamma = 4 * (query.output_size + count + 4) * UNIT
        each = 2 * rounding.outputs + gamma * rounding.magnitude
        error = objective.abs() @ each + gamma * offset.abs() + rounding.underflow
        row_error = g.abs() @ each + gamma * h.abs() + rounding.underflow
        least = float((offset - objective.abs() @ rounding.magnitude - 2 * error).min())
        return cls(
            lower, upper, objective, offset, g, h, error, row_error, math.nextafter(least - 1e-280, -math.inf)
        ), rounding

    @property
    def constrained(self) -> bool:
        return self.rows.shape[1] > 0

    def lagrangian(self, case: Tensor, multipliers: Tensor) -> tuple[Tensor, Tensor]:
        """Objective + multipliers * constraints: coefficients (nodes, outputs), and the constant with all rounding."""
        constant = self.offset[case] + self.error[case]
        if not self.constrained:
            return self.objective[case], constant
        coefficients = self.objective[case] + (multipliers[:, None] @ self.rows[case]).squeeze(1)
        return coefficients, constant + (multipliers * (self.row_offset[case] + 2 * self.row_error[case])).sum(1)

    def slack(self, case: Tensor, outputs: Tensor) -> Tensor:
        """Constraint values (nodes, constraints) at outputs (nodes, outputs)."""
        return (self.rows[case] @ outputs[..., None]).squeeze(-1) + self.row_offset[case]

    def certified(self, case: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Values surely attained at these outputs, and whether the constraints hold: 1 yes, -1 no, 0 in doubt."""
        value = (outputs * self.objective[case]).sum(1) + self.offset[case] - self.error[case]
        value = torch.where(torch.isfinite(value), value, -math.inf)
        if not self.constrained:
            return value, torch.ones_like(value)
        slack, error = self.slack(case, outputs), self.row_error[case]
        doubt = torch.where((slack < -error).any(1), -1.0, 0.0)
        return value, torch.where((slack >= error).all(1), torch.ones_like(value), doubt)
