"""Networks to ONNX and back, and as onnxruntime and Marabou read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.errors import InputError
from karenina.loading import load
from karenina.network import ACTIVATIONS, IDENTITY, RELU, Activation, Layer, Network, concatenate

TANH = Activation("tanh")
KINDS = {
    "identity": IDENTITY,
    "relu": RELU,
    "leaky_relu": Activation("leaky_relu", (0.25,)),
    "abs": Activation("abs"),
    "clip": Activation("clip", (-0.5, 0.75)),
    "elu": Activation("elu", (1.5,)),
    "tanh": TANH,
    "sigmoid": Activation("sigmoid"),
    "softplus": Activation("softplus"),
}

Runs = tuple[tuple[Activation, int], ...]


def network_of(inputs: int, layers: list[Runs], seed: int = 0, *, exact: bool = True) -> Network:
    """Random weights: float32 numbers if `exact`."""
    rng = np.random.default_rng(seed)
    made, size = [], inputs
    for runs in layers:
        count = sum(n for _, n in runs)
        weight, bias = rng.normal(size=(count, size)), rng.normal(size=count)
        if exact:
            weight, bias = weight.astype(np.float32).astype(float), bias.astype(np.float32).astype(float)
        made.append(Layer.of(weight, bias, runs))
        size = count
    return Network(tuple(made), "a network")


def round_trip(network: Network, folder: Path) -> tuple[Path, Network]:
    path = folder / "network.onnx"
    network.to_onnx(path)
    return path, load(path)


def onnxruntime_outputs(path: Path, inputs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    dtype = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    return np.concatenate([session.run(["output"], {"input": x[None].astype(dtype)})[0] for x in inputs])


def same_function(a: Network, b: Network) -> None:
    x = np.random.default_rng(1).normal(size=(30, a.input_size)) * 2
    np.testing.assert_allclose(a(x), b(x), rtol=1e-13, atol=1e-13)


def test_every_activation_is_written() -> None:
    assert set(KINDS) == set(ACTIVATIONS)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("last", [True, False])
def test_one_activation(tmp_path: Path, name: str, last: bool) -> None:
    layers: list[Runs] = [((KINDS[name], 5),)] if last else [((KINDS[name], 5),), ((IDENTITY, 2),)]
    network = network_of(3, layers)
    path, again = round_trip(network, tmp_path)
    assert again.digest() == network.digest()
    x = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32).astype(float)
    np.testing.assert_allclose(onnxruntime_outputs(path, x), network(x), atol=2e-5)


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"elu", "softplus"}))
def test_float64_weights(tmp_path: Path, name: str) -> None:
    """onnxruntime has no float64 Elu and Softplus; the others it evaluates to float64's precision."""
    network = network_of(3, [((KINDS[name], 5),), ((IDENTITY, 2),)], exact=False)
    path, again = round_trip(network, tmp_path)
    assert onnx.load(path).graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    assert again.digest() == network.digest()
    x = np.random.default_rng(0).normal(size=(10, 3))
    np.testing.assert_allclose(onnxruntime_outputs(path, x), network(x), rtol=1e-12, atol=1e-12)


def test_names_and_shapes(tmp_path: Path) -> None:
    path, _ = round_trip(network_of(3, [((RELU, 4),), ((IDENTITY, 2),)]), tmp_path)
    graph = onnx.load(path).graph
    onnx.checker.check_model(str(path), full_check=True)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.input, *graph.output)}
    assert shapes == {"input": [1, 3], "output": [1, 2]}
    assert [node.op_type for node in graph.node] == ["Gemm", "Relu", "Gemm"]
    assert graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


_runs = st.lists(
    st.tuples(st.sampled_from([*KINDS.values(), Activation("leaky_relu", (0.1,))]), st.integers(1, 3)),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 3), st.lists(_runs, min_size=1, max_size=4), st.booleans(), st.integers(0, 99))
