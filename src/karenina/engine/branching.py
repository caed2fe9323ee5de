"""Branching: where to split a node that could not be closed, and the two halves.

Enters: nodes with their tight bounds. Leaves: each node's split, an input or a neuron, and the
children. The score of an input is the looseness that halving its width would take away: for every
neuron, the gap between its lines, times how much of the neuron's range the input accounts for.
Once few neurons are loose, the loosest neuron is split instead, at its kink: after at most that many
such splits every neuron is linear and the bound is exact, so the search ends.
"""

from __future__ import annotations

import math

import torch

from karenina.engine.bounds import Hidden
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes, by_layer, flat
from karenina.engine.tighten import Tight

__all__ = ["choose_split", "clip_box", "split"]

Tensor = torch.Tensor


def choose_split(
    joint: Joint, nodes: Nodes, tight: Tight, hidden: Hidden, least_width: Tensor, endgame: int
) -> tuple[Tensor, Tensor]:
    """The split of each node: an input's index, or inputs + a neuron's where at most `endgame` neurons are loose.

    The second tensor is the next best input, for splitting twice. Inputs narrower than `least_width`
    (nodes, inputs) are left alone.
    """
    by_input = tight.slope.abs()
    gaps = []
    for k, reach in enumerate(by_layer(joint, tight.reach)):
        low, high, lines = hidden.lower[k], hidden.upper[k], hidden.lines[k]
        (up, up_constant), (down, down_constant) = lines.fixed(lines.upper), lines.fixed(lines.lower)
        tilt, shift = up - down, up_constant - down_constant
        gap = reach.abs() * torch.maximum(tilt * low, tilt * high).add(shift).clamp(min=0)
        share = gap / ((high - low) / 2 + 1e-300)
        by_input = by_input + (share[:, :, None] @ hidden.rows[k][0].abs()).squeeze(2).sum(0)
        gaps.append(gap)
    kinked = _kinked(joint, nodes)
    by_neuron = torch.where(kinked, flat(gaps), 0.0)
    loose = (by_neuron > 1e-12 * tight.bound.abs()[:, None]).sum(1)
    # Where the objective is linear but the cuts are not: a neuron that bends a cut.
    bent = (loose == 0) & (nodes.cut_lower | nodes.cut_upper).any(1)
    by_neuron = torch.where(bent[:, None] & kinked, nodes.neuron_upper - nodes.neuron_lower, by_neuron)
    loose = torch.where(bent, kinked.sum(1), loose)
    width = nodes.upper - nodes.lower
    score = torch.where(width > least_width, by_input * width, -1.0)
    flat_score = score.amax(1, keepdim=True) <= 0  # nothing tells the inputs apart: take the widest
    score = torch.where(flat_score, torch.where(width > least_width, width, -1.0), score)
    best = score.topk(min(2, joint.inputs), 1).indices
    endgame_now = (loose > 0) & (loose <= endgame)
    return torch.where(endgame_now, joint.inputs + by_neuron.argmax(1), best[:, 0]), best[:, -1]


def _kinked(joint: Joint, nodes: Nodes) -> Tensor:
    """Neurons of piecewise-linear kind with a kink inside their range, (nodes, neurons)."""
    inside = []
    layers = zip(by_layer(joint, nodes.neuron_lower), by_layer(joint, nodes.neuron_upper), joint.kinds, strict=True)
    for low, high, kind in layers:
        within = torch.zeros_like(low, dtype=torch.bool)
        start = 0
        for activation, count in kind.activations:
            part = slice(start, start + count)
            for kink in activation.kinks if activation.piecewise_linear else ():
                within[..., part] |= (low[..., part] < kink) & (kink < high[..., part])
            start += count
        inside.append(within)
    return flat(inside)


def clip_box(nodes: Nodes, tight: Tight, target: float) -> tuple[Tensor, Tensor]:
    """The part of each box where the linear bound exceeds `target`: nothing outside can matter.

    With every other input at its best, input i may move at most (bound - target) / |slope_i| away from
    its best end. The slack covers the rounding of this computation (docs/soundness.md).
    """
    room = (tight.bound - target).clamp(min=0)[:, None]
    scale = (tight.slope.abs() * torch.maximum(nodes.lower.abs(), nodes.upper.abs())).sum(1, keepdim=True)
    room = room * (1 + 1e-12) + 1e-13 * (scale + tight.bound.abs()[:, None] + abs(target))
    move = torch.nan_to_num(room / tight.slope.abs(), nan=math.inf)
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
    chosen = torch.zeros_like(nodes.cut_lower).scatter(1, neuron, True) & ~by_input[:, None]
    below = nodes.with_(
        upper=upper,
        neuron_upper=torch.where(chosen, point, nodes.neuron_upper),
        cut_upper=nodes.cut_upper | chosen,
    )
    above = nodes.with_(
        lower=lower,
        neuron_lower=torch.where(chosen, point, nodes.neuron_lower),
        cut_lower=nodes.cut_lower | chosen,
    )
    return Nodes.cat([below, above])


def _split_points(joint: Joint, nodes: Nodes) -> Tensor:
    """Where each neuron is split: at a kink inside its range, else in the middle."""
    points = []
    layers = zip(by_layer(joint, nodes.neuron_lower), by_layer(joint, nodes.neuron_upper), joint.kinds, strict=True)
    for low, high, kind in layers:
        sizes = [count for _, count in kind.activations]
        parts = zip(kind.activations, torch.split(low, sizes, -1), torch.split(high, sizes, -1), strict=True)
        points.append(torch.cat([_point(activation.kinks, a, b) for (activation, _), a, b in parts], -1))
    return flat(points)


def _point(kinks: tuple[float, ...], low: Tensor, high: Tensor) -> Tensor:
    point = (low + high) / 2
    for kink in kinks:
        point = torch.where((low < kink) & (kink < high), kink, point)
    return point
