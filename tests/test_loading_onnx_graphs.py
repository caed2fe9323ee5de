"""Whole ONNX graphs: branches, exporters' and competitions' ways of writing them, against onnxruntime."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnx_models import Arrays, agrees, floats, model, node, onnxruntime_outputs, saved
from torch import nn

from karenina.errors import UnsupportedModel
from karenina.loading import load

# --- graphs that are not chains


def test_residual_connections(tmp_path: Path) -> None:
    nodes = [
        node("Gemm", "x w b", "z"),
        node("Relu", "z", "h"),
        node("Gemm", "h v c", "u"),
        node("Relu", "u", "g"),
        node("Add", "g x", "s"),
        node("Gemm", "s o", "last"),
        node("Add", "last h"),
    ]
    constants = {"w": floats(4, 4), "b": floats(4), "v": floats(4, 4), "c": floats(4), "o": floats(4, 4)}
    network = agrees(model(nodes, [1, 4], constants), tmp_path)
    assert network.shape == "4-8-8-4"  # x is carried to the second layer; there, what the output needs of x and h


def test_branches_of_different_depth_on_a_shared_input(tmp_path: Path) -> None:
    """[N1; N2] as another tool would write it: only N2's one output is carried, not its 16 hidden values."""
    nodes = [
        node("Gemm", "x w1", "a1"),
        node("Relu", "a1", "h1"),
        node("Gemm", "h1 w2", "a2"),
        node("Relu", "a2", "h2"),
        node("Gemm", "h2 w3", "n1"),
        node("Gemm", "x v1", "c1"),
        node("Tanh", "c1", "g1"),
        node("Gemm", "g1 v2", "n2"),
        node("Concat", "n1 n2", axis=1),
    ]
    constants = {"w1": floats(3, 8), "w2": floats(8, 5), "w3": floats(5, 1), "v1": floats(3, 16), "v2": floats(16, 1)}
    network = agrees(model(nodes, [1, 3], constants), tmp_path)
    assert network.shape == "3-24-6-2"


def test_input_carried_over_many_layers(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "z0"), node("Tanh", "z0", "h0")]
    for k in range(1, 4):
        nodes += [node("MatMul", f"h{k - 1} w", f"z{k}"), node("Sigmoid", f"z{k}", f"h{k}")]
    nodes += [node("MatMul", "x v", "low"), node("Concat", "h3 low x", axis=1)]
    network = agrees(model(nodes, [1, 3], {"w": floats(3, 3), "v": floats(3, 1)}), tmp_path)
    assert network.shape == "3-6-6-6-6-7"


def test_activation_of_values_from_different_depths(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "r"), node("Tanh", "r", "t"), node("Concat", "t x r", "c", axis=1), node("Abs", "c")]
    network = agrees(model(nodes, [1, 2], {}), tmp_path)
    assert network.shape == "2-4-6-6"


def test_outputs_in_another_order_than_the_last_layer(tmp_path: Path) -> None:
    nodes = [
        node("Gemm", "x w", "z"),
        node("Relu", "z", "r"),
        node("Tanh", "z", "t"),
        node("Concat", "t r t", "c", axis=1),
        node("Gather", "c i", axis=1),
    ]
    network = agrees(model(nodes, [1, 2], {"w": floats(2, 3), "i": np.array([7, 4, 0])}), tmp_path)
    assert network.shape == "2-3"


def test_output_that_does_not_read_the_last_activation(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "r"), node("Tanh", "r", "t"), node("Sub", "t t", "zero"), node("Add", "r zero")]
    assert agrees(model(nodes, [1, 2]), tmp_path).shape == "2-2"


def test_nodes_the_output_does_not_need_are_not_read(tmp_path: Path) -> None:
    nodes = [node("Softmax", "x", "unused"), node("Relu", "x")]
    assert agrees(model(nodes, [1, 2]), tmp_path).shape == "2-2"


def test_linear_layers_in_a_row_are_multiplied_and_noted(tmp_path: Path) -> None:
    nodes = [node("Gemm", "x w b", "z"), node("Gemm", "z v c", "u"), node("Relu", "u")]
    constants = {"w": floats(3, 4), "b": floats(4), "v": floats(4, 2), "c": floats(2)}
    network = agrees(model(nodes, [1, 3], constants), tmp_path)
    assert network.shape == "3-2"
    assert any("multiplied together in float64" in note for note in network.notes)


def test_a_large_product_is_done_densely(tmp_path: Path) -> None:
    """784 x 64 x 200 terms: more than are summed one by one."""
    constants = {"w": floats(784, 64) / 28, "v": floats(64, 200) / 8}
    nodes = [node("MatMul", "x w", "z"), node("MatMul", "z v")]
    assert agrees(model(nodes, [1, 784], constants), tmp_path).shape == "784-200"


