"""Linear bounds, propagated back to the shared input: what a batch of boxes can at most attain.

Enters: boxes, and for each an objective over the outputs. Leaves: bounds of every pre-activation
(`hidden_bounds`), and of the objective (`maximum`): a linear function of x that lies above it on the
whole box, the corner where that function is largest, and the derivative of the bound in everything
that may be chosen freely: slopes, and multipliers of constraints.

The bound is a Lagrangian: any slopes in range and any multipliers >= 0 give a sound bound, good
ones a tight one. Its derivative needs no autograd: it is one forward pass through the chosen lines
at the maximising corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from karenina.engine.joint import Joint, affine
from karenina.engine.relaxation import Lines, Side, relax
from karenina.engine.rounding import Rounding

__all__ = ["Hidden", "Linear", "backward_bounds", "hidden_bounds", "linear_forward", "maximum"]

Tensor = torch.Tensor


@dataclass(frozen=True, eq=False)
class Hidden:
    """Bounds of each hidden layer's pre-activations z, their lines, and the linear functions of x behind the bounds:
    z <= rows[0] @ x + constants[0] and -z <= rows[1] @ x + constants[1], zero where a bound was not needed.
    """

    lower: list[Tensor]  # (S, boxes, neurons) a layer
    upper: list[Tensor]
    lines: list[Lines]
    rows: list[Tensor]  # (2, S, boxes or 1, neurons, inputs) a layer
    constants: list[Tensor]  # (2, S, boxes or 1, neurons) a layer

    def take(self, index: Tensor) -> Hidden:
        """The same for some of the boxes."""

        def pick(t: Tensor, axis: int = 1) -> Tensor:
            return t.index_select(axis, index) if t.shape[axis] > 1 else t

        lines = [Lines(Side(*map(pick, x.upper)), Side(*map(pick, x.lower)), pick(x.start)) for x in self.lines]
        rows, constants = ([pick(t, 2) for t in tensors] for tensors in (self.rows, self.constants))
        return Hidden([*map(pick, self.lower)], [*map(pick, self.upper)], lines, rows, constants)


class Linear(NamedTuple):
    """objective(x) <= slope @ x + constant on each box; `value` is the largest, at `corner`."""

    value: Tensor  # (boxes,), rounding included
    slope: Tensor  # (boxes, inputs)
    corner: Tensor  # (boxes, inputs)
    reach: list[Tensor]  # each layer's coefficients on the activations' outputs, (S, boxes, neurons)
    chosen: list[tuple[Tensor, Tensor]]  # each layer's slope and intercept in use


def hidden_bounds(
    joint: Joint,
    rounding: Rounding,
    lower: Tensor,
    upper: Tensor,
    known: Sequence[tuple[Tensor, Tensor]],
) -> Hidden:
    """Bounds of all pre-activations on boxes [lower, upper] (boxes, inputs), within those already known."""
    hidden = Hidden([], [], [], [], [])
    centre, radius = (upper + lower) / 2, (upper - lower) / 2
    fixed: list[tuple[Tensor, ...]] = []  # slope and intercept of each layer's upper lines, then of its lower lines
    for k, (known_low, known_high) in enumerate(known):
        rows, constants, bounds = backward_bounds(joint, fixed, k, centre, radius)
        high = torch.minimum(bounds[0] + rounding.hidden[k], known_high)
        low = torch.maximum(-bounds[1] - rounding.hidden[k], known_low)
        lines = relax(joint.kinds[k], low, high)
        fixed.append((*lines.fixed(lines.upper), *lines.fixed(lines.lower)))
        hidden.lower.append(low)
        hidden.upper.append(high)
        hidden.lines.append(lines)
        hidden.rows.append(rows)
        hidden.constants.append(constants)
    return hidden


def backward_bounds(
    joint: Joint, fixed: Sequence[tuple[Tensor, ...]], k: int, centre: Tensor, radius: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Linear functions above layer k's z and -z, (2, S, boxes or 1, neurons, inputs), constants and maxima."""
    weight, bias = joint.weights[k], joint.biases[k]
    rows = torch.cat([weight, -weight], 1)[:, None]  # (S, 1, 2n, previous)
    constant = torch.cat([bias, -bias], 2)  # (S, 1, 2n)
    for j in reversed(range(k)):
        up, up_constant, down, down_constant = fixed[j]
        positive = rows.clamp(min=0)
        negative = rows - positive
        constant = constant + _rows_at(positive, up_constant) + _rows_at(negative, down_constant)
        rows = positive * up[:, :, None] + negative * down[:, :, None]
        constant = constant + _rows_at(rows, joint.biases[j])
        rows = rows @ joint.weights[j][:, None]
    bound = constant + _rows_at(rows, centre[None]) + _rows_at(rows.abs(), radius[None])
    n = weight.shape[1]
    rows, constant, bound = (torch.stack([t[:, :, :n], t[:, :, n:]]) for t in (rows, constant, bound))
    return rows, constant, bound


def _rows_at(rows: Tensor, x: Tensor) -> Tensor:
    """rows @ x: (S, boxes or 1, rows, n) and (S or 1, boxes or 1, n) -> (S, boxes or 1, rows)."""
    if rows.shape[1] == 1:
        return x @ rows[:, 0].mT
    return (rows @ x[..., None]).squeeze(-1)


def maximum(
    joint: Joint,
    lines: list[Lines],
    lower: Tensor,
    upper: Tensor,
    objective: Tensor,
    slopes: list[Tensor],
    extra: list[Tensor] | None = None,
) -> Linear:
    """A linear upper bound of objective @ outputs (without rounding and offset), and where it is largest.

    objective: (boxes, outputs). slopes: each layer's slopes on free sides. extra: coefficients added on
    each layer's pre-activations (multipliers of bounds on neurons).
    """
    coefficient = joint.coefficients(objective)  # (S, boxes, outputs of one)
    constant = (coefficient * joint.biases[-1]).sum((0, 2))
    coefficient = coefficient @ joint.weights[-1]
    reach: list[Tensor] = []
    chosen: list[tuple[Tensor, Tensor]] = []
    for k in reversed(range(joint.depth)):
        upside, downside, _ = lines[k]
        positive = coefficient >= 0
        low, high, point, value = (torch.where(positive, a, b) for a, b in zip(upside, downside, strict=True))
        slope = torch.maximum(torch.minimum(slopes[k], high), low)
        intercept = value - slope * point
        reach.append(coefficient)
        chosen.append((slope, intercept))
        constant = constant + (coefficient * intercept).sum((0, 2))
        coefficient = coefficient * slope
        if extra is not None:
            coefficient = coefficient + extra[k]
        constant = constant + (coefficient * joint.biases[k]).sum((0, 2))
        coefficient = coefficient @ joint.weights[k]
    total = coefficient.sum(0)  # (boxes, inputs)
    corner = torch.where(total >= 0, upper, lower)
    value = constant + (total * corner).sum(1)
    return Linear(value, total, corner, reach[::-1], chosen[::-1])


def linear_forward(joint: Joint, linear: Linear) -> tuple[list[Tensor], Tensor]:
    """Pre-activations and outputs (boxes, outputs) at the corner, through the lines in use."""
    h, hidden = linear.corner[None], []
    for k, (slope, intercept) in enumerate(linear.chosen):
        z = affine(h, joint.weights[k], joint.biases[k])
        hidden.append(z)
        h = slope * z + intercept
    return hidden, affine(h, joint.weights[-1], joint.biases[-1]).movedim(0, 1).flatten(1)
