"""Networks as ONNX files that other verifiers read.

Enters: a `Network`. Leaves: a file of Gemm and activation nodes, input "input" of shape [1, n], output "output" of
shape [1, m]; float32 where that holds every weight exactly, else float64. Loading it again gives the same
function, without rounding.

Where ReLU and identity neurons share a layer, as in [N1; N2] of networks of different depth, the file stays a
plain Gemm/Relu chain, which every verifier reads: an identity neuron v becomes relu(v) - relu(-v), which is
exact. Other mixtures become a Gemm for every activation, and a Concat.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from karenina.errors import InputError

if TYPE_CHECKING:
    from karenina.network import Activation, Network

__all__ = ["IDENTITY_NEURONS", "save_onnx"]

Array = npt.NDArray[np.float64]

# The doc_string of an Identity node that stands for a layer of identity neurons; our loader keeps such a layer.
IDENTITY_NEURONS = "identity neurons"

_OPSET = 17
_IR_VERSION = 8
_OPERATORS = {
    "relu": "Relu",
    "leaky_relu": "LeakyRelu",
    "abs": "Abs",
    "clip": "Clip",
    "elu": "Elu",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "identity": "Identity",
}

# A layer on its way to the file: weight (out, in), bias (out,), and runs of (activation's name, parameters, count).
_Run = tuple[str, tuple[float, ...], int]
_Runs = tuple[_Run, ...]
_Layer = tuple[Array, Array, _Runs]


def save_onnx(network: Network, path: str | Path) -> None:
    """Write the network; the file appears complete or not at all."""
    file = Path(path)
    layers = list(_written_layers(network))
    model = _model(network.name, layers, _float_type(layers))
    try:
        onnx.checker.check_model(model)
        content = model.SerializeToString()
    except Exception as error:  # protobuf's EncodeError for more than 2 GiB, onnx's ValidationError
        raise InputError(f"{file}: {network.name} cannot be written as ONNX: {error}") from error
    _replace(file, content)


def _replace(file: Path, content: bytes) -> None:
    """Write beside the file first, then rename."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{file}: cannot be written: {error.strerror or error}") from error


# --- layers that ONNX can say


def _written_layers(network: Network) -> Iterator[_Layer]:
    """The network's layers, with what ONNX cannot say exactly put in terms of ReLU."""
    pending: Array | None = None  # (a layer's true outputs, the outputs of its ReLU form), to fold into the next weight
    for layer in network.layers:
        weight, bias = layer.weight.cpu().numpy(), layer.bias.cpu().numpy()
        weight = weight if pending is None else _folded(weight, pending)
        runs = tuple((activation.name, activation.parameters, count) for activation, count in layer.activations)
        slopes = _negative_slopes(layer.activations)
        pending = None
        if slopes is None:
            yield weight, bias, runs
            continue
        weight, bias, relus, combination = _relu_form(weight, bias, slopes)
        yield weight, bias, relus
        if set(np.unique(combination)) <= {-1.0, 0.0, 1.0}:
            pending = combination
        else:
            yield combination, np.zeros(len(combination)), (("identity", (), len(combination)),)
    if pending is not None:
        yield pending, np.zeros(len(pending)), (("identity", (), len(pending)),)


def _folded(weight: Array, combination: Array) -> Array:
    """weight @ combination, where the combination only copies columns and changes signs: nothing is rounded."""
    rows, columns = np.nonzero(combination)  # one row for every column
    folded = np.zeros((len(weight), combination.shape[1]))
    folded[:, columns] = weight[:, rows] * combination[rows, columns]
    return folded


def _negative_slopes(activations: tuple[tuple[Activation, int], ...]) -> list[float] | None:
    """Every neuron's slope below zero, if the layer is one to write with ReLU alone; None if it is written as it is."""
    names = {activation.name for activation, _ in activations}
    inexact = any(
        activation.name == "leaky_relu" and not _is_float32(np.array(activation.parameters))
        for activation, _ in activations
    )
    if names != {"relu", "identity"} and not (inexact and names <= {"relu", "identity", "leaky_relu"}):
        return None
    slopes = {"relu": 0.0, "identity": 1.0}
    return [
        slopes.get(activation.name, *activation.parameters) for activation, count in activations for _ in range(count)
    ]


