"""ONNX files into networks.

Enters: the bytes of an ONNX model, and its folder where weights are stored beside it. Leaves: a `Network`. The
graph is evaluated symbolically: every tensor is a constant or an affine function of the input and of earlier
activations' outputs. Nothing in the file is executed; an operator karenina does not verify is refused by name.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnx import AttributeProto, ModelProto, NodeProto, ValueInfoProto, defs, helper

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.affine import LARGEST, Affine
from karenina.loading.functions import SOFTPLUS_NOTE
from karenina.loading.graph import Graph
from karenina.loading.onnx_node import FLOATS, Constant, Node, Value, affine
from karenina.loading.onnx_operators import OPERATORS
from karenina.loading.onnx_patterns import with_whole_softplus
from karenina.loading.onnx_tensors import MALFORMED, constant
from karenina.network import Network

__all__ = ["read"]

_MOST_NUMBERS = 2 * LARGEST  # in all tensors together, those of the file included


def read(content: bytes, path: Path, name: str) -> Network:
    """The network an ONNX model describes; `path` is for messages and for weights stored beside the model."""
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:  # protobuf's DecodeError, whose library is not ours to import
        raise InputError(f"{path}: is none of the formats karenina reads, and no complete ONNX model") from error
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise InputError(f"{path}: is none of the formats karenina reads, and an ONNX model without a graph")
    return _Reader(model, path).network(name)


@functools.cache
def _known_attributes() -> Mapping[str, set[str]]:
    """For every operator the attributes it has had in any version: another one may mean anything."""
    known: dict[str, set[str]] = defaultdict(set)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            known[schema.name].update(schema.attributes)
    return known


def _numbers(value: Value) -> int:
    """How many numbers a value holds."""
    return value.numbers if isinstance(value, Affine) else value.size


def _name(node: NodeProto) -> str:
    return node.name or next(iter(node.output), "")


class _Reader:
    """One pass over a model's graph."""

    def __init__(self, model: ModelProto, path: Path) -> None:
        self._path = path
        self._proto = model.graph
        self._opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
        if self._proto.sparse_initializer:
            raise UnsupportedModel(f"{path}: stores sparse tensors, which karenina does not read")
        self._initializers = {tensor.name: tensor for tensor in self._proto.initializer}
        source = self._only_input()
        self._graph = Graph(self._input_shape(source))
        self._values: dict[str, Value] = {source.name: self._graph.input}
        self._held = 0  # numbers in all values together

    def network(self, name: str) -> Network:
        output = self._only_output()
        for node in self._needed_nodes(output):
            self._evaluate(node)
        return self._graph.network(affine(self._value(output, f"{self._path}: the output")), name)

    def _only_input(self) -> ValueInfoProto:
        inputs: list[ValueInfoProto] = [info for info in self._proto.input if info.name not in self._initializers]
        if len(inputs) != 1:
            names = ", ".join(repr(info.name) for info in inputs) or "none"
            raise UnsupportedModel(f"{self._path}: a network has one input, but this graph has {len(inputs)} ({names})")
        return inputs[0]

    def _only_output(self) -> str:
        names: list[str] = [info.name for info in self._proto.output]
        if len(names) != 1:
            listed = ", ".join(map(repr, names)) or "none"
            hint = "export the one to verify alone, or join them with Concat"
            raise UnsupportedModel(
                f"{self._path}: a network has one output, but this graph has {len(names)} ({listed}): {hint}"
            )
        return names[0]

    def _input_shape(self, info: ValueInfoProto) -> tuple[int, ...]:
        """The input's shape, with a free first (batch) axis taken as one."""
        tensor = info.type.tensor_type
        if not info.type.HasField("tensor_type") or tensor.elem_type not in FLOATS:
            raise UnsupportedModel(f"{self._path}: its input {info.name!r} is not a tensor of floats")
        if not tensor.HasField("shape"):
            raise UnsupportedModel(f"{self._path}: its input {info.name!r} has no shape")
        sizes = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in tensor.shape.dim]
        if any(size <= 0 for size in sizes[1:]) or sizes == [0] or min(sizes, default=0) < 0:
            shape = [dim.dim_param or dim.dim_value or "?" for dim in tensor.shape.dim]
            raise UnsupportedModel(
                f"{self._path}: its input {info.name!r} has shape {shape}: only the first axis, the batch, may be free"
            )
        return tuple(size or 1 for size in sizes)

    def _needed_nodes(self, output: str) -> list[NodeProto]:
        """The nodes the output depends on, in the file's order."""
        whole, changed = with_whole_softplus(self._proto.node, self._initializer)
        if changed:
            self._graph.note(SOFTPLUS_NOTE)
        needed, nodes = {output}, []
        for node in reversed(whole):
            if needed.intersection(node.output):
                needed.update(node.input)
                nodes.append(node)
        return nodes[::-1]

    def _evaluate(self, node: NodeProto) -> None:
        where = f"{self._path}: node {_name(node)!r} ({node.op_type})"
        operator = OPERATORS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if operator is None:
            kind = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
            known = ", ".join(sorted(OPERATORS))
            raise UnsupportedModel(
                f"{self._path}: node {_name(node)!r} is a {kind}, which karenina does not verify; it verifies {known}"
            )
        inputs = tuple(self._value(source, where) if source else None for source in node.input)
        try:
            self._graph.spend(sum(_numbers(value) for value in inputs if value is not None))
            attributes = {attribute.name: self._attribute(attribute) for attribute in node.attribute}
            if foreign := attributes.keys() - _known_attributes()[node.op_type]:
                raise UnsupportedModel(f"has the attribute {min(foreign)!r}, which no version of ONNX knows")
            result = operator(Node(self._graph, inputs, len(node.output), self._opset, node.doc_string, attributes))
        except InputError as error:
            raise type(error)(f"{where} {error}") from error
        except MALFORMED as error:
            raise InputError(f"{where} makes no sense: {error}") from error
        results = result if isinstance(result, tuple) else (result,)
        self._values.update(zip(node.output, results, strict=False))
        self._hold(sum(map(_numbers, results)), where)

    def _value(self, name: str, where: str) -> Value:
        if name not in self._values:
            if name not in self._initializers:
                raise InputError(f"{where} reads {name!r}, which nothing before it computes")
            self._values[name] = found = constant(self._initializers[name], self._path)
            self._hold(found.size, where)
        return self._values[name]

    def _hold(self, numbers: int, where: str) -> None:
        """Count what is held: a small file may name its tensors, or a file beside it, a million times."""
        self._held += numbers
        if self._held > _MOST_NUMBERS:
            raise UnsupportedModel(f"{where} is where the model's tensors need more than {_MOST_NUMBERS} numbers")

    def _initializer(self, name: str) -> Constant | None:
        """A single number of the file: all that patterns look for."""
        tensor = self._initializers.get(name)
        return None if tensor is None or math.prod(tensor.dims) != 1 else constant(tensor, self._path)

    def _attribute(self, attribute: AttributeProto) -> Any:
        if attribute.type == AttributeProto.TENSOR:
            return constant(attribute.t, self._path)
        value = helper.get_attribute_value(attribute)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
