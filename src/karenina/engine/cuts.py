"""Cuts: what a node's neuron splits and the query's constraints say about x, used to tighten its bound.

Enters: nodes, their hidden bounds and slopes. Leaves: multipliers of the split neurons' bounds and of
the constraints, from a small linear programme: the linear bound of the objective over the box, cut by
the half-spaces in which the linear bounds of split neurons and constraints are on the right side.
When all neurons are linear the programme is the node itself, and the bound with its multipliers exact.
"""

from __future__ import annotations

import torch

from karenina.engine.bounds import Hidden, maximum
from karenina.engine.incumbent import Incumbent
from karenina.engine.nodes import Nodes, by_layer
from karenina.engine.simplex import maximise
from karenina.engine.tighten import Bounder, Tight, evaluate

__all__ = ["tighten_by_cuts"]

Tensor = torch.Tensor
PIVOTS = 120


def tighten_by_cuts(
    shared: Bounder, nodes: Nodes, tight: Tight, hidden: Hidden, incumbent: Incumbent, target: float
) -> Tight:
    """The better of `tight` and the bound with the programme's multipliers; its points are tried as witnesses."""
    index = (nodes.cut_lower | nodes.cut_upper).any(1).nonzero().squeeze(1)
    if not len(index):
        return tight
    some, part = nodes[index], hidden.take(index)
    free = some.with_(
        slopes=tight.slopes[index],
        multipliers=torch.zeros_like(some.multipliers),
        neuron_multipliers=torch.zeros_like(some.neuron_multipliers),
    )
    bare, _ = evaluate(shared, free, part.lines)
    rows, offsets = _constraints(shared, free, part)
    cuts, sides, chosen, used = _neuron_cuts(free, part)
    drop = (bare.bound - target).clamp(min=0) * 1.5 + 1.0
    problem, half_spaces = (bare.slope, free.lower, free.upper), torch.cat([rows, cuts], 1)
    prices, x = maximise(*problem, half_spaces, torch.cat([offsets, sides], 1), drop, PIVOTS)
    if shared.cases.constrained:  # the point must satisfy the constraints for certain, the bound must not cut any off
        inside = offsets - 8 * shared.cases.row_error[free.case]
        _, x = maximise(*problem, half_spaces, torch.cat([inside, sides], 1), drop, PIVOTS)
    incumbent.offer(x, free.case)
    multipliers, on_neurons = prices[:, : rows.shape[1]], prices[:, rows.shape[1] :]
    priced = free.with_(multipliers=multipliers, neuron_multipliers=_spread(free, on_neurons, chosen, used))
    best = tight.take(index).better(evaluate(shared, priced, part.lines)[0])
    return tight.put(index, best)


def _constraints(shared: Bounder, nodes: Nodes, hidden: Hidden) -> tuple[Tensor, Tensor]:
    """Linear functions above the constraints' values: rows (nodes, constraints, inputs) and offsets."""
    cases, slopes = shared.cases, by_layer(shared.joint, nodes.slopes)
    count, inputs = nodes.lower.shape
    rows, offsets = nodes.lower.new_zeros(count, 0, inputs), nodes.lower.new_zeros(count, 0)
    for r in range(cases.rows.shape[1]):
        linear = maximum(shared.joint, hidden.lines, nodes.lower, nodes.upper, cases.rows[nodes.case, r], slopes)
        constant = linear.value - (linear.slope * linear.corner).sum(1)
        offset = constant + cases.row_offset[nodes.case, r] + 2 * cases.row_error[nodes.case, r]
        rows, offsets = torch.cat([rows, linear.slope[:, None]], 1), torch.cat([offsets, offset[:, None]], 1)
    return rows, offsets


def _neuron_cuts(nodes: Nodes, hidden: Hidden) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Half-spaces of the split neurons: rows and offsets, which neuron's side each is, and whether it is one at all."""
    count, inputs = nodes.lower.shape
    wanted = torch.cat([nodes.cut_lower, nodes.cut_upper], 1)  # z >= lower is rows[0] @ x + constants[0] - lower >= 0
    chosen = wanted.to(torch.float64).topk(int(wanted.sum(1).max()), 1).indices  # (nodes, cuts)
    used = wanted.gather(1, chosen)
    rows, constants = (_flat_pairs(t, count) for t in (hidden.rows, hidden.constants))
    offsets = constants + torch.cat([-nodes.neuron_lower, nodes.neuron_upper], 1)
    cuts = torch.where(used[..., None], rows.gather(1, chosen[..., None].expand(-1, -1, inputs)), 0.0)
    return cuts, torch.where(used, offsets.gather(1, chosen), 1.0), chosen, used


def _spread(nodes: Nodes, prices: Tensor, chosen: Tensor, used: Tensor) -> Tensor:
    """Prices of the cuts as multipliers of the neurons, (nodes, neurons)."""
    neurons = nodes.neuron_lower.shape[1]
    spread = prices.new_zeros(len(nodes), 2 * neurons).scatter_add(1, chosen, torch.where(used, prices, 0.0))
    return spread[:, :neurons] - spread[:, neurons:]


def _flat_pairs(layers: list[Tensor], count: int) -> Tensor:
    """[(2, S, nodes or 1, n, ...) a layer] -> (nodes, 2 * S * all n, ...): first those of z, then those of -z."""
    sides = [
        torch.cat([t[i].expand(-1, count, *t.shape[3:]).movedim(0, 1).flatten(1, 2) for t in layers], 1) for i in (0, 1)
    ]
    return torch.cat(sides, 1)
