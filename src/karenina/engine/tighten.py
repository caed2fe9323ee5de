"""Tightening: slopes and multipliers chosen so that the bound of a node falls.

Enters: nodes with their hidden bounds, and the value below which a node is closed. Leaves: the same
nodes with a lower (never higher) bound, the slopes and multipliers that gave it, and the linear
function behind it.

Polyak's step, (bound - target) / |g|^2 along the derivative g, knows how far it has to go, and so
needs no step size: two or three are enough where Adam takes dozens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch

from karenina.engine.bounds import Linear, linear_forward, maximum
from karenina.engine.cases import Cases
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes, by_layer, flat, smooth
from karenina.engine.relaxation import Lines, envelope_slopes, turned
from karenina.engine.rounding import Rounding

__all__ = ["Block", "Bounder", "Tight", "evaluate", "tighten"]

Tensor = torch.Tensor


@dataclass(frozen=True, eq=False)
class Tight:
    """The best bound found for each node, and the linear function slope @ x + constant that gave it."""

    bound: Tensor  # (nodes,)
    slopes: Tensor  # (nodes, neurons)
    multipliers: Tensor  # (nodes, constraints)
    neuron_multipliers: Tensor  # (nodes, neurons)
    slope: Tensor  # (nodes, inputs)
    corner: Tensor  # (nodes, inputs)
    reach: Tensor  # (nodes, neurons)

    def take(self, index: Tensor) -> Tight:
        """Those of some nodes."""
        return Tight(*(t[index] for t in vars(self).values()))

    def put(self, index: Tensor, some: Tight) -> Tight:
        """With those of some nodes replaced."""
        return Tight(
            *(t.index_copy(0, index, new) for t, new in zip(vars(self).values(), vars(some).values(), strict=True))
        )

    def better(self, other: Tight) -> Tight:
        """Node by node, whichever has the lower bound."""
        wins = other.bound < self.bound
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return Tight(*(torch.where(wins if a.ndim == 1 else wins[:, None], b, a) for a, b in both))


class Block(Protocol):
    """Some of what may be chosen freely, and how to move it so that the bound falls by `excess`."""

    def move(self, nodes: Nodes, lines: list[Lines], linear: Linear, excess: Tensor) -> Nodes: ...


@dataclass(frozen=True, eq=False)
class Bounder:
    """What all nodes of a search share."""

    joint: Joint
    cases: Cases
    rounding: Rounding


def evaluate(shared: Bounder, nodes: Nodes, lines: list[Lines]) -> tuple[Tight, Linear]:
    """The bound that the nodes' own slopes and multipliers give."""
    joint, split = shared.joint, bool(nodes.neuron_multipliers.any())
    coefficients, constant = shared.cases.lagrangian(nodes.case, nodes.multipliers)
    ranges = by_layer(joint, nodes.neuron_lower), by_layer(joint, nodes.neuron_upper), by_layer(joint, nodes.slopes)
    lines = [turned(*each) for each in zip(joint.kinds, lines, *ranges, strict=True)]
    extra = by_layer(joint, nodes.neuron_multipliers) if split else None
    linear = maximum(joint, lines, nodes.lower, nodes.upper, coefficients, by_layer(joint, nodes.slopes), extra)
    bound = linear.value + constant
    if split:
        bound = bound + _neuron_constant(shared, nodes)
    bound = torch.nan_to_num(bound, nan=math.inf, posinf=math.inf, neginf=math.inf)  # overflow proves nothing
    found = (
        bound,
        nodes.slopes,
        nodes.multipliers,
        nodes.neuron_multipliers,
        linear.slope,
        linear.corner,
        flat(linear.reach),
    )
    return Tight(*found), linear


def _neuron_constant(shared: Bounder, nodes: Nodes) -> Tensor:
    """The constant part of neuron_multipliers * (z - bound), and its rounding."""
    price = nodes.neuron_multipliers
    edge = torch.where(price > 0, nodes.neuron_lower, nodes.neuron_upper)
    error = flat(shared.rounding.hidden)
    return (price.abs() * 2 * error - torch.where(price != 0, price * edge, 0.0)).sum(1)


