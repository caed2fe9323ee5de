"""ONNX files: float types, layouts, weights beside the model, and all that is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import Arrays, agrees, floats, model, node, rng, saved

from karenina.errors import InputError, UnsupportedModel
from karenina.loading import load

# --- types and layouts


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_float_types_are_read_exactly(tmp_path: Path, kind: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    weight, bias = rng.normal(size=(3, 2)).astype(dtype), rng.normal(size=2).astype(dtype)
    nodes = [node("Gemm", "x w b")]
    network = load(saved(model(nodes, [1, 3], {"w": weight, "b": bias}, kind=kind), tmp_path))
    assert np.array_equal(network.layers[0].weight.numpy(), weight.T.astype(np.float64))
    assert np.array_equal(network.layers[0].bias.numpy(), bias.astype(np.float64))


def test_bfloat16_is_read_exactly(tmp_path: Path) -> None:
    proto = model([node("MatMul", "x w")], [1, 2], kind=TensorProto.BFLOAT16)
    raw = np.array([1.0, -2.5, 0.15625, 3.0], np.float32).view(np.uint32) >> 16  # bfloat16 is half of a float32
    proto.graph.initializer.append(
        TensorProto(name="w", dims=[2, 2], data_type=TensorProto.BFLOAT16, raw_data=raw.astype("<u2").tobytes())
    )
    network = load(saved(proto, tmp_path))
    assert network.layers[0].weight.numpy().tolist() == [[1.0, 0.15625], [-2.5, 3.0]]


def test_numbers_stored_one_by_one(tmp_path: Path) -> None:
    proto = model([node("MatMul", "x w")], [1, 2])
    proto.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [2, 1], [0.1, 2.0]))
    assert load(saved(proto, tmp_path)).layers[0].weight.numpy().tolist() == [[float(np.float32(0.1)), 2.0]]


@pytest.mark.parametrize("shape", [["batch", 3], [None, 3], [1, 3], [3], [1, 1, 1, 3], [0, 3]])
def test_layouts_of_the_input(tmp_path: Path, shape: list[int | str | None]) -> None:
    nodes = [node("MatMul", "x w")]
    assert load(saved(model(nodes, shape, {"w": floats(3, 2)}), tmp_path)).shape == "3-2"


def test_weights_that_are_also_inputs(tmp_path: Path) -> None:
    """As files were written before ONNX's version 4."""
    proto = model([node("MatMul", "x w")], [1, 3], {"w": floats(3, 2)}, 7)
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3, 2]))
    agrees(proto, tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    proto = model([node("MatMul", "x w", "z"), node("Add", "z b")], [1, 3], {"w": floats(3, 2), "b": floats(2)})
    path = folder / "model.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    agrees(path, tmp_path)
    (folder / "weights.bin").write_bytes(b"123")
    with pytest.raises(InputError, match=r"model.onnx: its tensor '\w' is damaged: weights.bin does not hold"):
        load(path)
    (folder / "weights.bin").rename(tmp_path / "weights.bin")
    with pytest.raises(InputError, match="no file in the model's folder"):
        load(path)


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "", "link"])
def test_files_outside_the_models_folder_are_never_read(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(8))
    (folder / "link").symlink_to(tmp_path / "secret")
    tensor = TensorProto(name="w", dims=[2, 1], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    proto = model([node("MatMul", "x w")], [1, 2])
    proto.graph.initializer.append(tensor)
    with pytest.raises(InputError, match="no file in the model's folder"):
        load(saved(proto, folder))


# --- refusals


@pytest.mark.parametrize("operator", ["Softmax", "MaxPool", "Sin", "GRU", "Gelu"])
def test_other_operators_are_refused_by_name(tmp_path: Path, operator: str) -> None:
    path = saved(model([node(operator, "x")], [1, 1, 4, 4]), tmp_path)
    with pytest.raises(UnsupportedModel, match=f"model.onnx: node 'the_{operator}' is a {operator}, which karenina"):
        load(path)


def test_operators_of_another_domain_are_refused(tmp_path: Path) -> None:
    custom = helper.make_node("Relu", ["x"], ["y"], name="mine", domain="com.example")
    with pytest.raises(UnsupportedModel, match=r"node 'mine' is a com.example.Relu"):
        load(saved(model([custom], [1, 3]), tmp_path))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Mul", "x x")], "multiplies two values that both depend on the network's input"),
        ([node("MatMul", "x x")], "multiplies two values that both depend on the network's input"),
        ([node("Div", "c x")], "divides by a value that depends on the network's input"),
        ([node("Div", "x zero")], "divides by zero"),
        ([node("Add", "x infinite")], "NaN or infinity"),
        ([node("Cast", "x", to=TensorProto.INT64)], "to whole numbers"),
        ([node("Add", "x missing")], "reads 'missing', which nothing before it computes"),
        ([node("Add", "x wide")], "makes no sense: shape mismatch"),
        ([node("MatMul", "x wide")], r"multiplies a tensor of shape \[1, 3, 3\] by a weight for 4 inputs"),
        ([node("Gemm", "x c")], "not two matrices"),
        ([node("Reshape", "x c")], "makes no sense"),
        ([node("Conv", "x c")], "makes no sense|window"),
        ([node("Transpose", "x", perm=[0, 0, 1])], "makes no sense"),
        ([node("Gather", "x nine", axis=1)], "makes no sense"),
        ([node("Gather", "c x")], "needs a constant as its input 1"),
        ([node("Clip", "x c")], "one number as a bound"),
        ([node("Elu", "x", alpha=-1.0)], "alpha >= 0"),
        ([node("Slice", "x")], "lacks its starts or ends"),
        ([node("Relu", "")], "lacks its input 0"),
        ([node("LeakyRelu", "x", alpha="steep")], "makes no sense"),
        ([node("Split", "x", "y z", axis=1, split=[1, 1])], r"splits an axis of 3 into \[1, 1\]"),
    ],
)
def test_nodes_that_make_no_sense_are_refused_by_name(
    tmp_path: Path, nodes: list[onnx.NodeProto], message: str
) -> None:
    constants: Arrays = {
        "c": floats(3, 3),
        "zero": np.zeros(1, np.float32),
        "infinite": np.full(3, np.inf, np.float32),
        "wide": floats(4, 4),
        "nine": np.array([9]),
    }
    path = saved(model(nodes, [1, 3, 3], constants), tmp_path)
    with pytest.raises(InputError, match=f"model.onnx: node 'the_{nodes[0].op_type}'.*({message})"):
        load(path)


