"""Settling nodes: those that bounds leave open are handed to a compiled search over their loose neurons.

Enters: open nodes with their hidden bounds and slopes. Leaves: the same nodes, closed or with the bound of their linear
programme. Needs numba, on the CPU; elsewhere `cuts` does what can be done without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from karenina.domain import Box
from karenina.engine.bounds import Hidden, hidden_bounds
from karenina.engine.cases import Cases
from karenina.engine.compiled import in_threads
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes, by_layer, flat
from karenina.engine.packed import Batch, Found, Weights
from karenina.engine.relaxation import Lines
from karenina.engine.tighten import Bounder
from karenina.network import RELU, Layer, Network
from karenina.query import Case, Query

__all__ = ["Settled", "batch_of", "loose_neurons", "settle", "warm_up", "weights_of"]

Tensor = torch.Tensor
INSIDE = 2e-9  # how far inside the constraints the programmes stay: more than they may be off


@dataclass(frozen=True, eq=False)
class Settled:
    """What became of the nodes: their bounds, multipliers to evaluate the open ones with, and points to try."""

    bound: Tensor  # (nodes,)
    closed: Tensor  # (nodes,)
    slopes: Tensor  # (nodes, neurons)
    neuron_multipliers: Tensor  # (nodes, neurons)
    multipliers: Tensor  # (nodes, constraints)
    points: Tensor  # (nodes, inputs)

    def better(self, nodes: Nodes) -> Nodes:
        """The nodes with the lower of both bounds, and with these multipliers."""
        return nodes.with_(
            bound=torch.where(self.closed | (self.bound < nodes.bound), self.bound, nodes.bound),
            slopes=self.slopes,
            multipliers=self.multipliers,
            neuron_multipliers=self.neuron_multipliers,
        )


def loose_neurons(hidden: Hidden) -> Tensor:
    """Neurons whose lines differ, (nodes, neurons)."""
    layers = zip(hidden.lines, hidden.lower, hidden.upper, strict=True)
    return flat([_apart(lines, low, high) for lines, low, high in layers])


def _apart(lines: Lines, low: Tensor, high: Tensor) -> Tensor:
    """Whether a slope is free or the lines differ somewhere in the range."""
    (up, up_constant), (down, down_constant) = lines.fixed(lines.upper), lines.fixed(lines.lower)
    tilt, shift = up - down, up_constant - down_constant
    free = (lines.upper.high > lines.upper.low) | (lines.lower.high > lines.lower.low)
    return free | (torch.maximum(tilt * low, tilt * high) + shift > 0)


def _splittable(joint: Joint, nodes: Nodes) -> Tensor:
    """Neurons of piecewise-linear kind with exactly one kink inside their range, (nodes, neurons)."""
    kinks = torch.zeros_like(nodes.neuron_lower, dtype=torch.int64)
    start = 0
    for kind in joint.kinds:
        for _ in range(joint.stack):
            for activation, count in kind.activations:
                part = slice(start, start + count)
                start += count
                for kink in activation.kinks if activation.piecewise_linear else ():
                    kinks[:, part] += (nodes.neuron_lower[:, part] < kink) & (kink < nodes.neuron_upper[:, part])
    return kinks == 1


def settle(
    shared: Bounder, nodes: Nodes, hidden: Hidden, loose: Tensor, target: float, *, programmes: int, threads: int
) -> Settled:
    """Close the nodes that so many linear programmes each can close; loose: (nodes, neurons)."""
    from karenina.engine.dive import dive

    count = len(nodes)
    like = (
        nodes.bound,
        torch.zeros(count, dtype=torch.bool),
        nodes.slopes,
        nodes.slopes,
        nodes.multipliers,
        nodes.lower,
    )
    written = [torch.zeros_like(t) for t in like]
    bound, closed, slopes, prices, multipliers, points = (t.numpy() for t in written)
    found = Found(bound, closed, slopes, prices, multipliers, points, np.zeros(count, np.int64))
    read = (weights_of(shared), batch_of(shared, nodes, hidden, loose))
    in_threads(threads, count, dive, *read, target, programmes, found)
    return Settled(*written)


def weights_of(shared: Bounder) -> Weights:
    """The joint network as plain arrays."""
    joint = shared.joint
    sizes = np.array([joint.inputs, *joint.widths, joint.weights[-1].shape[1]])
    return Weights(sizes, int(sizes.max()), *joint.flat(joint.depth + 1), flat(shared.rounding.hidden)[0].numpy())


def batch_of(shared: Bounder, nodes: Nodes, hidden: Hidden, loose: Tensor) -> Batch:
    """The nodes as plain arrays."""
    cases = shared.cases
    sides = [torch.stack([*lines.upper, *lines.lower], -1) for lines in hidden.lines]
    lines = torch.cat([t.movedim(0, 1).flatten(1, 2) for t in sides], 1)  # (nodes, neurons, 8)
    bounds = torch.stack([nodes.neuron_lower, nodes.neuron_upper], -1)
    cut = torch.stack([nodes.cut_lower, nodes.cut_upper], -1)
    objective, constant = cases.lagrangian(nodes.case, torch.zeros_like(nodes.multipliers))
    tensors = (
        nodes.lower,
        nodes.upper,
        lines,
        bounds,
        loose,
        _splittable(shared.joint, nodes),
        torch.where(cut, bounds, torch.tensor([-math.inf, math.inf], dtype=torch.float64)),
        nodes.slopes,
        objective,
        constant,
        cases.rows[nodes.case],
        cases.row_offset[nodes.case] + 2 * cases.row_error[nodes.case],
        cases.row_offset[nodes.case] - 8 * cases.row_error[nodes.case] - INSIDE,
    )
    return Batch(*(t.contiguous().numpy() for t in tensors))


@cache
def warm_up() -> None:
    """Compile the inner loops, or load them if an earlier process has: that is not to count towards a time limit."""
    layer = Layer.of([[1.0]], [0.0], RELU)
    query = Query((Network((layer, layer, Layer.of([[1.0]], [0.0]))),), (Case(Box([-1.0], [1.0]), np.ones(1)),))
    cpu = torch.device("cpu")
    joint = Joint.of(query.networks, cpu)
    cases, rounding = Cases.of(query, joint, cpu)
    nodes = Nodes.roots(cases.lower, cases.upper, 0, 2)
    known = list(zip(by_layer(joint, nodes.neuron_lower), by_layer(joint, nodes.neuron_upper), strict=True))
    hidden = hidden_bounds(joint, rounding, nodes.lower, nodes.upper, known, threads=1)
    nodes = nodes.with_(neuron_lower=flat(hidden.lower), neuron_upper=flat(hidden.upper))
    loose = loose_neurons(hidden)
    settle(Bounder(joint, cases, rounding), nodes, hidden, loose, math.inf, programmes=1, threads=1)
