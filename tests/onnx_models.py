"""Small ONNX models for tests, and onnxruntime's opinion of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from karenina.loading import load
from karenina.network import Network

OPSETS = (7, 9, 11, 13, 17, 21, 25)
Arrays = dict[str, npt.NDArray[Any]]

rng = np.random.default_rng(0)


def floats(*shape: int) -> npt.NDArray[np.float32]:
    return rng.normal(size=shape).astype(np.float32)


def node(operator: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node; its inputs and outputs separated by spaces, '-' for one that is left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    name = f"the_{operator}" if outputs.startswith("y") else f"{operator}_{outputs}"
    return helper.make_node(operator, names, outputs.split(), name=name, **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int | str | None],
    constants: Arrays | None = None,
    opset: int = 17,
    kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A graph from x to y."""
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def saved(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def onnxruntime_outputs(path: Path, inputs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    info = session.get_inputs()[0]
    shape = [size if isinstance(size, int) else 1 for size in info.shape]
    dtype = np.float64 if "double" in info.type else np.float32
    outputs = [session.run(None, {info.name: x.reshape(shape).astype(dtype)})[0].reshape(-1) for x in inputs]
    return np.stack(outputs).astype(np.float64)


def agrees(proto: onnx.ModelProto | Path, folder: Path, tolerance: float = 2e-5) -> Network:
    """The network of a model that computes what onnxruntime does."""
    path = proto if isinstance(proto, Path) else saved(proto, folder)
    network = load(path)
    inputs = rng.normal(size=(20, network.input_size)) * 2
    inputs = inputs.astype(np.float32).astype(np.float64)
    expected = onnxruntime_outputs(path, inputs)
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(network(inputs), expected, atol=tolerance * scale, rtol=0)
    assert np.ptp(expected) > 0, "a constant output would test nothing"
    return network
