"""ONNX operators that calculate: arithmetic, products, activations; with those that move data, all karenina reads.

Enters: a `Node`. Leaves: the value of its output. What an operator cannot be (a product of two values that both
depend on the input, training mode, ...) is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.affine import ELEMENTS, Affine, check_size
from karenina.loading.graph import Graph
from karenina.loading.onnx_moves import MOVES
from karenina.loading.onnx_node import Constant, Node, Value, affine, finite
from karenina.loading.products import Window, average_pool, batch_normalise, convolve, linear
from karenina.network import RELU, Activation

__all__ = ["OPERATORS"]

# What exporters write for "no bound": the largest float32. No float32 value lies beyond it.
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def _operands(node: Node) -> tuple[Value, Value]:
    """Both operands; before opset 7 the second could be aligned to an axis of the first."""
    a, b = node.value(0), node.value(1)
    if node.opset < 7 and "axis" in node.attributes and isinstance(b, np.ndarray):
        b = b.reshape(b.shape + (1,) * (len(a.shape) - int(node.attributes["axis"]) - b.ndim))
    shape = np.broadcast_shapes(a.shape, b.shape)
    check_size(*shape, most=max(math.prod(a.shape), math.prod(b.shape), ELEMENTS))
    return a, b


def _add(node: Node) -> Value:
    a, b = _operands(node)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a + b
    return affine(a).plus(affine(b))


def _subtract(node: Node) -> Value:
    a, b = _operands(node)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a - b
    return affine(a).plus(affine(b).scaled(np.array(-1.0)))


def _multiply(node: Node) -> Value:
    a, b = _operands(node)
    if isinstance(a, Affine) and isinstance(b, Affine):
        raise UnsupportedModel("multiplies two values that both depend on the network's input")
    if isinstance(a, Affine):
        return node.graph.scale(a, finite(np.asarray(b)))
    return node.graph.scale(b, finite(a)) if isinstance(b, Affine) else a * b


def _divide(node: Node) -> Value:
    a, b = _operands(node)
    if isinstance(b, Affine):
        raise UnsupportedModel("divides by a value that depends on the network's input")
    if not b.all():
        raise InputError("divides by zero")
    if isinstance(a, Affine):
        return node.graph.scale(a, finite(b), divide=True)
    return a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(np.int64)


def _negate(node: Node) -> Value:
    x = node.value(0)
    return x.scaled(np.array(-1.0)) if isinstance(x, Affine) else -x


def _square_root(node: Node) -> Value:
    return np.sqrt(node.weight(0))


def _sum(node: Node) -> Value:
    total = node.tensor(0)
    for k in range(1, len(node.inputs)):
        total = total.plus(node.tensor(k))
    return total


def _matmul(node: Node) -> Value:
    return _product(node.graph, node.value(0), node.value(1))


def _product(graph: Graph, a: Value, b: Value) -> Value:
    """A matrix product as numpy defines it, one factor constant."""
    if isinstance(a, Affine) and isinstance(b, Affine):
        raise UnsupportedModel("multiplies two values that both depend on the network's input")
    if isinstance(a, Affine):
        return _times_matrix(graph, a, finite(np.asarray(b)))
    if isinstance(b, Affine):
        if len(b.shape) == 1:  # a vector is its own transpose
            return _times_matrix(graph, b, np.swapaxes(finite(a), -1, -2) if a.ndim > 1 else finite(a))
        product = _times_matrix(graph, _swapped(b), np.swapaxes(np.atleast_2d(finite(a)), -1, -2))
        return _swapped(product) if a.ndim > 1 else product.moved(product.index[..., 0])
    check_size(a.size, b.size // max(b.shape[-2] if b.ndim > 1 else b.size, 1))
    return a @ b


def _swapped(tensor: Affine) -> Affine:
    return tensor.moved(np.swapaxes(tensor.index, -1, -2))


def _times_matrix(graph: Graph, tensor: Affine, matrix: npt.NDArray[np.float64]) -> Affine:
    """tensor @ matrix, where the matrix has two axes that matter."""
    if matrix.ndim == 1:
        product = linear(graph, tensor, matrix[None])
        return product.moved(product.index[..., 0])
    if math.prod(matrix.shape[:-2]) != 1:
        raise UnsupportedModel(f"multiplies with a stack of matrices of shape {list(matrix.shape)}")
    product = linear(graph, tensor, matrix.reshape(matrix.shape[-2:]).T)
    missing = max(matrix.ndim - len(tensor.shape), 0) if len(tensor.shape) > 1 else 0
    return product.moved(product.index.reshape((1,) * missing + product.shape))


def _gemm(node: Node) -> Value:
    a, b = node.value(0), node.value(1)
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise InputError(f"multiplies tensors of shapes {list(a.shape)} and {list(b.shape)}, not two matrices")
    factors = []
    for value, transposed in ((a, "transA"), (b, "transB")):
        swap = bool(node.attributes.get(transposed, 0))
        factors.append(value if not swap else _swapped(value) if isinstance(value, Affine) else value.T)
    product = affine(_product(node.graph, *factors))
    product = node.graph.scale(product, np.array(float(node.attributes.get("alpha", 1.0))))
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return product
    beta = np.array(float(node.attributes.get("beta", 1.0)))
    return product.plus(node.graph.scale(node.tensor(2), beta))


def _window(node: Node, kernel: Sequence[int], sizes: Sequence[int]) -> Window:
    """How a Conv or a pool slides over spatial axes of these sizes."""
    attributes = node.attributes
    pads = [int(n) for n in attributes.get("pads", [])]
    if len(pads) % 2:
        raise InputError(f"has {len(pads)} pads, not two for every axis")
    half = len(pads) // 2
    window = Window.of(
        [int(n) for n in kernel],
        [int(n) for n in attributes.get("strides", [])],
        [int(n) for n in attributes.get("dilations", [])],
        list(zip(pads[:half], pads[half:], strict=True)),
        ceil_mode=bool(attributes.get("ceil_mode", 0)),
    )
    match attributes.get("auto_pad", "NOTSET"):
        case "NOTSET" | "":
            return window
        case "VALID":
            return Window.of(window.kernel, window.strides, window.dilations, ceil_mode=window.ceil_mode)
        case "SAME_UPPER" | "SAME_LOWER" as kind:
            return window.same(sizes, upper=kind == "SAME_UPPER")
        case other:
            raise UnsupportedModel(f"has auto_pad {other!r}")


def _conv(node: Node) -> Value:
    tensor, weight = node.tensor(0), node.weight(1)
    bias = None if node.optional(2) is None else node.weight(2)
    window = _window(node, weight.shape[2:], tensor.shape[2:])
    return convolve(node.graph, tensor, weight, bias, window, int(node.attributes.get("group", 1)))


def _average_pool(node: Node) -> Value:
    tensor = node.tensor(0)
    window = _window(node, node.attributes["kernel_shape"], tensor.shape[2:])
    return average_pool(node.graph, tensor, window, count_padding=bool(node.attributes.get("count_include_pad", 0)))


def _global_average_pool(node: Node) -> Value:
    tensor = node.tensor(0)
    return average_pool(node.graph, tensor, Window.of(tensor.shape[2:]))


def _batch_normalization(node: Node) -> Value:
    if node.attributes.get("training_mode", 0) or node.outputs > 1:
        raise UnsupportedModel("is in training mode: export the model in evaluation mode")
    tensor = node.tensor(0)
    if len(tensor.shape) < 2:
        raise InputError(f"normalises a tensor of shape {list(tensor.shape)}, which has no channels")
    spatial = bool(node.attributes.get("spatial", 1))
    shape = (-1,) + (1,) * (len(tensor.shape) - 2) if spatial else tensor.shape[1:]
    scale, shift, mean, variance = (node.weight(k).reshape(shape) for k in range(1, 5))
    if spatial and {len(scale), len(shift), len(mean), len(variance)} != {tensor.shape[1]}:
        raise InputError(f"has statistics that do not fit {tensor.shape[1]} channels")
    epsilon = float(node.attributes.get("epsilon", np.float32(1e-5)))
    return batch_normalise(node.graph, tensor, mean, variance, scale, shift, epsilon)


def _activation(name: str, **parameters: float) -> Callable[[Node], Value]:
    """An activation; a parameter is an attribute of the node, here with its default. ONNX attributes are float32."""

    def activate(node: Node) -> Value:
        values = tuple(float(np.float32(node.attributes.get(key, value))) for key, value in parameters.items())
        return node.graph.activate(node.tensor(), Activation(name, values))

    return activate


def _clip(node: Node) -> Value:
    bounds = []
    for k, name in ((1, "min"), (2, "max")):
        given = node.optional(k)
        bounds.append(float(node.attributes[name]) if name in node.attributes else _scalar(given))
    low = -math.inf if bounds[0] is None or bounds[0] <= -_LARGEST_FLOAT32 else bounds[0]
    high = math.inf if bounds[1] is None or bounds[1] >= _LARGEST_FLOAT32 else bounds[1]
    return node.graph.clip(node.tensor(), low, high)


def _scalar(value: Constant | None) -> float | None:
    if value is not None and value.size != 1:
        raise UnsupportedModel(f"takes one number as a bound, not a tensor of shape {list(value.shape)}")
    return None if value is None else float(value.reshape(-1)[0])


OPERATORS: dict[str, Callable[[Node], Value | tuple[Value, ...]]] = {
    **MOVES,
    "Abs": _activation("abs"),
    "Add": _add,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Clip": _clip,
    "Conv": _conv,
    "Div": _divide,
    "Elu": _activation("elu", alpha=1.0),
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "LeakyRelu": _activation("leaky_relu", alpha=0.01),
    "MatMul": _matmul,
    "Mul": _multiply,
    "Neg": _negate,
    "Relu": lambda node: node.graph.activate(node.tensor(), RELU),
    "Sigmoid": _activation("sigmoid"),
    "Softplus": _activation("softplus"),
    "Sqrt": _square_root,
    "Sub": _subtract,
    "Sum": _sum,
    "Tanh": _activation("tanh"),
}