def test_models_of_more_than_one_input_or_output_are_refused(tmp_path: Path) -> None:
    proto = model([node("Add", "x x2")], [1, 3])
    proto.graph.input.append(helper.make_tensor_value_info("x2", TensorProto.FLOAT, [1, 3]))
    with pytest.raises(UnsupportedModel, match=r"one input, but this graph has 2 \('x', 'x2'\)"):
        load(saved(proto, tmp_path))
    proto = model([node("Relu", "x"), node("Tanh", "x", "z")], [1, 3])
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 3]))
    with pytest.raises(UnsupportedModel, match=r"one output, but this graph has 2 \('y', 'z'\)"):
        load(saved(proto, tmp_path))


@pytest.mark.parametrize("shape", [["batch", "n"], ["n"], [1, None], [-1, 3]])
def test_inputs_of_unknown_size_are_refused(tmp_path: Path, shape: list[Any]) -> None:
    with pytest.raises(UnsupportedModel, match=r"only the first axis, the batch, may be free"):
        load(saved(model([node("Relu", "x")], shape), tmp_path))


def test_an_input_of_whole_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="not a tensor of floats"):
        load(saved(model([node("Relu", "x")], [1, 3], kind=TensorProto.INT64), tmp_path))


def test_nan_weights_are_refused_by_name(tmp_path: Path) -> None:
    weight = floats(3, 2)
    weight[1, 1] = np.nan
    with pytest.raises(InputError, match=r"model.onnx: its tensor 'w' holds NaN"):
        load(saved(model([node("MatMul", "x w")], [1, 3], {"w": weight}), tmp_path))


