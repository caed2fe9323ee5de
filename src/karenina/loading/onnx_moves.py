"""ONNX operators that move data, and those that exporters write around a network to say where it goes.

Enters: a `Node`. Leaves: the values of its outputs. One function moves both a constant and a tensor: applied to
the numbers of the tensor's elements, it says where every element goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.affine import ELEMENTS, Affine, check_size
from karenina.loading.onnx_node import FLOATS, Constant, Node, Value, affine
from karenina.network import IDENTITY
from karenina.onnx_writer import IDENTITY_NEURONS

__all__ = ["MOVES"]


def _flatten(x: Constant, node: Node) -> Constant:
    axis = int(node.attributes.get("axis", 1))
    return x.reshape(math.prod(x.shape[: axis if axis >= 0 else axis + x.ndim]), -1)


def _reshape(x: Constant, node: Node) -> Constant:
    shape = node.setting("shape", 1)
    if shape is None:
        raise InputError("lacks its shape")
    if not node.attributes.get("allowzero", 0):
        shape = [x.shape[k] if size == 0 else size for k, size in enumerate(shape)]
    return x.reshape(shape)


def _transpose(x: Constant, node: Node) -> Constant:
    return x.transpose(node.attributes.get("perm"))


def _squeeze(x: Constant, node: Node) -> Constant:
    axes = node.setting("axes", 1)
    return np.squeeze(x) if axes is None else np.squeeze(x, tuple(axes))


def _unsqueeze(x: Constant, node: Node) -> Constant:
    axes = node.setting("axes", 1)
    if axes is None:
        raise InputError("lacks its axes")
    return np.expand_dims(x, tuple(axes))


def _slice(x: Constant, node: Node) -> Constant:
    starts, ends, axes = (node.setting(name, k) for k, name in ((1, "starts"), (2, "ends"), (3, "axes")))
    if starts is None or ends is None:
        raise InputError("lacks its starts or ends")
    axes = list(range(len(starts))) if axes is None else axes
    steps = node.setting("steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = np.take(x, _range(start, end, step, x.shape[axis]), axis=axis)
    return x


def _range(start: int, end: int, step: int, size: int) -> range:
    """ONNX's slice of an axis: negative bounds count from its end, and all bounds are clamped to it."""
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    if step > 0:
        return range(min(max(start, 0), size), min(max(end, 0), size), step)
    return range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)


def _gather(x: Constant, node: Node) -> Constant:
    indices, axis = node.constant(1).astype(np.int64), int(node.attributes.get("axis", 0))
    check_size(indices.size, x.size // max(x.shape[axis], 1), most=ELEMENTS)
    return np.take(x, indices, axis=axis)


def _expand(x: Constant, node: Node) -> Constant:
    shape = np.broadcast_shapes(x.shape, tuple(int(n) for n in node.constant(1).reshape(-1)))
    check_size(*shape, most=ELEMENTS)
    return np.broadcast_to(x, shape)


_Move = Callable[[Constant, Node], Constant]
_ELEMENT_MOVES: dict[str, _Move] = {
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


def _mover(move: _Move) -> Callable[[Node], Value]:
    def moved(node: Node) -> Value:
        x = node.value(0)
        return x.moved(move(x.index, node)) if isinstance(x, Affine) else move(x, node)

    return moved


def _split(node: Node) -> tuple[Value, ...]:
    x = node.value(0)
    index = x.index if isinstance(x, Affine) else x
    axis = int(node.attributes.get("axis", 0))
    sizes = node.setting("split", 1)
    if sizes is None:
        size = -(-index.shape[axis] // node.outputs)
        sizes = [size] * (node.outputs - 1) + [index.shape[axis] - size * (node.outputs - 1)]
    if sum(sizes) != index.shape[axis] or min(sizes) < 0:
        raise InputError(f"splits an axis of {index.shape[axis]} into {sizes}")
    parts = np.split(index, np.cumsum(sizes)[:-1], axis=axis)
    return tuple(x.moved(part) if isinstance(x, Affine) else part for part in parts)


def _concat(node: Node) -> Value:
    values = [node.value(k) for k in range(len(node.inputs))]
    axis = int(node.attributes.get("axis", 1))
    if any(isinstance(value, Affine) for value in values):
        return Affine.joined([affine(value) for value in values], axis)
    check_size(sum(math.prod(value.shape) for value in values))
    return np.concatenate([node.constant(k) for k in range(len(values))], axis=axis)


def _identity(node: Node) -> Value:
    x = node.value(0)
    return node.graph.activate(x, IDENTITY) if isinstance(x, Affine) and node.doc == IDENTITY_NEURONS else x


def _dropout(node: Node) -> tuple[Value, ...]:
    training = node.optional(2)
    if training is not None and training.any():
        raise UnsupportedModel("is in training mode: export the model in evaluation mode")
    x = node.value(0)
    return (x, np.ones(x.shape, bool))[: node.outputs]


def _constant(node: Node) -> Value:
    for name, kind in (("value_float", float), ("value_floats", float), ("value_int", int), ("value_ints", int)):
        if name in node.attributes:
            return np.array(node.attributes[name], dtype=np.float64 if kind is float else np.int64)
    value = node.attributes.get("value")
    if not isinstance(value, np.ndarray):
        raise UnsupportedModel("holds no tensor of numbers")
    return value


def _constant_of_shape(node: Node) -> Value:
    shape = tuple(int(n) for n in node.constant(0).reshape(-1))
    check_size(*shape, most=ELEMENTS)
    return np.full(shape, node.attributes.get("value", np.zeros(1)).reshape(-1)[0])


def _shape(node: Node) -> Value:
    shape = node.value(0).shape
    return np.array(shape[node.attributes.get("start", 0) : node.attributes.get("end", len(shape))], dtype=np.int64)


def _cast(node: Node) -> Value:
    x, to = node.value(0), node.attributes["to"]
    if isinstance(x, Affine):
        if to in FLOATS:
            return x  # karenina's networks calculate with real numbers
        raise UnsupportedModel("rounds a value that depends on the network's input to whole numbers")
    if to in FLOATS:
        return x.astype(helper.tensor_dtype_to_np_dtype(to)).astype(np.float64)
    return x.astype(bool) if to == TensorProto.BOOL else x.astype(np.int64)


MOVES: dict[str, Callable[[Node], Value | tuple[Value, ...]]] = {
    **{name: _mover(move) for name, move in _ELEMENT_MOVES.items()},
    "Cast": _cast,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Dropout": _dropout,
    "Identity": _identity,
    "Shape": _shape,
    "Split": _split,
}
