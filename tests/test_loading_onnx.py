"""Every operator and several opsets against onnxruntime, on random inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx_models import OPSETS, Arrays, agrees, floats, model, node, rng, saved

from karenina.errors import UnsupportedModel
from karenina.loading import load

# --- affine operators


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(tmp_path: Path, opset: int, trans_a: int, trans_b: int) -> None:
    weight = floats(3, 4) if trans_b else floats(4, 3)
    gemm = node("Gemm", "x w b", transA=trans_a, transB=trans_b, alpha=0.5, beta=2.0)
    agrees(model([gemm], [4, 1] if trans_a else [1, 4], {"w": weight, "b": floats(3)}, opset), tmp_path)


@pytest.mark.parametrize("shape", [(1,), (3,), (1, 1), (1, 3)])
def test_gemm_broadcasts_its_bias(tmp_path: Path, shape: tuple[int, ...]) -> None:
    agrees(model([node("Gemm", "x w b")], [1, 4], {"w": floats(4, 3), "b": floats(*shape)}), tmp_path)


def test_gemm_without_bias(tmp_path: Path) -> None:
    agrees(model([node("Gemm", "x w")], ["batch", 4], {"w": floats(4, 3)}, 11), tmp_path)


def test_gemm_with_a_constant_first_factor(tmp_path: Path) -> None:
    agrees(model([node("Gemm", "w x b", transB=1)], [1, 4], {"w": floats(3, 4), "b": floats(3, 1)}), tmp_path)


@pytest.mark.parametrize(
    ("first", "second", "shape"),
    [
        ("x", (4, 3), [1, 4]),
        ("x", (4, 3), [4]),
        ("x", (4,), [1, 4]),
        ("x", (4,), [4]),
        ("x", (4, 3), [1, 2, 4]),
        ("x", (1, 4, 3), [1, 4]),
        ("x", (1, 1, 4, 3), [1, 1, 2, 4]),
        ((3, 4), "x", [4, 1]),
        ((3, 4), "x", [4]),
        ((4,), "x", [4, 2]),
        ((4,), "x", [4]),
        ((3, 4), "x", [1, 4, 2]),
    ],
)
def test_matmul(tmp_path: Path, first: Any, second: Any, shape: list[int]) -> None:
    weight = floats(*(second if first == "x" else first))
    names = "x w" if first == "x" else "w x"
    agrees(model([node("MatMul", names)], shape, {"w": weight}), tmp_path)


def test_matmul_and_add_are_one_exact_layer(tmp_path: Path) -> None:
    weight, bias = floats(4, 3), floats(3)
    nodes = [node("MatMul", "x w", "z"), node("Add", "b z")]
    network = agrees(model(nodes, [1, 4], {"w": weight, "b": bias}), tmp_path)
    assert np.array_equal(network.layers[0].weight.numpy(), weight.T.astype(np.float64))
    assert np.array_equal(network.layers[0].bias.numpy(), bias.astype(np.float64))
    assert network.shape == "4-3"
    assert network.notes == ()


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1), (1, 2, 3)])
def test_arithmetic_with_a_constant(tmp_path: Path, opset: int, operator: str, shape: tuple[int, ...]) -> None:
    constant = np.abs(floats(*shape)) + np.float32(0.5)
    agrees(model([node(operator, "x c")], [1, 2, 3], {"c": np.asarray(constant)}, opset), tmp_path)


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul"])
def test_arithmetic_with_a_constant_first(tmp_path: Path, operator: str) -> None:
    agrees(model([node(operator, "c x")], [1, 3], {"c": floats(2, 3)}), tmp_path)


def test_arithmetic_with_an_axis_as_before_opset_7(tmp_path: Path) -> None:
    add = node("Add", "x c", "y", axis=1, broadcast=1)
    path = saved(model([add], [1, 2, 3], {"c": np.array([10, 20], np.float32)}, 6), tmp_path)
    assert np.array_equal(load(path)(np.zeros(6)), [10, 10, 10, 20, 20, 20])


def test_sum_and_neg(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "n"), node("Mul", "x c", "m"), node("Sum", "n m c")]
    agrees(model(nodes, [1, 3], {"c": floats(3)}), tmp_path)


@pytest.mark.parametrize("opset", [7, 11, 17])
@pytest.mark.parametrize(
    ("shape", "weight", "attributes"),
    [
        ([1, 1, 5, 5], (2, 1, 3, 3), {}),
        ([1, 2, 6, 5], (4, 2, 3, 2), {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
        ([1, 4, 6, 6], (4, 2, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
        ([1, 3, 5, 5], (3, 1, 2, 2), {"group": 3}),
        ([1, 2, 7, 7], (2, 2, 3, 3), {"dilations": [2, 2]}),
        ([1, 1, 6, 7], (2, 1, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ([1, 1, 6, 7], (2, 1, 2, 2), {"auto_pad": "SAME_LOWER", "strides": [1, 3]}),
        ([1, 1, 6, 7], (2, 1, 3, 3), {"auto_pad": "VALID", "strides": [2, 2]}),
        ([1, 2, 9], (3, 2, 4), {"strides": [2], "pads": [1, 2]}),
        ([1, 1, 3, 4, 3], (2, 1, 2, 2, 2), {}),
    ],
)
def test_conv(tmp_path: Path, opset: int, shape: list[int], weight: Any, attributes: dict[str, Any]) -> None:
    conv = node("Conv", "x w b", kernel_shape=weight[2:], **attributes)
    agrees(model([conv], shape, {"w": floats(*weight), "b": floats(weight[0])}, opset), tmp_path)


@pytest.mark.parametrize("opset", [7, 11, 19, 22])
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ([1, 2, 6, 6], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ([1, 1, 5, 7], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
        ([1, 1, 5, 7], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
        ([1, 2, 7, 6], {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ([1, 2, 9], {"kernel_shape": [3], "strides": [2]}),
    ],
)
def test_average_pool(tmp_path: Path, opset: int, shape: list[int], attributes: dict[str, Any]) -> None:
    agrees(model([node("AveragePool", "x", **attributes)], shape, opset=opset), tmp_path)


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]])
@pytest.mark.parametrize("size", [5, 6, 7, 8])
def test_average_pool_rounding_up(tmp_path: Path, size: int, pads: list[int], count_include_pad: int) -> None:
    pool = node(
        "AveragePool",
        "x",
        kernel_shape=[3, 3],
        strides=[2, 3],
        pads=pads,
        ceil_mode=1,
        count_include_pad=count_include_pad,
    )
    agrees(model([pool], [1, 1, size, 8], opset=22), tmp_path)


def test_global_average_pool(tmp_path: Path) -> None:
    agrees(model([node("GlobalAveragePool", "x")], [1, 3, 4, 5]), tmp_path)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("shape", [[1, 3], [1, 3, 2, 2]])
def test_batch_normalization(tmp_path: Path, opset: int, shape: list[int]) -> None:
    statistics = {name: floats(3) for name in ("scale", "shift", "mean")}
    normalize = node("BatchNormalization", "x scale shift mean var", epsilon=0.01)
    agrees(model([normalize], shape, {**statistics, "var": np.abs(floats(3))}, opset), tmp_path)


def test_batch_normalization_of_every_activation_apart(tmp_path: Path) -> None:
    statistics = {name: floats(2, 3) for name in ("scale", "shift", "mean")}
    statistics["var"] = np.abs(floats(2, 3))
    normalize = node("BatchNormalization", "x scale shift mean var", spatial=0, epsilon=0.5)
    network = load(saved(model([normalize], [1, 2, 3], statistics, 7), tmp_path))
    x = rng.normal(size=(2, 3))
    expected = (x - statistics["mean"]) / np.sqrt(statistics["var"] + 0.5) * statistics["scale"] + statistics["shift"]
    np.testing.assert_allclose(network(x.reshape(-1)), expected.reshape(-1), rtol=1e-6)


# --- activations


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Relu", {}),
        ("LeakyRelu", {}),
        ("LeakyRelu", {"alpha": 0.3}),
        ("Elu", {}),
        ("Elu", {"alpha": 2.5}),
        ("Tanh", {}),
        ("Sigmoid", {}),
        ("Softplus", {}),
        ("Abs", {}),
    ],
)
def test_activations(tmp_path: Path, opset: int, operator: str, attributes: dict[str, Any]) -> None:
    nodes = [node("Gemm", "x w b", "z"), node(operator, "z", "h", **attributes), node("Gemm", "h v c")]
    constants = {"w": floats(3, 6), "b": floats(6), "v": floats(6, 2), "c": floats(2)}
    network = agrees(model(nodes, [1, 3], constants, opset), tmp_path)
    assert network.shape == "3-6-2"


def test_last_activation_is_the_last_layers(tmp_path: Path) -> None:
    nodes = [node("Gemm", "x w b", "z"), node("Tanh", "z")]
    network = agrees(model(nodes, [1, 3], {"w": floats(3, 2), "b": floats(2)}), tmp_path)
    assert str(network) == "model (3-2, tanh)"


def test_activation_of_the_input(tmp_path: Path) -> None:
    assert agrees(model([node("Relu", "x")], [1, 3]), tmp_path).shape == "3-3"


@pytest.mark.parametrize(
    ("bounds", "shape"),
    [((-0.5, 0.75), "3-3"), ((0.0, None), "3-3"), ((0.25, None), "3-3-3"), ((None, 0.5), "3-3-3"), ((0.0, 6.0), "3-3")],
)
def test_clip(tmp_path: Path, bounds: tuple[float | None, float | None], shape: str) -> None:
    given: dict[str, Any] = {
        name: bound for name, bound in zip(("min", "max"), bounds, strict=True) if bound is not None
    }
    assert agrees(model([node("Clip", "x", **given)], [1, 3], opset=9), tmp_path).shape == shape
    names = " ".join(name if name in given else "-" for name in ("min", "max"))
    constants = {name: np.array(bound, np.float32) for name, bound in given.items()}
    assert agrees(model([node("Clip", f"x {names}")], [1, 3], constants, 13), tmp_path).shape == shape


def test_clip_without_bounds_is_nothing(tmp_path: Path) -> None:
    largest = float(np.finfo(np.float32).max)
    assert agrees(model([node("Clip", "x")], [1, 3], opset=13), tmp_path).layers[0].is_affine
    assert agrees(model([node("Clip", "x", min=-largest, max=largest)], [1, 3], opset=6), tmp_path).layers[0].is_affine


def test_clip_to_a_point(tmp_path: Path) -> None:
    bound = np.array(0.5, np.float32)
    nodes = [node("Clip", "x b b", "c"), node("Add", "c x")]
    agrees(model(nodes, [1, 2], {"b": bound}), tmp_path)


def test_clip_to_no_interval_is_refused(tmp_path: Path) -> None:
    bounds = {"low": np.array(1, np.float32), "high": np.array(0, np.float32)}
    with pytest.raises(UnsupportedModel, match=r"the_Clip.*clips to \[1.0, 0.0\]"):
        load(saved(model([node("Clip", "x low high")], [1, 2], bounds), tmp_path))


# --- moving data: the position of every element must be right


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_flatten(tmp_path: Path, axis: int) -> None:
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 1]), node("Flatten", "t", axis=axis)]
    agrees(model(nodes, [1, 2, 3], opset=13), tmp_path)


@pytest.mark.parametrize("target", [[1, -1], [0, -1], [3, 2], [-1], [1, 0, 2]])
def test_reshape(tmp_path: Path, target: list[int]) -> None:
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 1]), node("Reshape", "t shape")]
    agrees(model(nodes, [1, 2, 3], {"shape": np.array(target)}), tmp_path)


def test_reshape_to_a_shape_attribute_as_before_opset_5(tmp_path: Path) -> None:
    path = saved(model([node("Reshape", "x", shape=[3, 1])], [1, 3], opset=4), tmp_path)
    assert np.array_equal(load(path)([1, 2, 3]), [1, 2, 3])


def test_reshape_to_a_shape_computed_as_exporters_do(tmp_path: Path) -> None:
    """x.view(x.size(0), -1), as torch's older exporter writes it."""
    nodes = [
        node("Conv", "x w", "c"),
        node("Shape", "c", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Unsqueeze", "n", "n1", axes=[0]),
        node("Concat", "n1 rest", "shape", axis=0),
        node("Reshape", "c shape", "f"),
        node("MatMul", "f v"),
    ]
    constants = {"w": floats(2, 1, 3, 3), "zero": np.array(0), "rest": np.array([-1]), "v": floats(8, 3)}
    agrees(model(nodes, ["batch", 1, 4, 4], constants, 11), tmp_path)


def test_shape_arithmetic(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Slice", "s one two", "h"),
        node("Mul", "h three", "six"),
        node("Div", "six two", "half"),
        node("Cast", "half", "cast", to=TensorProto.INT32),
        node("Cast", "cast", "back", to=TensorProto.INT64),
        node("Sub", "back one", "less"),
        node("Add", "less one", "more"),
        node("Concat", "more minus", "shape", axis=0),
        node("Reshape", "x shape", "r"),
        node("MatMul", "r w"),
    ]
    constants: Arrays = {name: np.array([k]) for name, k in (("one", 1), ("two", 2), ("three", 3), ("minus", -1))}
    agrees(model(nodes, ["batch", 2, 6], {**constants, "w": floats(4, 2)}), tmp_path)


def test_constants_through_constant_of_shape_and_expand(tmp_path: Path) -> None:
    half = numpy_helper.from_array(np.array([0.5], np.float32))
    nodes = [
        node("ConstantOfShape", "shape", "halves", value=half),
        node("Sqrt", "halves", "roots"),
        node("Add", "x roots", "sum"),
        node("Expand", "sum wide"),
    ]
    agrees(model(nodes, [1, 3], {"shape": np.array([1, 3]), "wide": np.array([1, 2, 3])}), tmp_path)


@pytest.mark.parametrize("attribute", ["value", "value_float", "value_floats", "value_int", "value_ints"])
def test_constant(tmp_path: Path, attribute: str) -> None:
    values: dict[str, Any] = {
        "value": numpy_helper.from_array(floats(3)),
        "value_float": 1.5,
        "value_floats": [1.0, 2.0, 3.0],
        "value_int": 2,
        "value_ints": [1, 2, 3],
    }
    nodes = [node("Constant", "", "c", **{attribute: values[attribute]})]
    nodes += [node("Cast", "c", "f", to=TensorProto.FLOAT), node("Mul", "x f")]
    agrees(model(nodes, [1, 3]), tmp_path)


@pytest.mark.parametrize("opset", OPSETS)
def test_squeeze_and_unsqueeze(tmp_path: Path, opset: int) -> None:
    if opset < 13:
        nodes = [node("Squeeze", "x", "s", axes=[1, -1]), node("Unsqueeze", "s", "u", axes=[0, 3])]
        constants: Arrays = {}
    else:
        nodes = [node("Squeeze", "x a", "s"), node("Unsqueeze", "s b", "u")]
        constants = {"a": np.array([1, -1]), "b": np.array([0, 3])}
    if opset < 11:  # negative axes came with opset 11
        nodes[0] = node("Squeeze", "x", "s", axes=[1, 4])
    nodes += [node("Squeeze", "u", "all"), node("MatMul", "w all")]
    agrees(model(nodes, [1, 1, 2, 3, 1], {**constants, "w": floats(2, 2)}, opset), tmp_path)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [3], [1], [1]),
        ([-2], [1000], [1], [1]),
        ([0, 1], [1, 4], [0, 1], [1, 2]),
        ([-1], [-100], [1], [-1]),
        ([100], [0], [1], [-2]),
        ([3], [-(2**63)], [1], [-1]),
        ([0], [2**63 - 1], [1], [3]),
    ],
)
def test_slice(tmp_path: Path, starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> None:
    constants = {"s": np.array(starts), "e": np.array(ends), "a": np.array(axes), "t": np.array(steps)}
    agrees(model([node("Slice", "x s e a t")], [1, 5], constants, 13), tmp_path)
    if steps == [1] * len(steps):
        agrees(model([node("Slice", "x", starts=starts, ends=ends, axes=axes)], [1, 5], opset=9), tmp_path)
        agrees(model([node("Slice", "x s e a")], [1, 5], constants, 11), tmp_path)


def test_slice_of_the_first_axes(tmp_path: Path) -> None:
    agrees(model([node("Slice", "x s e")], [2, 3], {"s": np.array([1, 1]), "e": np.array([2, 3])}), tmp_path)


@pytest.mark.parametrize(
    ("indices", "axis"), [([2, 0, 2], 1), (1, 1), ([[0, 1], [2, 3]], 1), ([-1], 1), ([0], 0), (0, 0)]
)
def test_gather(tmp_path: Path, indices: Any, axis: int) -> None:
    agrees(model([node("Gather", "x i", axis=axis)], [1, 4], {"i": np.array(indices)}), tmp_path)


@pytest.mark.parametrize("opset", OPSETS)
def test_split_and_concat(tmp_path: Path, opset: int) -> None:
    nodes = [node("Split", "x sizes" if opset >= 13 else "x", "a b c", axis=1)]
    if opset < 13:
        nodes = [node("Split", "x", "a b c", axis=1, split=[1, 3, 2])]
    nodes += [node("Relu", "b", "r"), node("Concat", "c k r a", "joined", axis=1), node("MatMul", "joined w")]
    constants: Arrays = {"k": floats(1, 2), "w": floats(8, 3)}
    if opset >= 13:
        constants["sizes"] = np.array([1, 3, 2])
    agrees(model(nodes, [1, 6], constants, opset), tmp_path)


@pytest.mark.parametrize(("opset", "attributes"), [(11, {}), (13, {}), (18, {"num_outputs": 2})])
def test_split_into_equal_parts(tmp_path: Path, opset: int, attributes: dict[str, Any]) -> None:
    nodes = [node("Split", "x", "a b", axis=1, **attributes), node("Sub", "a b")]
    agrees(model(nodes, [1, 6], opset=opset), tmp_path)


def test_split_of_a_constant(tmp_path: Path) -> None:
    nodes = [node("Split", "c", "a b", axis=0), node("Mul", "x b")]
    agrees(model(nodes, [1, 3], {"c": floats(6)}, 13), tmp_path)


@pytest.mark.parametrize("opset", OPSETS)
def test_dropout_identity_and_cast_are_nothing(tmp_path: Path, opset: int) -> None:
    attributes = {"ratio": 0.3} if opset < 12 else {}
    nodes = [
        node("Dropout", "x", "d", **attributes),
        node("Identity", "d", "i"),
        node("Cast", "i", "wide", to=TensorProto.DOUBLE),
        node("Cast", "wide", "narrow", to=TensorProto.FLOAT),
        node("Relu", "narrow"),
    ]
    assert agrees(model(nodes, [1, 3], opset=opset), tmp_path).shape == "3-3"


def test_dropout_in_training_is_refused(tmp_path: Path) -> None:
    constants = {"ratio": np.array(0.5, np.float32), "training": np.array(True)}
    with pytest.raises(UnsupportedModel, match=r"the_Dropout.*training mode"):
        load(saved(model([node("Dropout", "x ratio training")], [1, 3], constants), tmp_path))