def _relu_form(weight: Array, bias: Array, slopes: list[float]) -> tuple[Array, Array, _Runs, Array]:
    """v becomes relu(v) - slope * relu(-v): the layer of the ReLUs, and what combines them again."""
    signs, owners = [], []
    for neuron, slope in enumerate(slopes):
        signs += [1.0, -1.0] if slope else [1.0]
        owners += [neuron, neuron] if slope else [neuron]
    combination = np.zeros((len(slopes), len(signs)))
    combination[owners, range(len(signs))] = [
        1.0 if sign > 0 else -slopes[owner] for sign, owner in zip(signs, owners, strict=True)
    ]
    sign = np.array(signs)
    return weight[owners] * sign[:, None], bias[owners] * sign, (("relu", (), len(signs)),), combination


# --- nodes


def _is_float32(array: Array) -> bool:
    with np.errstate(over="ignore"):
        return bool((array.astype(np.float32).astype(np.float64) == array).all())


def _float_type(layers: list[_Layer]) -> type[np.floating[Any]]:
    numbers = [array for weight, bias, _ in layers for array in (weight, bias)]
    numbers += [np.array(parameters) for _, _, runs in layers for name, parameters, _ in runs if name == "clip"]
    return np.float32 if all(map(_is_float32, numbers)) else np.float64


class _Writer:
    """The nodes and initializers of a graph, as they grow."""

    def __init__(self, dtype: type[np.floating[Any]]) -> None:
        self._dtype = dtype
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []

    def _constant(self, name: str, array: npt.ArrayLike) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(array, dtype=self._dtype), name))
        return name

    def _node(self, operator: str, inputs: list[str], output: str, doc: str | None = None, **attributes: Any) -> str:
        node = helper.make_node(operator, inputs, [output], name=f"{output}_{operator}", doc_string=doc, **attributes)
        self.nodes.append(node)
        return output

    def layer(self, layer: _Layer, source: str, output: str, *, last: bool) -> None:
        """A layer, from the tensor `source` to the tensor `output`."""
        weight, bias, runs = layer
        if len(runs) == 1:
            self._run(weight, bias, runs[0], source, output, plain=last)
            return
        parts, first = [], 0
        for k, run in enumerate(runs):
            rows = slice(first, first + run[2])
            self._run(weight[rows], bias[rows], run, source, f"{output}_{k}", plain=False)
            parts.append(f"{output}_{k}")
            first += run[2]
        self._node("Concat", parts, output, axis=1)

    def _run(self, weight: Array, bias: Array, run: _Run, source: str, output: str, *, plain: bool) -> None:
        """A Gemm and its activation; an identity needs no node where it is `plain` that the layer ends there."""
        name, parameters, _ = run
        alone = name == "identity" and plain
        affine = output if alone else f"{output}_affine"
        constants = [self._constant(f"{output}_weight", weight), self._constant(f"{output}_bias", bias)]
        self._node("Gemm", [source, *constants], affine, transB=1)
        if not alone:
            self._activation(name, parameters, affine, output)

    def _activation(self, name: str, parameters: tuple[float, ...], source: str, output: str) -> None:
        operator = _OPERATORS[name]
        if name == "clip":
            bounds = [
                self._constant(f"{output}_{side}", x) for side, x in zip(("low", "high"), parameters, strict=True)
            ]
            self._node(operator, [source, *bounds], output)
        elif name in ("leaky_relu", "elu"):
            if not _is_float32(np.array(parameters)):
                raise InputError(f"ONNX holds the parameter of {operator} as float32, which {parameters[0]} is not")
            self._node(operator, [source], output, alpha=parameters[0])
        else:
            self._node(operator, [source], output, IDENTITY_NEURONS if name == "identity" else None)


def _model(name: str, layers: list[_Layer], dtype: type[np.floating[Any]]) -> onnx.ModelProto:
    writer = _Writer(dtype)
    source = "input"
    for k, layer in enumerate(layers):
        last = k == len(layers) - 1
        output = "output" if last else f"layer{k}"
        writer.layer(layer, source, output, last=last)
        source = output
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs, outputs = layers[0][0].shape[1], len(layers[-1][1])
    graph = helper.make_graph(
        writer.nodes,
        name,
        [helper.make_tensor_value_info("input", kind, [1, inputs])],
        [helper.make_tensor_value_info("output", kind, [1, outputs])],
        writer.initializers,
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="karenina")
