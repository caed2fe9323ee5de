"""ONNX models spelled by bytes. Enters: bytes, any. Leaves: a model that parses, its graph as odd as the bytes say.

Flipping bytes in a protobuf mostly breaks the protobuf. Here every byte is a choice: an operator, its inputs among the
names so far (or a name that is not there), attributes with odd values, constants of odd shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from karenina.loading.onnx_operators import OPERATORS

__all__ = ["model"]

Choice = TypeVar("Choice")

_OPERATORS = [*sorted(OPERATORS), "Softmax", "Loop"]
_ATTRIBUTES = (
    "axis",
    "axes",
    "perm",
    "shape",
    "starts",
    "ends",
    "steps",
    "split",
    "alpha",
    "beta",
    "transA",
    "transB",
    "group",
    "kernel_shape",
    "strides",
    "dilations",
    "pads",
    "auto_pad",
    "ceil_mode",
    "count_include_pad",
    "epsilon",
    "to",
    "value",
    "value_ints",
    "value_float",
    "start",
    "end",
    "allowzero",
    "min",
    "max",
)
_SIZES = (0, 1, 2, 3, 4, 7, -1, 2**31, 2**62, -(2**63))
_NUMBERS = (0.0, 1.0, -1.5, 1e-300, 3e38, 1e300, float("inf"), float("nan"))


class _Bytes:
    """Choices, one byte each; zeros when there are no more."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def below(self, count: int) -> int:
        self._at += 1
        return (self._data[self._at - 1] if self._at <= len(self._data) else 0) % count

    def one_of(self, options: Sequence[Choice]) -> Choice:
        return options[self.below(len(options))]

    def integers(self) -> list[int]:
        return [self.one_of(_SIZES) for _ in range(self.below(5))]


def _tensor(choices: _Bytes, name: str) -> TensorProto:
    """A small array, whole or with dimensions that do not fit it."""
    shape = [choices.below(4) for _ in range(choices.below(4))]
    kind = choices.one_of((np.float32, np.float64, np.float16, np.int64, np.int32, np.bool_))
    values = np.array([choices.one_of(_NUMBERS) for _ in range(min(int(np.prod(shape)), 40))])
    with np.errstate(all="ignore"):
        array: npt.NDArray[Any] = np.resize(values if values.size else np.ones(1), shape).astype(kind)
    tensor = numpy_helper.from_array(array, name)
    if choices.below(8) == 7:
        tensor.dims[:] = choices.integers()
    if choices.below(16) == 15:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=choices.one_of(("../x", "model", "/etc/passwd", "", "a\0b")))
        tensor.external_data.add(key="offset", value=choices.one_of(("0", "-1", "x", "9" * 30)))
    return tensor


def _attribute(choices: _Bytes) -> AttributeProto:
    name = choices.one_of(_ATTRIBUTES)
    match choices.below(5):
        case 0:
            return helper.make_attribute(name, choices.one_of(_SIZES))
        case 1:
            return helper.make_attribute(name, choices.integers(), attr_type=AttributeProto.INTS)
        case 2:
            return helper.make_attribute(name, choices.one_of(_NUMBERS))
        case 3:
            return helper.make_attribute(name, _tensor(choices, "t"))
    return helper.make_attribute(name, choices.one_of(("SAME_UPPER", "VALID", "\x1b[31m", "")))


def _node(choices: _Bytes, names: list[str], k: int) -> NodeProto:
    kind = choices.one_of(_OPERATORS)
    inputs = [choices.one_of([*names, ""]) for _ in range(1 + choices.below(4))]
    outputs = [f"v{k}", f"w{k}"][: 1 + choices.below(2)]
    node = helper.make_node(kind, inputs, outputs)
    node.attribute.extend(_attribute(choices) for _ in range(choices.below(4)))
    names.extend(outputs)
    return node


def model(data: bytes) -> bytes:
    """The model that the bytes spell."""
    choices = _Bytes(data)
    shape = [1, *(1 + choices.below(4) for _ in range(choices.below(4)))]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    constants = [_tensor(choices, f"c{k}") for k in range(choices.below(5))]
    names = ["x", *(tensor.name for tensor in constants)]
    nodes: list[NodeProto] = []
    while choices.left > 0 and len(nodes) < 12:
        nodes.append(_node(choices, names, len(nodes)))
    sink = helper.make_tensor_value_info(nodes[-1].output[0] if nodes else "x", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [source], [sink], constants)
    opset = choices.one_of((13, 17, 6, 1, 21))
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString()
    return made