def tighten(shared: Bounder, nodes: Nodes, lines: list[Lines], aim: float, enough: float, steps: int) -> Tight:
    """The best bound after some steps towards `aim`: multipliers of constraints and slopes take turns.

    No more steps are made once every bound is at most `enough`.
    """
    best, linear = evaluate(shared, nodes, lines)
    bound, reach = best.bound, torch.ones_like(best.bound)  # the share of the way to the aim that a step tries
    blocks: list[Block] = [_Slopes(shared)]
    if shared.cases.constrained:
        blocks.insert(0, _Multipliers(shared))
    for _ in range(steps):
        for block in blocks:
            if bool((best.bound <= enough).all()):
                return best
            nodes = block.move(nodes, lines, linear, reach * (bound - aim))
            found, linear = evaluate(shared, nodes, lines)
            bound = found.bound
            reach = torch.where(bound < best.bound, reach, 0.9 * reach)  # it overshot: be humbler
            best = best.better(found)
    return best


def _length(excess: Tensor, gradient: Tensor, direction: Tensor) -> Tensor:
    """How far along -direction the bound would fall by `excess` (nodes,) if it were linear, (nodes, 1)."""
    length = excess / (gradient * direction).sum(1).clamp(min=1e-290)
    return torch.where(torch.isfinite(length), length, 0.0)[:, None]


class _Slopes:
    """Polyak's step in coordinates scaled by the derivatives seen so far (as AdaGrad does), with momentum.

    Derivatives of slopes in the first layer are larger than in the last by the weights between; unscaled steps
    zigzag between the two. Slopes of smooth activations go part of the way to those that are best at the corner, a
    half, a third, a quarter: no step knows better, for their lines turn with the point that they touch.
    """

    def __init__(self, shared: Bounder) -> None:
        self._joint = shared.joint
        self._squares: Tensor | float = 0.0
        self._momentum: Tensor | float = 0.0
        self._moves = 0
        self._smooth = smooth(shared.joint)

    def move(self, nodes: Nodes, lines: list[Lines], linear: Linear, excess: Tensor) -> Nodes:
        hidden, _ = linear_forward(self._joint, linear)
        gradient, least, most = self._gradient(lines, linear, hidden)
        self._squares = self._squares + gradient.square()
        direction = gradient / (self._squares.sqrt() + 1e-290)
        self._momentum = 0.5 * self._momentum + direction
        moved = nodes.slopes.clamp(least, most) - _length(excess, gradient, direction) * self._momentum
        slopes = torch.where(gradient != 0, moved.clamp(least, most), nodes.slopes)
        self._moves += 1
        if self._smooth.any():
            best = self._envelopes(nodes, lines, linear, hidden)
            slopes = torch.where(self._smooth, slopes + (best - slopes) / (1 + self._moves), slopes)
        return nodes.with_(slopes=slopes)

    def _envelopes(self, nodes: Nodes, lines: list[Lines], linear: Linear, hidden: list[Tensor]) -> Tensor:
        """The slopes that are best at the corner."""
        joint, above = self._joint, [reach >= 0 for reach in linear.reach]
        ranges = by_layer(joint, nodes.neuron_lower), by_layer(joint, nodes.neuron_upper)
        return flat([envelope_slopes(*each) for each in zip(joint.kinds, lines, *ranges, hidden, above, strict=True)])

    def _gradient(self, lines: list[Lines], linear: Linear, hidden: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The derivative in each slope, 0 where it is not free, and the range of each."""
        low, high, gradient = [], [], []
        for z, reach, line in zip(hidden, linear.reach, lines, strict=True):
            bottom, top, point, _ = (torch.where(reach >= 0, a, b) for a, b in zip(line.upper, line.lower, strict=True))
            low.append(bottom)
            high.append(top)
            gradient.append(torch.where(top > bottom, reach * (z - point), 0.0))
        return flat(gradient), flat(low), flat(high)


class _Multipliers:
    """Polyak's step for the multipliers of the constraints."""

    def __init__(self, shared: Bounder) -> None:
        self._shared = shared

    def move(self, nodes: Nodes, _: list[Lines], linear: Linear, excess: Tensor) -> Nodes:
        cases, outputs = self._shared.cases, linear_forward(self._shared.joint, linear)[1]
        gradient = cases.slack(nodes.case, outputs) + 2 * cases.row_error[nodes.case]
        gradient = torch.where((nodes.multipliers <= 0) & (gradient > 0), 0.0, gradient)
        step = _length(excess, gradient, gradient) * gradient
        return nodes.with_(multipliers=(nodes.multipliers - step).clamp(min=0))
