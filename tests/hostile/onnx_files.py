"""ONNX files that are cut off, flipped, or a graph that no exporter writes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from hostile.case import MODEL, POPULATION, hostile, register

Tensors = Sequence[TensorProto]


def _model(nodes: Sequence[NodeProto], constants: Tensors = (), shape: Sequence[int] = (1, 2), out: str = "y") -> bytes:
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    sink = helper.make_tensor_value_info(out, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [source], [sink], constants)
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString()
    return made


def _write(folder: Path, content: bytes, name: str = "bad.onnx") -> str:
    (folder / name).write_bytes(content)
    return name


def _tensor(name: str, values: object, kind: type = np.float32) -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype=kind), name)


def _gemm(weight: TensorProto, *nodes: NodeProto) -> bytes:
    """x times the weight, after which come the nodes."""
    first = helper.make_node("MatMul", ["x", weight.name], ["h" if nodes else "y"])
    return _model([first, *nodes], [weight])


def _cut(folder: Path, share: float) -> str:
    content = (folder / "good.onnx").read_bytes()
    return _write(folder, content[: int(share * len(content))])


for percent in (10, 35, 60, 85, 99):
    register(f"onnx_cut_at_{percent}_percent", MODEL, functools.partial(_cut, share=percent / 100))


def _flip(folder: Path, place: bytes, offset: int, bit: int) -> str:
    content = bytearray((folder / "good.onnx").read_bytes())
    content[content.index(place) + offset] ^= bit
    return _write(folder, bytes(content))


# Where a flipped bit must be noticed: an operator's name, a tensor's name, its type, its size, its length.
for name, place, offset, bit in (
    ("operator", b"Gemm", 0, 1),
    ("tensor_name", b"w0", 1, 4),
    ("output_name", b"z0", 1, 8),
    ("attribute", b"transB", 0, 2),
    ("graph_length", b"toy", -3, 64),
):
    register(f"onnx_bit_flipped_in_{name}", MODEL, functools.partial(_flip, place=place, offset=offset, bit=bit))


def _weight_of(folder: Path, value: float) -> str:
    return _write(folder, _gemm(_tensor("w", [[1.0], [value]])))


for value in (float("nan"), float("inf"), float("-inf")):
    register(f"onnx_weight_{value}".replace("-", "minus_"), MODEL, functools.partial(_weight_of, value=value))


@hostile(MODEL)
def onnx_weight_overflows_when_layers_are_multiplied(folder: Path) -> str:
    weights = [_tensor(f"w{k}", np.full((2, 2), 1e300), np.float64) for k in range(2)]
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["h"]), helper.make_node("MatMul", ["h", "w1"], ["y"])]
    return _write(folder, _model(nodes, weights))


@hostile(MODEL)
def onnx_weight_of_another_width(folder: Path) -> str:
    return _write(folder, _gemm(_tensor("w", np.ones((3, 1)))))


@hostile(MODEL)
def onnx_data_shorter_than_its_shape(folder: Path) -> str:
    tensor = _tensor("w", np.ones((2, 1)))
    tensor.dims[0] = 4
    return _write(folder, _gemm(tensor))


@hostile(MODEL)
def onnx_with_negative_size(folder: Path) -> str:
    tensor = _tensor("w", np.ones((2, 1)))
    tensor.dims[:] = [-2, -1]
    return _write(folder, _gemm(tensor))


@hostile(MODEL)
def onnx_with_gigantic_declared_size(folder: Path) -> str:
    tensor = _tensor("w", np.ones((2, 1)))
    tensor.dims[:] = [2**31, 2**31]
    return _write(folder, _gemm(tensor))


@hostile(MODEL)
def onnx_input_of_gigantic_size(folder: Path) -> str:
    return _write(folder, _model([helper.make_node("Relu", ["x"], ["y"])], shape=(1, 2**40)))


@hostile(MODEL)
def onnx_cyclic_graph(folder: Path) -> str:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    return _write(folder, _model(nodes, out="b"))


@hostile(MODEL)
def onnx_node_that_reads_itself(folder: Path) -> str:
    return _write(folder, _model([helper.make_node("Add", ["x", "y"], ["y"])]))


def _shape_bomb(folder: Path, operator: str) -> str:
    """A few bytes that ask for a tensor of 2^40 numbers."""
    size = _tensor("size", [2**20, 2**20], np.int64)
    source = ["size"] if operator == "ConstantOfShape" else ["w", "size"]
    nodes = [helper.make_node(operator, source, ["much"]), helper.make_node("MatMul", ["x", "much"], ["y"])]
    return _write(folder, _model(nodes, [size, _tensor("w", [[1.0]])]))


for operator in ("ConstantOfShape", "Expand"):
    register(f"onnx_bomb_by_{operator}", MODEL, functools.partial(_shape_bomb, operator=operator))


@hostile(MODEL)
def onnx_bomb_by_padding(folder: Path) -> str:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[2**20] * 4)
    return _write(folder, _model([node], [_tensor("w", np.ones((1, 1, 3, 3)))], shape=(1, 1, 4, 4)))


@hostile(MODEL)
def onnx_bomb_by_doubling(folder: Path) -> str:
    """Forty Concats of a tensor with itself."""
    names = ["x", *(f"d{k}" for k in range(39)), "y"]
    nodes = [helper.make_node("Concat", [a, a], [b], axis=1) for a, b in pairwise(names)]
    return _write(folder, _model(nodes))


@hostile(MODEL)
def onnx_bomb_by_carrying(folder: Path) -> str:
    """Every one of 900 layers is read at the end, so all of them are carried all the way: 900 squared squared."""
    nodes = []
    for k in range(900):
        nodes.append(helper.make_node("Add", [f"h{k - 1}" if k else "x", "b"], [f"a{k}"]))
        nodes.append(helper.make_node("Relu", [f"a{k}"], [f"h{k}"]))
    nodes.append(helper.make_node("Concat", [f"h{k}" for k in range(900)], ["y"], axis=1))
    return _write(folder, _model(nodes, [_tensor("b", [[1.0, 2.0]])]))


@hostile(MODEL)
def onnx_bomb_by_convolving(folder: Path) -> str:
    """Ten numbers as a kernel, and 8192 inputs: every layer is a matrix of half a gigabyte."""
    names = ["x", *(f"h{k}" for k in range(9)), "y"]
    nodes = []
    for k, (a, b) in enumerate(pairwise(names)):
        nodes.append(helper.make_node("Conv", [a, "w"], [f"c{k}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [b]))
    return _write(folder, _model(nodes, [_tensor("w", np.ones((1, 1, 3, 3)))], shape=(1, 1, 64, 128)))


@hostile(MODEL)
def onnx_of_five_thousand_levels(folder: Path) -> str:
    names = ["x", *(f"h{k}" for k in range(5000)), "y"]
    nodes = [helper.make_node("Tanh", [a], [b]) for a, b in pairwise(names)]
    return _write(folder, _model(nodes))


@hostile(MODEL)
def onnx_that_multiplies_by_nothing_for_hours(folder: Path) -> str:
    """Zeros leave no trace in a sparse matrix, and take as long."""
    nodes = [helper.make_node("ConstantOfShape", ["size"], ["w"]), helper.make_node("Expand", ["x", "long"], ["v0"])]
    nodes += [helper.make_node("MatMul", [f"v{k}", "w"], [f"v{k + 1}"]) for k in range(4000)]
    size, long = _tensor("size", [512, 512], np.int64), _tensor("long", [64, 512], np.int64)
    return _write(folder, _model(nodes, [size, long], shape=(1, 1), out="v4000"))


@hostile(MODEL)
def onnx_unknown_operator_with_a_terminal_command_for_a_name(folder: Path) -> str:
    node = helper.make_node("\x1b]0;owned\x07Evil\x1b[31m", ["x"], ["y"], domain="\x1b[2J")
    return _write(folder, _model([node]))


@hostile(MODEL)
def onnx_with_a_name_of_a_million_letters(folder: Path) -> str:
    return _write(folder, _model([helper.make_node("A" * 10**6, ["x"], ["y"])]))


@hostile(MODEL)
def onnx_without_a_graph(folder: Path) -> str:
    return _write(folder, onnx.ModelProto(ir_version=8).SerializeToString())


@hostile(POPULATION)
def onnx_of_random_bytes(folder: Path) -> str:
    return _write(folder, np.random.default_rng(0).bytes(5000))


def _external(folder: Path, location: str, prepare: Callable[[Path], object] = lambda _: None) -> str:
    """Weights that are said to lie elsewhere."""
    prepare(folder)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location.format(absolute=folder.parent / "secret.bin"))
    return _write(folder, _gemm(tensor))


def _secret(folder: Path) -> None:
    (folder.parent / "secret.bin").write_bytes(np.ones(2, np.float32).tobytes())


def _link(folder: Path) -> None:
    _secret(folder)
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")


def _linked_folder(folder: Path) -> None:
    _secret(folder)
    (folder / "up").symlink_to(folder.parent)


def _loop(folder: Path) -> None:
    (folder / "loop.bin").symlink_to(folder / "loop.bin")


for name, location, prepare in (
    ("above", "../secret.bin", _secret),
    ("far_above", "../" * 30 + "etc/passwd", _secret),
    ("absolute", "{absolute}", _secret),
    ("a_link", "link.bin", _link),
    ("a_linked_folder", "up/secret.bin", _linked_folder),
    ("a_loop_of_links", "loop.bin", _loop),
    ("a_device", "/dev/zero", _secret),
    ("nowhere", "missing.bin", _secret),
    ("a_name_with_nul", "a\0b", _secret),
):
    register(f"onnx_external_data_in_{name}", MODEL, functools.partial(_external, location=location, prepare=prepare))


@hostile(MODEL)
def onnx_external_data_shorter_than_said(folder: Path) -> str:
    (folder / "short.bin").write_bytes(b"1234")
    return _external(folder, "short.bin")
