"""Networks as the checker sees them: a chain of layers on one input, here two networks side by side.

Enters: weights, biases and activations as a certificate has them. Leaves: a `Chain`, its exact values at an input, and
how far a float32 evaluation can stray from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.checker.activations import Kind
from karenina.checker.refusal import Refused

__all__ = ["Chain", "Layer", "beside", "exact", "over"]

Array = npt.NDArray[Any]  # of float64, or of exact fractions
SINGLE = 2.0**-24  # the unit roundoff of float32
LEAST_SINGLE = 2.0**-126  # what underflows may be lost, where results below are flushed to 0
MOST_SINGLE = 3.4e38
OPERATIONS = 64  # units in the last place that a float32 activation may be off
MOST_ENTRIES = 1 << 23  # of a matrix of two networks side by side: more is a burden, not a network
IDENTITY = Kind("identity")


def exact(values: npt.ArrayLike) -> Array:
    """Floats as fractions: every float is one."""
    return np.asarray(np.frompyfunc(Fraction, 1, 1)(np.asarray(values, dtype=np.float64)), dtype=object)


@dataclass(frozen=True, eq=False)
class Layer:
    """h -> activation(weight @ h + bias); `runs` are (kind, first neuron, one past the last)."""

    weight: Array  # (neurons, inputs)
    bias: Array  # (neurons,)
    runs: tuple[tuple[Kind, int, int], ...]

    def __post_init__(self) -> None:
        if self.weight.ndim != 2 or self.bias.shape != self.weight.shape[:1] or not len(self.bias):
            raise Refused(f"a layer has a weight of shape {self.weight.shape} and a bias of shape {self.bias.shape}")
        if not (np.isfinite(self.weight).all() and np.isfinite(self.bias).all()):
            raise Refused("a layer's weights are not all finite")
        ends = [0, *(end for _, _, end in self.runs)]
        if [start for _, start, _ in self.runs] != ends[:-1] or ends != sorted(set(ends)) or ends[-1] != len(self.bias):
            raise Refused("a layer's activations do not match its neurons")

    @cached_property
    def exactly(self) -> tuple[Array, Array]:
        return exact(self.weight), exact(self.bias)

    def has(self, kind: Kind) -> Array:
        """Which neurons are of this kind."""
        flags = np.zeros(len(self.bias), bool)
        for each, start, end in self.runs:
            flags[start:end] = each == kind
        return flags


@dataclass(frozen=True, eq=False)
class Chain:
    """Layers, one after the other."""

    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        sizes = [len(layer.bias) for layer in self.layers]
        if not sizes or sizes[:-1] != [layer.weight.shape[1] for layer in self.layers[1:]]:
            raise Refused("a network's layers do not fit together")

    @property
    def inputs(self) -> int:
        return int(self.layers[0].weight.shape[1])

    @property
    def outputs(self) -> int:
        return len(self.layers[-1].bias)

    def values(self, x: Array) -> tuple[Array, Array]:
        """Exact numbers below and above each output at an exact input; equal where all pieces are straight."""
        low = high = x
        for layer in self.layers:
            weight, bias = layer.exactly
            positive, negative = np.maximum(weight, 0), np.minimum(weight, 0)
            below, above = positive @ low + negative @ high + bias, positive @ high + negative @ low + bias
            low, high = below.copy(), above.copy()
            for kind, start, end in layer.runs:
                ends = (*kind.values(below[start:end]), *kind.values(above[start:end]))
                low[start:end], high[start:end] = np.minimum(ends[0], ends[2]), np.maximum(ends[1], ends[3])
                if kind.name in ("abs", "leaky_relu"):  # not monotone: across 0 the least may be there
                    across = np.asarray((below[start:end] < 0) & (above[start:end] > 0), dtype=bool)
                    zero = np.full(end - start, Fraction(0))
                    low[start:end] = np.where(across, np.minimum(low[start:end], zero), low[start:end])
                    high[start:end] = np.where(across, np.maximum(high[start:end], zero), high[start:end])
        return low, high

    def stray(self, lower: Array, upper: Array) -> float:
        """How far any output, computed in float32 in any order from a rounded input in the box, may be off at most."""
        size = np.maximum(np.abs(lower), np.abs(upper))
        error = SINGLE * size + LEAST_SINGLE
        for layer in self.layers:
            weight, terms = np.abs(layer.weight), layer.weight.shape[1] + 3
            steep, shift = self._growth(layer)
            gamma = terms * SINGLE / (1 - terms * SINGLE)
            reach = weight @ (size + error) + np.abs(layer.bias)
            lost = (terms + (size + error).sum()) * LEAST_SINGLE  # also where a weight underflows
            error = weight @ error + gamma * reach + SINGLE * np.abs(layer.bias) + lost
            size = steep * reach + shift
            error = steep * error + OPERATIONS * SINGLE * (size + steep * error)
            if not max(reach.max(), (size + error).max()) < MOST_SINGLE:
                return float("inf")
        return float(error.max() * (1 + 1e-6))  # the float64 arithmetic here is off by far less

    @staticmethod
    def _growth(layer: Layer) -> tuple[Array, Array]:
        """How steep each neuron's activation is, and its size at 0; of an elu, that of what it subtracts there."""
        steep, shift = np.ones(len(layer.bias)), np.zeros(len(layer.bias))
        for kind, start, end in layer.runs:
            steep[start:end] = kind.steepest
            at_zero = kind.parameters[0] if kind.name == "elu" else float(kind.roughly(np.zeros(1))[0])
            shift[start:end] = abs(at_zero) * (1 + 1e-9)
        return steep, shift


def _padded(chain: Chain, depth: int) -> list[Layer]:
    size = chain.outputs
    carry = Layer(np.eye(size), np.zeros(size), ((IDENTITY, 0, size),))
    return [*chain.layers, *[carry] * (depth - len(chain.layers))]


def beside(first: Chain, second: Chain) -> Chain:
    """Both networks on one input; the outputs of the first, then those of the second."""
    if (first.inputs, first.outputs) != (second.inputs, second.outputs):
        raise Refused("two networks of a pair do not have the same inputs and outputs")
    depth, layers = max(len(first.layers), len(second.layers)), []
    for k, (a, b) in enumerate(zip(_padded(first, depth), _padded(second, depth), strict=True)):
        rows, columns = a.weight.shape
        if (rows + len(b.bias)) * (columns + b.weight.shape[1]) > MOST_ENTRIES:
            raise Refused("two networks of a pair are too large to be looked at side by side")
        weight = np.zeros((rows + len(b.bias), columns + b.weight.shape[1]))
        weight[:rows, :columns], weight[rows:, columns:] = a.weight, b.weight
        if k == 0:
            weight = np.vstack([a.weight, b.weight])
        runs = (*a.runs, *((kind, start + rows, end + rows) for kind, start, end in b.runs))
        layers.append(Layer(weight, np.concatenate([a.bias, b.bias]), runs))
    return Chain(tuple(layers))


def over(chain: Chain, weight: Array, kinds: Sequence[tuple[Kind, int]]) -> Chain:
    """The chain with one more layer, without biases."""
    ends = np.cumsum([count for _, count in kinds]).tolist()
    runs = tuple((kind, end - count, end) for (kind, count), end in zip(kinds, ends, strict=True))
    return Chain((*chain.layers, Layer(weight, np.zeros(len(weight)), runs)))
