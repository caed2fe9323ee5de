"""Branching: where to split a node that could not be closed, and the two halves.

Enters: nodes with their tight bounds. Leaves: each node's split, an input or a neuron, and the
children. The score of an input is the looseness that halving its width would take away: for every
neuron, the gap between its lines, times how much of the neuron's range the input accounts for. The
score of a neuron is its whole looseness at the maximising corner: a neuron split takes all of it.
"""

from __future__ import annotations

import torch

from karenina.engine.bounds import Hidden
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes, by_layer
from karenina.engine.tighten import Tight

__all__ = ["choose_split", "clip_box", "split"]

Tensor = torch.Tensor


def choose_split(joint: Joint, nodes: Nodes, tight: Tight, hidden: Hidden, neuron_weight: float) -> Tensor:
    """The split of each node: an input's index, or inputs + a neuron's."""
    width = nodes.upper - nodes.lower
    inputs = tight.slope.abs()
    neurons = []
    for k, reach in enumerate(by_layer(joint, tight.reach)):
        low, high, lines = hidden.lower[k], hidden.upper[k], hidden.lines[k]
        (up, up_constant), (down, down_constant) = lines.fixed(lines.upper), lines.fixed(lines.lower)
        tilt, shift = up - down, up_constant - down_constant
        gap = reach.abs() * torch.maximum(tilt * low, tilt * high).add(shift).clamp(min=0)
        share = gap / ((high - low) / 2 + 1e-300)
        inputs = inputs + (share[:, :, None] @ hidden.influence[k]).squeeze(2).sum(0)
        neurons.append(gap.movedim(0, 1).flatten(1))
    by_input = inputs * width
    if not neuron_weight or not neurons:
        return by_input.argmax(1)
    by_neuron = neuron_weight * torch.cat(neurons, 1)
    return torch.cat([by_input, by_neuron], 1).argmax(1)


def clip_box(nodes: Nodes, tight: Tight, target: float) -> tuple[Tensor, Tensor]:
    """The part of each box where the linear bound exceeds `target`: nothing outside can matter.

    With every other input at its best, input i may move at most (bound - target) / |slope_i| away from
    its best end. The slack covers the rounding of this computation (docs/soundness.md).
    """
    room = (tight.bound - target).clamp(min=0)[:, None]
    scale = (tight.slope.abs() * torch.maximum(nodes.lower.abs(), nodes.upper.abs())).sum(1, keepdim=True)
    room = room * (1 + 1e-12) + 1e-13 * (scale + tight.bound.abs()[:, None] + abs(target))
    move = room / tight.slope.abs().clamp(min=1e-290)
    lower = torch.where(tight.slope > 0, torch.maximum(nodes.lower, nodes.upper - move), nodes.lower)
    upper = torch.where(tight.slope < 0, torch.minimum(nodes.upper, nodes.lower + move), nodes.upper)
    return lower, upper


def split(joint: Joint, nodes: Nodes) -> Nodes:
    """Both children of every node."""
    inputs = nodes.lower.shape[1]
    by_input = nodes.split < inputs
    axis = torch.where(by_input, nodes.split, 0)[:, None]
    middle = ((nodes.lower + nodes.upper) / 2).gather(1, axis)
    upper = torch.where(by_input[:, None], nodes.upper.scatter(1, axis, middle), nodes.upper)
    lower = torch.where(by_input[:, None], nodes.lower.scatter(1, axis, middle), nodes.lower)
    if by_input.all():
        return Nodes.cat([nodes.with_(upper=upper), nodes.with_(lower=lower)])
    neuron = torch.where(by_input, 0, nodes.split - inputs)[:, None]
    point = _split_points(joint, nodes).gather(1, neuron)
    neuron_upper = torch.where(by_input[:, None], nodes.neuron_upper, nodes.neuron_upper.scatter(1, neuron, point))
    neuron_lower = torch.where(by_input[:, None], nodes.neuron_lower, nodes.neuron_lower.scatter(1, neuron, point))
    return Nodes.cat(
        [nodes.with_(upper=upper, neuron_upper=neuron_upper), nodes.with_(lower=lower, neuron_lower=neuron_lower)]
    )


def _split_points(joint: Joint, nodes: Nodes) -> Tensor:
    """Where each neuron is split: at a kink inside its range, else in the middle."""
    points = []
    layers = zip(by_layer(joint, nodes.neuron_lower), by_layer(joint, nodes.neuron_upper), joint.kinds, strict=True)
    for low, high, kind in layers:
        sizes = [count for _, count in kind.activations]
        parts = zip(kind.activations, torch.split(low, sizes, -1), torch.split(high, sizes, -1), strict=True)
        points.append(torch.cat([_point(activation.kinks, a, b) for (activation, _), a, b in parts], -1))
    return torch.cat([p.movedim(0, 1).flatten(1) for p in points], 1)


def _point(kinks: tuple[float, ...], low: Tensor, high: Tensor) -> Tensor:
    point = (low + high) / 2
    for kink in kinks:
        point = torch.where((low < kink) & (kink < high), kink, point)
    return point
