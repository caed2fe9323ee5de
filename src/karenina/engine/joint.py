"""The networks of a query, joined on their shared input and laid out for batched bounding.

Enters: the query's networks. Leaves: a `Joint`: equal architectures are stacked along a first axis
of size S (two networks, one batched matrix product), unequal ones become one block-diagonal network
(S = 1). Every tensor about boxes has the shape (S, boxes, neurons).

The last layer is affine, and there is one before it: where not, an identity layer is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt
import torch

from karenina.network import IDENTITY, Layer, Network, concatenate

__all__ = ["Joint", "affine", "architecture", "ending_affine"]

Tensor = torch.Tensor
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Joint:
    """Stacked weights (S, out, in) and biases (S, 1, out); `kinds` names the hidden layers' activations."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]
    kinds: tuple[Layer, ...]  # the first network's hidden layers, for their activations

    @classmethod
    def of(cls, networks: Sequence[Network], device: torch.device) -> Joint:
        """The joint network, kept a while: one pair of networks is often asked about several times in a row."""
        return _joined(tuple(networks), device)

    @classmethod
    def _join(cls, networks: Sequence[Network], device: torch.device) -> Joint:
        chains = [ending_affine(network).layers for network in networks]
        if len({architecture(chain) for chain in chains}) > 1 or _share_neurons(chains):
            joined = reduce(concatenate, [Network(chain) for chain in chains])
            chains = [_merge_equal_neurons(joined.layers)]
        return cls._stacked(chains, device)

    @classmethod
    def plain(cls, networks: Sequence[Network], device: torch.device) -> Joint:
        """Networks of one architecture, every neuron in its place."""
        return cls._stacked([ending_affine(network).layers for network in networks], device)

    @classmethod
    def _stacked(cls, chains: Sequence[Sequence[Layer]], device: torch.device) -> Joint:
        weights = tuple(
            torch.stack([layer.weight for layer in level]).to(device) for level in zip(*chains, strict=True)
        )
        biases = tuple(
            torch.stack([layer.bias for layer in level])[:, None].to(device) for level in zip(*chains, strict=True)
        )
        return cls(weights, biases, tuple(chains[0][:-1]))

    @property
    def depth(self) -> int:
        """The number of hidden layers."""
        return len(self.kinds)

    @property
    def stack(self) -> int:
        return self.weights[0].shape[0]

    @property
    def inputs(self) -> int:
        return self.weights[0].shape[2]

    @property
    def widths(self) -> list[int]:
        """Neurons of each hidden layer, for one network of the stack."""
        return [weight.shape[1] for weight in self.weights[:-1]]

    def flat(self, layers: int) -> tuple[Array, Array]:
        """Weights and biases of the first layers as one row a network: (S, all weights), (S, all biases)."""
        weights, biases = (
            torch.cat([t.flatten(1) for t in tensors[:layers]], 1).numpy() for tensors in (self.weights, self.biases)
        )
        return weights, biases

    def coefficients(self, rows: Tensor) -> Tensor:
        """Rows over all outputs (..., outputs) as (S, ..., outputs of one network)."""
        return rows.reshape(*rows.shape[:-1], self.stack, -1).movedim(-2, 0)

    def forward(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """Pre-activations of every hidden layer and the outputs, (S, points, n), at points x (points, inputs)."""
        h, hidden = x[None], []
        for k, kind in enumerate(self.kinds):
            hidden.append(affine(h, self.weights[k], self.biases[k]))
            h = kind.activate(hidden[-1])
        return hidden, affine(h, self.weights[-1], self.biases[-1])

    def outputs(self, x: Tensor) -> Tensor:
        """All outputs at points x, (points, outputs)."""
        return self.forward(x)[1].movedim(0, 1).flatten(1)

    def gradient(self, hidden: list[Tensor], rows: Tensor) -> Tensor:
        """Gradients in x of rows @ outputs (rows: (points, outputs)) where `hidden` came from `forward`."""
        g = self.coefficients(rows) @ self.weights[-1]
        for k in reversed(range(self.depth)):
            g = (g * self.kinds[k].derivative(hidden[k])) @ self.weights[k]
        return g.sum(0)


@lru_cache(maxsize=8)
def _joined(networks: tuple[Network, ...], device: torch.device) -> Joint:
    return Joint._join(networks, device)


def affine(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """weight @ h + bias for h (S or 1, boxes, in)."""
    return torch.baddbmm(bias, h.expand(weight.shape[0], -1, -1), weight.mT)


def ending_affine(network: Network) -> Network:
    """The same function with at least one hidden layer and an affine last one."""
    last = network.layers[-1]
    if last.is_affine and len(network.layers) > 1:
        return network
    size = len(last.bias)
    identity = Layer(torch.eye(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64), ((IDENTITY, size),))
    return Network((*network.layers, identity), network.name)


def architecture(chain: Sequence[Layer]) -> tuple[object, ...]:
    """Shapes and activations: networks that share it can be stacked."""
    return tuple((tuple(layer.weight.shape), layer.activations) for layer in chain)


def _rows(layer: Layer) -> list[tuple[object, ...]]:
    """What each neuron computes from the layer below."""
    kinds = [activation for activation, count in layer.activations for _ in range(count)]
    rows = torch.cat([layer.weight, layer.bias[:, None]], 1).tolist()
    return [(kind, *row) for kind, row in zip(kinds, rows, strict=True)]


def _share_neurons(chains: Sequence[Sequence[Layer]]) -> bool:
    """Whether a first-layer neuron stands in more than one network."""
    seen = [set(_rows(chain[0])) for chain in chains]
    return len(set().union(*seen)) < sum(map(len, seen))


def _merge_equal_neurons(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The same function without repeated neurons: copies, permutations and common trunks cancel exactly.

    Two neurons are merged only where no neuron above reads both, so that no weights are added and nothing is rounded.
    """
    merged = list(layers)
    for k in range(len(merged) - 1):
        layer, above = merged[k], merged[k + 1]
        weight, first, keep = above.weight.clone(), dict[tuple[object, ...], int](), list[int]()
        for i, row in enumerate(_rows(layer)):
            j = first.setdefault(row, i)
            if i == j or bool(((weight[:, i] != 0) & (weight[:, j] != 0)).any()):
                keep.append(i)
            else:
                weight[:, j] += weight[:, i]
        kinds = [activation for activation, count in layer.activations for _ in range(count)]
        merged[k] = Layer.of(layer.weight[keep], layer.bias[keep], tuple((kinds[i], 1) for i in keep))
        merged[k + 1] = Layer(weight[:, keep].contiguous(), above.bias, above.activations)
    return tuple(merged)
