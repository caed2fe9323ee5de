"""The open part of a search: nodes (boxes with what is known on them) and the pool that keeps them.

Enters and leaves: `Nodes`, a batch of nodes as one tensor a field, the node along the first axis.
Per-neuron fields are flat, (nodes, S * all hidden neurons); `by_layer` gives the engine's shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch

from karenina.engine.joint import Joint

__all__ = ["Nodes", "Pool", "by_layer", "flat", "smooth"]

Tensor = torch.Tensor


def flat(layers: Sequence[Tensor]) -> Tensor:
    """[(S, nodes, n) a layer] -> (nodes, S * all n)."""
    return torch.cat([t.movedim(0, 1).flatten(1) for t in layers], 1)


def by_layer(joint: Joint, t: Tensor) -> list[Tensor]:
    """(nodes, S * all n) -> [(S, nodes, n) a layer], as views."""
    parts = torch.split(t, [joint.stack * n for n in joint.widths], 1)
    return [part.view(len(part), joint.stack, n).movedim(1, 0) for part, n in zip(parts, joint.widths, strict=True)]


def smooth(joint: Joint) -> Tensor:
    """Which neurons have a smooth activation, (S * all n,)."""
    kinds = [
        torch.tensor([not activation.piecewise_linear for activation, count in layer.activations for _ in range(count)])
        for layer in joint.kinds
    ]
    return torch.cat([kind.repeat(joint.stack) for kind in kinds]).to(joint.weights[0].device)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Boxes, the case each belongs to, and what its ancestors found out about it."""

    lower: Tensor  # (nodes, inputs)
    upper: Tensor  # (nodes, inputs)
    case: Tensor  # (nodes,)
    bound: Tensor  # (nodes,) no input of the node attains more
    split: Tensor  # (nodes,) where to split next: an input, or inputs + a neuron
    second: Tensor  # (nodes,) the next best input
    slopes: Tensor  # (nodes, neurons) of the best bound so far
    multipliers: Tensor  # (nodes, constraints)
    neuron_lower: Tensor  # (nodes, neurons) bounds of the pre-activations, neuron splits included
    neuron_upper: Tensor
    neuron_multipliers: Tensor  # (nodes, neurons) > 0 on the lower bound, < 0 on the upper
    cut_lower: Tensor  # (nodes, neurons) whether the lower bound came from a neuron split
    cut_upper: Tensor

    def __len__(self) -> int:
        return len(self.bound)

    def __getitem__(self, index: Tensor) -> Nodes:
        return Nodes(*(getattr(self, f.name)[index] for f in fields(self)))

    def split_at(self, count: int) -> tuple[Nodes, Nodes]:
        """The first nodes, and the rest."""
        index = torch.arange(len(self), device=self.bound.device)
        return self[index[:count]], self[index[count:]]

    def put(self, index: Tensor, some: Nodes) -> Nodes:
        """With some nodes replaced."""
        return Nodes(*(getattr(self, f.name).index_copy(0, index, getattr(some, f.name)) for f in fields(self)))

    def with_(self, **changes: Tensor) -> Nodes:
        return replace(self, **changes)

    @staticmethod
    def cat(parts: Sequence[Nodes]) -> Nodes:
        return Nodes(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Nodes)))

    @staticmethod
    def roots(lower: Tensor, upper: Tensor, constraints: int, neurons: int) -> Nodes:
        """One node a case, about which nothing is known."""
        count, new = len(lower), lower.new_zeros
        index = torch.arange(count, device=lower.device)
        unknown = lower.new_full((count, neurons), math.inf)
        bound = lower.new_full((count,), math.inf)
        uncut = new(count, neurons, dtype=torch.bool)
        return Nodes(
            lower,
            upper,
            index,
            bound,
            index,
            index,
            new(count, neurons),
            new(count, constraints),
            -unknown,
            unknown,
            new(count, neurons),
            uncut,
            uncut,
        )


class Pool:
    """Nodes waiting to be split, in tensors that grow by doubling; a free place has bound -inf."""

    def __init__(self, like: Nodes, capacity: int = 64) -> None:
        self._nodes = Nodes(
            *(getattr(like, f.name).new_zeros((capacity, *getattr(like, f.name).shape[1:])) for f in fields(like))
        )
        self._nodes.bound.fill_(-math.inf)
        self.count = 0

    @property
    def bytes(self) -> int:
        """What the waiting nodes take."""
        each: int = sum(getattr(self._nodes, f.name)[:1].nbytes for f in fields(self._nodes))
        return self.count * each

    @property
    def bound(self) -> float:
        """The largest bound of a waiting node, -inf when there is none."""
        return float(self._nodes.bound.max()) if self.count else -math.inf

    def add(self, nodes: Nodes) -> None:
        while self.count + len(nodes) > len(self._nodes):
            self._grow()
        places = (self._nodes.bound == -math.inf).nonzero().squeeze(1)[: len(nodes)]
        for f in fields(nodes):
            getattr(self._nodes, f.name)[places] = getattr(nodes, f.name)
        self.count += len(nodes)

    def take(self, count: int, *, best_first: bool) -> Nodes:
        """Remove and return the nodes with the largest bounds, or (to save memory) those nearest to closing."""
        used = (self._nodes.bound > -math.inf).nonzero().squeeze(1)
        places = used[self._nodes.bound[used].topk(min(count, len(used)), largest=best_first).indices]
        taken = self._nodes[places]
        self._nodes.bound[places] = -math.inf
        self.count -= len(taken)
        return taken

    def close(self, target: float) -> float:
        """Drop the nodes whose bound is at most `target`; return the largest bound dropped."""
        bound = self._nodes.bound
        done = (bound <= target) & (bound > -math.inf)
        dropped = torch.where(done, bound, -math.inf).max()
        self._nodes.bound.masked_fill_(done, -math.inf)
        self.count -= int(done.sum())
        return float(dropped)

    def _grow(self) -> None:
        empty = Pool(self._nodes, len(self._nodes))
        self._nodes = Nodes.cat([self._nodes, empty._nodes])
