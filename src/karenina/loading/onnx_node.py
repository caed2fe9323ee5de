"""What an ONNX operator is given: its inputs' values and its attributes.

Enters: values that are constants of the file or affine in the atoms of a `Graph`. Leaves: the same, in the form
an operator asks for. A refusal is a phrase that reads on from the node's name: "node 'x' (Mul) multiplies ...".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.affine import Affine
from karenina.loading.graph import Graph

__all__ = ["FLOATS", "Constant", "Node", "Value", "affine", "finite"]

# float64, int64 or bool, whatever the file has.
Constant = npt.NDArray[Any]
Value = Constant | Affine

FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}


@dataclass(frozen=True, eq=False)
class Node:
    """One use of an operator."""

    graph: Graph
    inputs: tuple[Value | None, ...]  # None where an optional input is left out
    outputs: int = 1
    opset: int = 17
    doc: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)

    def value(self, k: int) -> Value:
        if k >= len(self.inputs) or (value := self.inputs[k]) is None:
            raise InputError(f"lacks its input {k}")
        return value

    def tensor(self, k: int = 0) -> Affine:
        """An input as a tensor over atoms, constants included."""
        return affine(self.value(k))

    def optional(self, k: int) -> Constant | None:
        """A constant input that may be left out."""
        value = self.inputs[k] if k < len(self.inputs) else None
        if isinstance(value, Affine):
            raise UnsupportedModel(f"needs a constant as its input {k}, and gets a value that depends on the input")
        return value

    def constant(self, k: int) -> Constant:
        self.value(k)
        value = self.optional(k)
        assert value is not None
        return value

    def weight(self, k: int) -> npt.NDArray[np.float64]:
        """A constant input to calculate with: finite numbers."""
        return finite(self.constant(k))

    def setting(self, name: str, k: int) -> list[int] | None:
        """Whole numbers that are an attribute in older opsets and an input in newer ones."""
        if name in self.attributes:
            return [int(n) for n in self.attributes[name]]
        value = self.optional(k)
        return None if value is None else [int(n) for n in value.reshape(-1)]


def affine(value: Value) -> Affine:
    """A value as a tensor over atoms."""
    return value if isinstance(value, Affine) else Affine.constant(finite(value))


def finite(value: Constant) -> npt.NDArray[np.float64]:
    """A constant to calculate with."""
    numbers = value.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InputError("calculates with a constant that holds NaN or infinity")
    return numbers