def test_weights_that_overflow_are_refused(tmp_path: Path) -> None:
    huge = np.full((3, 3), 1e300)
    nodes = [node("MatMul", "x w", "z"), node("MatMul", "z w")]
    with pytest.raises(InputError, match=r"model.onnx: .*NaN or infinity"):
        load(saved(model(nodes, [1, 3], {"w": huge}, kind=TensorProto.DOUBLE), tmp_path))


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ConstantOfShape", "huge", "c"), node("Add", "x c")],
        [node("Expand", "x huge")],
        [node("Conv", "x k", pads=[10**6] * 4)],
        [node("AveragePool", "x", kernel_shape=[10**5, 10**5], pads=[10**5] * 4)],
    ],
)
def test_small_files_that_ask_for_all_memory_are_refused(tmp_path: Path, nodes: list[onnx.NodeProto]) -> None:
    constants: Arrays = {"huge": np.array([10**5, 10**5, 1, 1]), "k": floats(1, 1, 3, 3)}
    with pytest.raises(UnsupportedModel, match=r"more than the \d+ that karenina holds"):
        load(saved(model(nodes, [1, 1, 4, 4], constants), tmp_path))


def _doubled(source: str, times: int) -> list[onnx.NodeProto]:
    names = [source, *(f"d{k}" for k in range(times - 1)), "y"]
    return [node("Concat", f"{a} {a}", b, axis=1) for a, b in pairwise(names)]


@pytest.mark.parametrize(
    "nodes",
    [
        _doubled("x", 40),
        [*_doubled("c", 40)[:-1], node("Add", "x d38")],
        [node("Reshape", "many column", "tall"), node("Mul", "many tall")],
        [node("Reshape", "many column", "tall"), node("MatMul", "tall many")],
        [node("Gather", "many grid", "g"), node("Gather", "g grid")],
        [node("Expand", "x wide", "w"), *(node("Identity", "w", "y") for _ in range(400))],
    ],
)
def test_small_files_that_grow_step_by_step_are_refused(
    tmp_path: Path, nodes: list[onnx.NodeProto], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("karenina.loading.affine.LARGEST", 2**20)
    monkeypatch.setattr("karenina.loading.onnx._MOST_NUMBERS", 2**21)
    constants: Arrays = {
        "c": floats(1, 4),
        "many": floats(1, 20000),
        "column": np.array([20000, 1]),
        "grid": np.zeros((200, 200), np.int64),
        "wide": np.array([200_000, 4]),
    }
    with pytest.raises(UnsupportedModel, match=r"more than (the )?\d+"):
        load(saved(model(nodes, [1, 4], constants), tmp_path))


def test_a_huge_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="that karenina holds"):
        load(saved(model([node("Relu", "x")], [1, 10**12]), tmp_path))


def test_a_tensor_with_less_data_than_declared_is_refused(tmp_path: Path) -> None:
    proto = model([node("MatMul", "x w")], [1, 3])
    proto.graph.initializer.append(
        TensorProto(name="w", dims=[10**6, 10**6], data_type=TensorProto.FLOAT, raw_data=bytes(16))
    )
    with pytest.raises(InputError, match=r"its tensor 'w' is damaged"):
        load(saved(proto, tmp_path))


def test_tensors_of_other_types_are_refused(tmp_path: Path) -> None:
    proto = model([node("MatMul", "x w")], [1, 1])
    proto.graph.initializer.append(
        TensorProto(name="w", dims=[1, 1], data_type=TensorProto.COMPLEX64, raw_data=bytes(8))
    )
    with pytest.raises(UnsupportedModel, match=r"its tensor 'w' has the type COMPLEX64"):
        load(saved(proto, tmp_path))


def test_a_graph_without_nodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without a graph"):
        load(saved(onnx.ModelProto(ir_version=8, producer_name="nobody"), tmp_path))
