"""`.nnet` files, ACAS Xu's text format, into networks.

Enters: the text. Leaves: a `Network` on the file's own units: the normalisation of inputs and output is folded
into the first and the last layer, in float64. The file's input ranges, to which ACAS Xu's own code clips, become
a note: karenina does not clip.

The format: comment lines that start with //, then lines of numbers that end in commas: the number of layers,
inputs, outputs and the largest size; all sizes; a flag nobody uses; the inputs' minima; their maxima; means, of
all inputs and of the output; ranges, likewise; then for every layer its weight, a line a neuron, and its bias.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError
from karenina.network import IDENTITY, RELU, Layer, Network

__all__ = ["looks_like_nnet", "read"]

Array = npt.NDArray[np.float64]


def looks_like_nnet(content: bytes) -> bool:
    """Whether the first line is a comment or a list of numbers, as text."""
    start = content[:200].split(b"\n")[0].strip()
    return start.startswith(b"//") or (bool(start) and set(start) <= set(b"0123456789+-.eE, \t\r"))


class _Lines:
    """The lines that are not comments, each with its number in the file."""

    def __init__(self, text: str, path: Path) -> None:
        self._path = path
        self._lines = ((k, line) for k, line in enumerate(text.splitlines(), 1) if not line.startswith("//"))
        self._last = 0

    def numbers(self, what: str, count: int | None = None) -> Array:
        """The next line's numbers."""
        self._last, line = next(self._lines, (self._last + 1, ""))
        fields = [field for field in line.replace(",", " ").split() if field]
        try:
            values = np.array([float(field) for field in fields])
        except ValueError:
            raise self.error(f"{what} are not numbers") from None
        if not len(values) or (count is not None and len(values) != count):
            raise self.error(f"{what} are {'at least one' if count is None else count} numbers, not {len(values)}")
        if not np.isfinite(values).all():
            raise self.error(f"{what} hold NaN or infinity")
        return values

    def error(self, message: str) -> InputError:
        return InputError(f"{self._path}: line {self._last}: {message}")

    def rest(self) -> Iterator[tuple[int, str]]:
        return self._lines


def read(content: bytes, path: Path, name: str) -> Network:
    """The network of a `.nnet` file."""
    try:
        lines = _Lines(content.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: looks like a .nnet file but is not text") from error
    sizes = _sizes(lines)
    lines.numbers("the unused flag")
    low = lines.numbers("the inputs' minima", sizes[0])
    high = lines.numbers("the inputs' maxima", sizes[0])
    means = lines.numbers("the means of all inputs and of the output", sizes[0] + 1)
    ranges = lines.numbers("the ranges of all inputs and of the output", sizes[0] + 1)
    if not (ranges != 0).all():
        raise lines.error("a range is zero")
    layers = [_weights(lines, before, after, k) for k, (before, after) in enumerate(pairwise(sizes))]
    if any(line.strip(" ,\t\r") for _, line in lines.rest()):
        raise InputError(f"{path}: has more lines than its {len(layers)} layers need")
    bounds = ", ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
    note = f"the file gives the input ranges {bounds}; inputs outside them are not clipped"
    return Network(_denormalised(layers, means, ranges), name, (note,))


def _sizes(lines: _Lines) -> list[int]:
    """The sizes of input, hidden and output layers."""
    header = lines.numbers("the number of layers, inputs, outputs and the largest size", 4)
    if not (header == header.astype(int)).all() or header.min() < 1:
        raise lines.error("the number of layers, inputs, outputs and the largest size are positive whole numbers")
    layers, inputs, outputs = (int(n) for n in header[:3])
    sizes = lines.numbers("the layers' sizes", layers + 1)
    if not (sizes == sizes.astype(int)).all() or sizes.min() < 1:
        raise lines.error("the layers' sizes are positive whole numbers")
    if (sizes[0], sizes[-1]) != (inputs, outputs):
        raise lines.error(f"the layers' sizes do not begin with {inputs} inputs and end with {outputs} outputs")
    return [int(size) for size in sizes]


def _weights(lines: _Lines, before: int, after: int, k: int) -> tuple[Array, Array]:
    """A layer's weight (after, before) and bias (after,)."""
    weight = np.stack([lines.numbers(f"the weights of a neuron of layer {k}", before) for _ in range(after)])
    bias = np.concatenate([lines.numbers(f"the bias of a neuron of layer {k}", 1) for _ in range(after)])
    return weight, bias


def _denormalised(layers: list[tuple[Array, Array]], means: Array, ranges: Array) -> tuple[Layer, ...]:
    """First layer on (x - mean) / range, last layer's output times its range plus its mean; ReLU between."""
    weight, bias = layers[0]
    weight = weight / ranges[:-1]
    layers = [(weight, bias - weight @ means[:-1]), *layers[1:]]
    weight, bias = layers[-1]
    layers = [*layers[:-1], (weight * ranges[-1], bias * ranges[-1] + means[-1])]
    return tuple(
        Layer.of(weight, bias, RELU if k < len(layers) - 1 else IDENTITY) for k, (weight, bias) in enumerate(layers)
    )