@st.composite
def graphs(draw: st.DrawFn) -> onnx.ModelProto:
    """Random graphs of affine operators and activations that read any earlier values, in float64."""
    local = np.random.default_rng(draw(st.integers(0, 10**6)))
    sizes, nodes = {"x": draw(st.integers(1, 4))}, []
    constants: Arrays = {}
    for k in range(draw(st.integers(1, 12))):
        name, source = f"v{k}", draw(st.sampled_from(sorted(sizes)))
        size, other = sizes[source], draw(st.sampled_from(sorted(sizes)))
        match draw(st.sampled_from(["Gemm", "Gemm", "Relu", "Relu", "Tanh", "Abs", "Add", "Concat", "Gather", "Mul"])):
            case "Gemm":
                sizes[name] = draw(st.integers(1, 4))
                constants |= {f"w{k}": local.normal(size=(size, sizes[name])), f"b{k}": local.normal(size=sizes[name])}
                nodes.append(node("Gemm", f"{source} w{k} b{k}", name))
            case "Add":  # of one size, or with one that is one wide
                fitting = [n for n in sorted(sizes) if sizes[n] in (1, size)]
                sizes[name] = size
                nodes.append(node("Add", f"{source} {draw(st.sampled_from(fitting or [source]))}", name))
            case "Concat":
                sizes[name] = size + sizes[other]
                nodes.append(node("Concat", f"{source} {other}", name, axis=1))
            case "Gather":
                sizes[name] = draw(st.integers(1, 4))
                constants[f"i{k}"] = local.integers(0, size, sizes[name])
                nodes.append(node("Gather", f"{source} i{k}", name, axis=1))
            case "Mul":
                sizes[name], constants[f"c{k}"] = size, local.normal(size=size)
                nodes.append(node("Mul", f"{source} c{k}", name))
            case operator:
                sizes[name] = size
                nodes.append(node(operator, source, name))
    ends = draw(st.lists(st.sampled_from(sorted(sizes)), min_size=1, max_size=3))
    nodes.append(node("Concat", " ".join(ends), axis=1))
    return model(nodes, [1, sizes["x"]], constants, 17, TensorProto.DOUBLE)


@settings(deadline=None, max_examples=150)
@given(graphs())
def test_random_graphs_become_chains(tmp_path_factory: pytest.TempPathFactory, proto: onnx.ModelProto) -> None:
    path = saved(proto, tmp_path_factory.getbasetemp(), "random.onnx")
    network = load(path)
    x = np.random.default_rng(0).normal(size=(10, network.input_size))
    np.testing.assert_allclose(network(x), onnxruntime_outputs(path, x), rtol=1e-9, atol=1e-9)


# --- whole models as exporters and competitions write them


class _Policy(nn.Module):
    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 8), activation, nn.Dropout(0.2), nn.Linear(8, 8), activation)
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.body(x)
        out: torch.Tensor = self.head(h + torch.relu(h))
        return out


_ACTIVATIONS = [
    nn.ReLU(),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.ELU(1.5),
    nn.LeakyReLU(0.2),
    nn.Softplus(),
    nn.Softplus(beta=2.5),
    nn.Hardtanh(-0.5, 1.0),
    nn.ReLU6(),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("activation", _ACTIVATIONS, ids=lambda a: type(a).__name__)
def test_torch_exporters(tmp_path: Path, activation: nn.Module) -> None:
    module, example = _Policy(activation).eval(), torch.zeros(1, 5)
    path = tmp_path / "new.onnx"
    torch.onnx.export(module, (example,), path, dynamo=True, verbose=False)
    new = agrees(path, tmp_path)
    path = tmp_path / "old.onnx"
    torch.onnx.export(module, (example,), path, dynamo=False, dynamic_axes={"x": {0: "batch"}}, input_names=["x"])
    old = agrees(path, tmp_path)
    assert new.digest() == old.digest()
    x = torch.randn(10, 5)
    np.testing.assert_allclose(new(x.numpy()), module(x).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Greater", "x low", "g"), node("Softplus", "x", "s"), node("Where", "g x s")],
        [node("Greater", "x high", "g"), node("Tanh", "x", "s"), node("Where", "g x s")],
        [node("Greater", "x high", "g"), node("Softplus", "x", "s"), node("Where", "g s x")],
        [node("Less", "x high", "g"), node("Softplus", "x", "s"), node("Where", "g x s")],
        [node("Greater", "x", "g"), node("Softplus", "", "s"), node("Where", "g x s")],
    ],
)
def test_other_uses_of_where_are_refused(tmp_path: Path, nodes: list[onnx.NodeProto]) -> None:
    constants: Arrays = {"low": np.array(1, np.float32), "high": np.array(20, np.float32)}
    with pytest.raises(UnsupportedModel, match=r"is a (Greater|Less)"):
        load(saved(model(nodes, [1, 3], constants), tmp_path))


