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

import torch

from karenina.engine.bounds import Linear, linear_forward, maximum
from karenina.engine.cases import Cases
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes, by_layer, flat
from karenina.engine.relaxation import Lines
from karenina.engine.rounding import Rounding

__all__ = ["Tight", "evaluate", "tighten"]

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

    def better(self, other: Tight) -> Tight:
        """Node by node, whichever has the lower bound."""
        wins = other.bound < self.bound
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return Tight(*(torch.where(wins if a.ndim == 1 else wins[:, None], b, a) for a, b in both))


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
    extra = by_layer(joint, nodes.neuron_multipliers) if split else None
    linear = maximum(joint, lines, nodes.lower, nodes.upper, coefficients, by_layer(joint, nodes.slopes), extra)
    bound = linear.value + constant
    if split:
        bound = bound + _neuron_constant(shared, nodes)
    bound = torch.nan_to_num(bound, nan=math.inf)
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


def tighten(shared: Bounder, nodes: Nodes, lines: list[Lines], target: float, steps: int, *, neurons: bool) -> Tight:
    """The best bound after some Polyak steps towards `target`."""
    best, linear = evaluate(shared, nodes, lines)
    found = best
    for _ in range(steps):
        nodes = _step(shared, nodes, lines, linear, found.bound, target, neurons=neurons)
        found, linear = evaluate(shared, nodes, lines)
        best = best.better(found)
    return best


def _step(
    shared: Bounder, nodes: Nodes, lines: list[Lines], linear: Linear, bound: Tensor, target: float, *, neurons: bool
) -> Nodes:
    joint = shared.joint
    hidden, outputs = linear_forward(joint, linear)
    low, high, gradient = [], [], []
    for z, reach, line in zip(hidden, linear.reach, lines, strict=True):
        positive = reach >= 0
        bottom, top, point, _ = (torch.where(positive, a, b) for a, b in zip(line.upper, line.lower, strict=True))
        low.append(bottom)
        high.append(top)
        gradient.append(torch.where(top > bottom, reach * (z - point), 0.0))
    slope_gradient, low_, high_ = flat(gradient), flat(low), flat(high)
    norm = slope_gradient.square().sum(1)
    changes = {}
    if shared.cases.constrained:
        row_gradient = shared.cases.slack(nodes.case, outputs) + 2 * shared.cases.row_error[nodes.case]
        row_gradient = torch.where((nodes.multipliers <= 0) & (row_gradient > 0), 0.0, row_gradient)
        norm = norm + row_gradient.square().sum(1)
    if neurons:
        neuron_gradient = _neuron_gradient(nodes, flat(hidden))
        norm = norm + neuron_gradient.square().sum(1)
    length = ((bound - target) / norm.clamp(min=1e-290))[:, None]
    length = torch.where(torch.isfinite(length), length, 0.0)
    moved = nodes.slopes.clamp(low_, high_) - length * slope_gradient
    changes["slopes"] = torch.where(slope_gradient != 0, moved.clamp(low_, high_), nodes.slopes)
    if shared.cases.constrained:
        changes["multipliers"] = (nodes.multipliers - length * row_gradient).clamp(min=0)
    if neurons:
        changes["neuron_multipliers"] = _move_neurons(nodes, length * neuron_gradient)
    return nodes.with_(**changes)


def _neuron_gradient(nodes: Nodes, z: Tensor) -> Tensor:
    """Derivative in the neuron multipliers: how far z lies outside the bound that each belongs to."""
    price = nodes.neuron_multipliers
    below, above = z - nodes.neuron_lower, z - nodes.neuron_upper
    on_lower = (price > 0) | ((price == 0) & (below < 0))
    on_upper = (price < 0) | ((price == 0) & (above > 0))
    return torch.where(on_lower, below, torch.where(on_upper, above, 0.0))


def _move_neurons(nodes: Nodes, step: Tensor) -> Tensor:
    """A multiplier stops at 0 before it changes sign."""
    price = nodes.neuron_multipliers
    moved = price - step
    return torch.where(moved * price < 0, 0.0, moved)
