"""ACAS Xu's .nnet files, against an evaluator of the format written here, on its own terms."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.errors import InputError
from karenina.loading import load

Array = npt.NDArray[np.float64]


def write(path: Path, sizes: list[int], seed: int = 0, *, header: int = 2, trivial: bool = False) -> None:
    """A random file; `trivial` has means of zero and ranges of one."""
    rng = np.random.default_rng(seed)

    def line(values: Any) -> str:
        return ",".join(f"{value:.5e}" for value in np.atleast_1d(values)) + ",\n"

    inputs = sizes[0]
    lines = ["// a comment\n"] * header
    lines += [f"{len(sizes) - 1},{inputs},{sizes[-1]},{max(sizes)},\n", ",".join(map(str, sizes)) + ",\n", "0,\n"]
    lines += [line(-100 * np.ones(inputs)), line(100 * np.ones(inputs))]
    lines += [line(np.zeros(inputs + 1) if trivial else rng.normal(size=inputs + 1))]
    lines += [line(np.ones(inputs + 1) if trivial else rng.uniform(0.5, 3, size=inputs + 1))]
    for before, after in pairwise(sizes):
        lines += [line(row) for row in rng.normal(size=(after, before))]
        lines += [line(value) for value in rng.normal(size=after)]
    path.write_text("".join(lines))


def evaluated(path: Path, x: Array) -> Array:
    """The format's own meaning: normalise, ReLU layers, denormalise; number by number, as the text has them."""
    rows = [line.strip().rstrip(",").split(",") for line in path.read_text().splitlines() if not line.startswith("//")]
    numbers = [[float(field) for field in row] for row in rows]
    layers, sizes = int(numbers[0][0]), [int(n) for n in numbers[1]]
    means, ranges = numbers[5], numbers[6]
    values = [(value - mean) / scale for value, mean, scale in zip(x, means, ranges, strict=False)]
    at = 7
    for k in range(layers):
        weights, biases = numbers[at : at + sizes[k + 1]], numbers[at + sizes[k + 1] : at + 2 * sizes[k + 1]]
        at += 2 * sizes[k + 1]
        values = [
            sum(w * v for w, v in zip(row, values, strict=True)) + bias[0]
            for row, bias in zip(weights, biases, strict=True)
        ]
        if k < layers - 1:
            values = [max(0.0, value) for value in values]
    return np.array([value * ranges[-1] + means[-1] for value in values])


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 6), min_size=2, max_size=5), st.integers(0, 99), st.integers(0, 3))
def test_the_network_computes_what_the_format_means(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seed: int, header: int
) -> None:
    path = tmp_path_factory.mktemp("nnet") / "network.nnet"
    write(path, sizes, seed, header=header)
    network = load(path)
    assert network.shape == "-".join(map(str, sizes))
    for x in np.random.default_rng(1).normal(size=(5, sizes[0])) * 3:
        np.testing.assert_allclose(network(x), evaluated(path, x), rtol=1e-12, atol=1e-12)


def test_acas_xus_shape(tmp_path: Path) -> None:
    path = tmp_path / "ACASXU_run2a_1_1.nnet"
    write(path, [5, *[50] * 6, 5])
    network = load(path)
    assert str(network) == "ACASXU_run2a_1_1 (5-50-50-50-50-50-50-5, relu)"
    x = np.array([0.1, -0.2, 0.3, 0.4, -0.5])
    np.testing.assert_allclose(network(x), evaluated(path, x), rtol=1e-10)
    ranges = ", ".join(["[-100, 100]"] * 5)
    assert network.notes == (f"the file gives the input ranges {ranges}; inputs outside them are not clipped",)
    packed = tmp_path / "packed.nnet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert load(packed).digest() == network.digest()
    assert load(packed).name == "packed"


def test_without_normalisation_the_weights_are_the_files(tmp_path: Path) -> None:
    path = tmp_path / "network.nnet"
    write(path, [2, 3, 1], trivial=True)
    first = [float(field) for field in path.read_text().splitlines()[9].strip(",").split(",")]
    assert load(path).layers[0].weight[0].tolist() == first


def test_spaces_blank_lines_at_the_end_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "network.nnet"
    write(path, [2, 3, 1])
    digest = load(path).digest()
    text = path.read_text()
    path.write_bytes((text.replace(",", ", ") + "\n\n").replace("\n", "\r\n").encode())
    assert load(path).digest() == digest


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (3, "2,2,1,\n", "line 3: the number of layers, inputs, outputs and the largest size are 4 numbers, not 3"),
        (3, "2.5,2,1,3,\n", "line 3: .* positive whole numbers"),
        (3, "0,2,1,3,\n", "line 3: .* positive whole numbers"),
        (3, "1000000000,2,1,3,\n", "line 4: the layers' sizes are 1000000001 numbers, not 3"),
        (3, "2,3,1,3,\n", "line 4: the layers' sizes do not begin with 3 inputs"),
        (4, "2,3,\n", "line 4: the layers' sizes are 3 numbers, not 2"),
        (4, "2,-3,1,\n", "line 4: the layers' sizes are positive whole numbers"),
        (4, "2,1000000000,1,\n", "line 13: the weights of a neuron of layer 0 are 2 numbers, not 1"),
        (6, "1,2,3,\n", "line 6: the inputs' minima are 2 numbers, not 3"),
        (8, "0,0,\n", "line 8: the means of all inputs and of the output are 3 numbers, not 2"),
        (9, "1,0,1,\n", "line 9: a range is zero"),
        (9, "1,inf,1,\n", "line 9: .* hold NaN or infinity"),
        (10, "1.0,two,\n", "line 10: the weights of a neuron of layer 0 are not numbers"),
        (10, "1.0,nan,\n", "line 10: .* hold NaN or infinity"),
        (10, "1.0,\n", "line 10: the weights of a neuron of layer 0 are 2 numbers, not 1"),
        (13, "1.0,2.0,\n", "line 13: the bias of a neuron of layer 0 are 1 numbers, not 2"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, number: int, line: str, message: str) -> None:
    path = tmp_path / "network.nnet"
    write(path, [2, 3, 1])
    lines = path.read_text().splitlines(keepends=True)
    lines[number - 1] = line
    path.write_text("".join(lines))
    with pytest.raises(InputError, match=f"network.nnet: {message}"):
        load(path)


def test_too_few_and_too_many_lines(tmp_path: Path) -> None:
    path = tmp_path / "network.nnet"
    write(path, [2, 3, 1])
    text = path.read_text()
    path.write_text(text + "1.0,\n")
    with pytest.raises(InputError, match=r"network.nnet: has more lines than its 2 layers need"):
        load(path)
    path.write_text("\n".join(text.splitlines()[:-1]))
    with pytest.raises(
        InputError, match=r"network.nnet: line 17: the bias of a neuron of layer 1 are 1 numbers, not 0"
    ):
        load(path)


def test_text_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "network.nnet"
    path.write_bytes(b"// \xff\xfe\n1,2,3\n")
    with pytest.raises(InputError, match=r"network.nnet: looks like a .nnet file but is not text"):
        load(path)
