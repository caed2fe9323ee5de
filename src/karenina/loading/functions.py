"""torch's functions on tensors that are affine in the atoms of a `Graph`.

Enters: what a module's forward gives to torch's functions, with torch's argument names and defaults. Leaves: the
tensors they compute. Parameters are rounded to the module's own float type first, as torch does it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from karenina.errors import UnsupportedModel
from karenina.loading.affine import Affine
from karenina.loading.graph import Graph
from karenina.network import RELU, Activation

__all__ = ["FUNCTIONS", "METHODS", "SOFTPLUS_NOTE", "SOFTPLUS_THRESHOLD", "Arithmetic"]

# torch's softplus returns x itself where beta x is above a threshold, 20 unless a user says otherwise.
SOFTPLUS_THRESHOLD = 20.0
SOFTPLUS_NOTE = (
    "torch's softplus returns its argument above a threshold, 20 or more; softplus itself is read, which differs "
    "from it by at most 2.1e-9 / beta"
)

Operand = Affine | npt.NDArray[np.float64] | float


class Arithmetic:
    """Functions by torch's names, for a module that calculates in one float type."""

    def __init__(self, graph: Graph, dtype: torch.dtype) -> None:
        self.graph = graph
        self._dtype = dtype

    def _number(self, value: float) -> float:
        return float(torch.tensor(value, dtype=self._dtype))

    def _tensor(self, value: Operand) -> Affine:
        return value if isinstance(value, Affine) else Affine.constant(self._constant(value))

    def _constant(self, value: Operand) -> npt.NDArray[np.float64]:
        if isinstance(value, Affine):
            raise UnsupportedModel("multiplies or divides by a value that depends on the input")
        return value if isinstance(value, np.ndarray) else np.array(self._number(value))

    # activations

    def relu(self, input: Affine) -> Affine:
        return self.graph.activate(input, RELU)

    def tanh(self, input: Affine) -> Affine:
        return self.graph.activate(input, Activation("tanh"))

    def sigmoid(self, input: Affine) -> Affine:
        return self.graph.activate(input, Activation("sigmoid"))

    def abs(self, input: Affine) -> Affine:
        return self.graph.activate(input, Activation("abs"))

    def elu(self, input: Affine, alpha: float = 1.0) -> Affine:
        return self.graph.activate(input, Activation("elu", (self._number(alpha),)))

    def leaky_relu(self, input: Affine, negative_slope: float = 0.01) -> Affine:
        return self.graph.activate(input, Activation("leaky_relu", (self._number(negative_slope),)))

    def softplus(self, input: Affine, beta: float = 1.0, threshold: float = 20.0) -> Affine:
        """log(1 + exp(beta x)) / beta; above the threshold torch returns x, which float32 cannot tell from it."""
        if threshold < SOFTPLUS_THRESHOLD or not beta > 0:
            raise UnsupportedModel(
                f"has threshold {threshold} and beta {beta}, which is another function than softplus"
            )
        self.graph.note(SOFTPLUS_NOTE)
        factor = np.array(self._number(beta))
        inner = self.graph.scale(input, factor)
        return self.graph.scale(self.graph.activate(inner, Activation("softplus")), factor, divide=True)

    def hardtanh(self, input: Affine, min_val: float = -1.0, max_val: float = 1.0) -> Affine:
        return self.clamp(input, min_val, max_val)

    def relu6(self, input: Affine) -> Affine:
        return self.clamp(input, 0.0, 6.0)

    def clamp(self, input: Affine, min: float | None = None, max: float | None = None) -> Affine:
        low = -math.inf if min is None else self._number(min)
        high = math.inf if max is None else self._number(max)
        return self.graph.clip(input, low, high)

    # arithmetic

    def add(self, input: Operand, other: Operand) -> Affine:
        return self._tensor(input).plus(self._tensor(other))

    def sub(self, input: Operand, other: Operand) -> Affine:
        return self._tensor(input).plus(self.neg(self._tensor(other)))

    def neg(self, input: Affine) -> Affine:
        return input.scaled(np.array(-1.0))

    def mul(self, input: Operand, other: Operand) -> Affine:
        tensor, factor = (input, other) if isinstance(input, Affine) else (other, input)
        return self.graph.scale(self._tensor(tensor), self._constant(factor))

    def div(self, input: Affine, other: Operand) -> Affine:
        return self.graph.scale(input, self._constant(other), divide=True)

    # moving data

    def flatten(self, input: Affine, start_dim: int = 0, end_dim: int = -1) -> Affine:
        shape, axes = input.shape, len(input.shape)
        first, last = start_dim % axes, end_dim % axes
        return self.reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))

    def reshape(self, input: Affine, *shape: Any) -> Affine:
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        return input.moved(input.index.reshape([int(size) for size in sizes]))

    def cat(self, tensors: Sequence[Affine], dim: int = 0) -> Affine:
        return Affine.joined([self._tensor(tensor) for tensor in tensors], dim)

    def size(self, input: Affine, dim: int | None = None) -> Any:
        return input.shape if dim is None else input.shape[dim]

    def dropout(self, input: Affine, *_: Any, **__: Any) -> Affine:
        """Nothing, in evaluation mode."""
        return input

    def attribute(self, value: Any, name: str) -> Any:
        if not isinstance(value, Affine) or name != "shape":
            raise UnsupportedModel(f"reads the attribute {name!r}")
        return value.shape

    def item(self, value: Any, key: Any) -> Any:
        """A part of a shape; tensors are not indexed here."""
        if isinstance(value, Affine):
            raise UnsupportedModel("indexes a tensor: export the model to ONNX")
        return value[key]


_A = Arithmetic
METHODS: dict[str, Callable[..., Any]] = {
    "abs": _A.abs,
    "add": _A.add,
    "clamp": _A.clamp,
    "contiguous": lambda _, x: x,
    "flatten": _A.flatten,
    "relu": _A.relu,
    "reshape": _A.reshape,
    "sigmoid": _A.sigmoid,
    "size": _A.size,
    "tanh": _A.tanh,
    "view": _A.reshape,
}
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    functional.dropout: _A.dropout,
    functional.elu: _A.elu,
    functional.hardtanh: _A.hardtanh,
    functional.leaky_relu: _A.leaky_relu,
    functional.relu: _A.relu,
    functional.relu6: _A.relu6,
    functional.sigmoid: _A.sigmoid,
    functional.softplus: _A.softplus,
    functional.tanh: _A.tanh,
    getattr: _A.attribute,
    operator.add: _A.add,
    operator.getitem: _A.item,
    operator.mul: _A.mul,
    operator.neg: _A.neg,
    operator.sub: _A.sub,
    operator.truediv: _A.div,
    torch.abs: _A.abs,
    torch.add: _A.add,
    torch.cat: _A.cat,
    torch.clamp: _A.clamp,
    torch.flatten: _A.flatten,
    torch.relu: _A.relu,
    torch.reshape: _A.reshape,
    torch.sigmoid: _A.sigmoid,
    torch.tanh: _A.tanh,
}