class _Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU()
        )
        self.pool = nn.AvgPool2d(2)
        self.head = nn.Linear(6 * 3 * 3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.pool(self.conv(x))
        out: torch.Tensor = self.head(h.view(h.size(0), -1))
        return out


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [True, False])
def test_torch_exporters_of_convolutions(tmp_path: Path, dynamo: bool) -> None:
    torch.manual_seed(0)
    module = _Convolutional()
    module.conv(torch.randn(20, 1, 16, 16))  # statistics of the BatchNorm
    path = tmp_path / "conv.onnx"
    torch.onnx.export(module.eval(), (torch.zeros(1, 1, 16, 16),), path, dynamo=dynamo, verbose=False)
    assert agrees(path, tmp_path).input_size == 256


def test_convolutions_as_tf2onnx_writes_them(tmp_path: Path) -> None:
    """Keras keeps channels last: Transpose or Reshape before, Transpose after, MatMul and Add for Dense layers."""
    nodes = [
        node("Reshape", "x nchw", "t0"),
        node("Conv", "t0 k1 b1", "c1", auto_pad="SAME_UPPER", strides=[2, 2], kernel_shape=[3, 3]),
        node("Relu", "c1", "r1"),
        node("AveragePool", "r1", "p1", kernel_shape=[2, 2], strides=[2, 2], auto_pad="VALID"),
        node("Transpose", "p1", "t1", perm=[0, 2, 3, 1]),
        node("Reshape", "t1 flat", "f"),
        node("MatMul", "f w1", "m1"),
        node("Add", "m1 d1", "a1"),
        node("Tanh", "a1", "h1"),
        node("MatMul", "h1 w2", "m2"),
        node("Add", "m2 d2", "y"),
    ]
    constants = {
        "nchw": np.array([-1, 1, 8, 8]),
        "k1": floats(3, 1, 3, 3),
        "b1": floats(3),
        "flat": np.array([-1, 12]),
        "w1": floats(12, 5),
        "d1": floats(5),
        "w2": floats(5, 2),
        "d2": floats(2),
    }
    agrees(model(nodes, ["unk__1", 8, 8, 1], constants, 13), tmp_path)


@pytest.mark.parametrize("compress", [False, True])
def test_acas_xu_as_vnn_comp_ships_it(tmp_path: Path, compress: bool) -> None:
    constants: Arrays = {"mean": floats(1, 1, 1, 5)}
    nodes = [node("Sub", "x mean", "s"), node("Flatten", "s", "f", axis=1)]
    source, size = "f", 5
    for k in range(7):
        width = 50 if k < 6 else 5
        constants |= {f"w{k}": floats(size, width) / np.float32(math.sqrt(size)), f"b{k}": floats(width)}
        nodes += [node("MatMul", f"{source} w{k}", f"m{k}"), node("Add", f"m{k} b{k}", f"a{k}" if k < 6 else "y")]
        if k < 6:
            nodes.append(node("Relu", f"a{k}", f"h{k}"))
        source, size = f"h{k}", width
    path = saved(model(nodes, [1, 1, 1, 5], constants, 8), tmp_path, "ACASXU_run2a_1_1.onnx")
    network = agrees(path, tmp_path)
    assert network.shape == "5-50-50-50-50-50-50-5"
    if compress:
        packed = tmp_path / "ACASXU_run2a_1_1.onnx.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert load(packed).name == "ACASXU_run2a_1_1"
        assert load(packed).digest() == network.digest()


def test_a_convolution_of_an_image(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x k1 b1", "c1", pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 k2 b2", "c2", strides=[2, 2]),
        node("Relu", "c2", "r2"),
        node("AveragePool", "r2", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"),
        node("Gemm", "f w b"),
    ]
    constants: Arrays = {"k1": floats(8, 1, 3, 3) / 3, "b1": floats(8), "k2": floats(8, 8, 3, 3) / 9, "b2": floats(8)}
    constants |= {"w": floats(288, 10) / 17, "b": floats(10)}
    network = agrees(model(nodes, [1, 1, 28, 28], constants), tmp_path)
    assert network.shape == "784-6272-1352-10"