def test_any_mixture_of_activations(
    tmp_path_factory: pytest.TempPathFactory,
    inputs: int,
    layers: list[list[tuple[Activation, int]]],
    exact: bool,
    seed: int,
) -> None:
    network = network_of(inputs, [tuple(runs) for runs in layers], seed, exact=exact)
    inexact = Activation("leaky_relu", (0.1,))
    folder = tmp_path_factory.mktemp("mixed")
    if any(
        inexact in kinds and not kinds <= {inexact, RELU, IDENTITY, KINDS["leaky_relu"]}
        for kinds in ({kind for kind, _ in layer.activations} for layer in network.layers)
    ):
        with pytest.raises(InputError, match="float32"):
            network.to_onnx(folder / "n.onnx")
        assert list(folder.iterdir()) == []
        return
    _, again = round_trip(network, folder)
    same_function(network, again)
    rewritten = any(
        {kind.name for kind, _ in layer.activations} == {"relu", "identity"}
        or inexact in {kind for kind, _ in layer.activations}
        for layer in network.layers
    )
    assert rewritten or again.digest() == network.digest()


def test_identity_beside_relu_becomes_a_plain_relu_chain(tmp_path: Path) -> None:
    deep = network_of(3, [((RELU, 6),), ((RELU, 5),), ((RELU, 4),), ((IDENTITY, 2),)])
    shallow = network_of(3, [((RELU, 4),), ((IDENTITY, 1),)], seed=1)
    for pair in (concatenate(deep, shallow), concatenate(shallow, deep)):
        path, again = round_trip(pair, tmp_path)
        operators = [node.op_type for node in onnx.load(path).graph.node]
        assert operators == ["Gemm", "Relu", "Gemm", "Relu", "Gemm", "Relu", "Gemm"]
        same_function(pair, again)
        x = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32).astype(float)
        np.testing.assert_allclose(onnxruntime_outputs(path, x), pair(x), atol=1e-4)


def test_identity_beside_relu_at_the_end(tmp_path: Path) -> None:
    network = network_of(2, [((IDENTITY, 2), (RELU, 1))])
    _, again = round_trip(network, tmp_path)
    same_function(network, again)


def test_a_slope_that_float32_cannot_hold(tmp_path: Path) -> None:
    network = network_of(2, [((Activation("leaky_relu", (0.1,)), 3), (RELU, 1)), ((IDENTITY, 2),)])
    _, again = round_trip(network, tmp_path)
    same_function(network, again)
    assert np.array_equal(again.layers[1].weight.numpy()[0, :2], [1.0, -0.1])


def test_a_parameter_that_onnx_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"parameter of Elu as float32, which 0\.1 is not"):
        network_of(2, [((Activation("elu", (0.1,)), 3),)]).to_onnx(tmp_path / "n.onnx")


def test_clip_bounds_that_float32_cannot_hold_make_the_file_float64(tmp_path: Path) -> None:
    network = network_of(2, [((Activation("clip", (-0.1, 0.1)), 3),)])
    _, again = round_trip(network, tmp_path)
    assert again.digest() == network.digest()


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    network = network_of(2, [((RELU, 3),), ((IDENTITY, 1),)])
    path = tmp_path / "network.onnx"
    path.write_bytes(b"before")
    network.to_onnx(path)
    assert [file.name for file in tmp_path.iterdir()] == ["network.onnx"]
    assert load(path).digest() == network.digest()
    with pytest.raises(InputError, match=r"nowhere/n\.onnx: cannot be written: No such file"):
        network.to_onnx(tmp_path / "nowhere" / "n.onnx")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="folder: cannot be written"):
        network.to_onnx(tmp_path / "folder")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "network.onnx"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("second", [[((RELU, 4),), ((IDENTITY, 1),)], [((TANH, 4),), ((TANH, 3),), ((IDENTITY, 1),)]])
def test_marabou_reads_the_concatenated_file(tmp_path: Path, second: list[Runs]) -> None:
    marabou = pytest.importorskip("maraboupy.Marabou")
    first = network_of(3, [((RELU, 6),), ((RELU, 5),), ((IDENTITY, 2),)])
    pair = concatenate(first, network_of(3, second, seed=1))
    path, _ = round_trip(pair, tmp_path)
    read = marabou.read_onnx(str(path))
    assert read.inputVars[0].size == 3
    assert read.outputVars[0].size == 3
    options = marabou.createOptions(verbosity=0)
    for x in np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32).astype(float):
        expected = pair(x)
        without = read.evaluateWithoutMarabou([x])[0].reshape(-1)
        np.testing.assert_allclose(without, expected, atol=1e-5)
        within = read.evaluateWithMarabou([x], filename=str(tmp_path / "log.txt"), options=options)[0].reshape(-1)
        np.testing.assert_allclose(within, expected, atol=1e-4)
