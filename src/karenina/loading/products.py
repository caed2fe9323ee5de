"""Operators that weight and add: matrix products, convolutions, average pooling.

Enters: a tensor (`Affine`), weights, and the operator's settings. Leaves: the tensor it computes. A convolution
is read off the element numbers of its input: the windows of the *numbers* say which elements each output sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.affine import LARGEST, TERMS, Affine, Integers, check_size
from karenina.loading.graph import Graph

__all__ = ["Window", "average_pool", "batch_normalise", "convolve", "linear"]

Array = npt.NDArray[np.float64]

_PADDING = -1  # an element number that stands for a padded zero
_OVERHANG = -2  # one beyond the padding, where a last window reaches out because of ceil_mode


def linear(graph: Graph, tensor: Affine, weight: Array, bias: Array | None = None) -> Affine:
    """weight @ v + bias for every vector v along the last axis; weight is (out, in)."""
    if not tensor.shape or tensor.shape[-1] != weight.shape[1]:
        raise InputError(f"multiplies a tensor of shape {list(tensor.shape)} by a weight for {weight.shape[1]} inputs")
    vectors = tensor.index.reshape(-1, weight.shape[1])  # (vectors, in)
    check_size(len(vectors), *weight.shape, most=LARGEST if len(vectors) == 1 else TERMS)
    index = np.repeat(vectors, len(weight), axis=0)  # (vectors * out, in)
    weights = np.tile(weight, (len(vectors), 1))
    offsets = np.zeros(len(index)) if bias is None else np.tile(bias, len(vectors))
    return graph.combine(tensor, index, weights, offsets, (*tensor.shape[:-1], len(weight)))


@dataclass(frozen=True)
class Window:
    """A kernel's shape, and how it slides over the spatial axes; pads are (before, after) for every axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    ceil_mode: bool = False

    @classmethod
    def of(
        cls,
        kernel: Sequence[int],
        strides: Sequence[int] = (),
        dilations: Sequence[int] = (),
        pads: Sequence[tuple[int, int]] = (),
        *,
        ceil_mode: bool = False,
    ) -> Window:
        """What is left out is one (strides, dilations) or zero (pads)."""
        ones = (1,) * len(kernel)
        none = ((0, 0),) * len(kernel)
        return cls(
            tuple(kernel), tuple(strides) or ones, tuple(dilations) or ones, tuple(pads) or none, bool(ceil_mode)
        )

    def __post_init__(self) -> None:
        lengths = {len(self.kernel), len(self.strides), len(self.dilations), len(self.pads)}
        positive = min((*self.kernel, *self.strides, *self.dilations), default=0) > 0
        if len(lengths) > 1 or not positive or min(map(min, self.pads)) < 0:
            raise UnsupportedModel(f"has a window that fits no input: {self}")

    @property
    def spans(self) -> tuple[int, ...]:
        """How far the dilated kernel reaches along every axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def same(self, sizes: Sequence[int], *, upper: bool) -> Window:
        """Padded so that an axis of size n gives ceil(n / stride); the odd pad goes after (upper) or before."""
        pads = []
        for size, span, stride in zip(sizes, self.spans, self.strides, strict=True):
            total = max((-(-size // stride) - 1) * stride + span - size, 0)
            pads.append((total // 2, total - total // 2) if upper else (total - total // 2, total // 2))
        return Window(self.kernel, self.strides, self.dilations, tuple(pads), self.ceil_mode)

    def over(self, index: Integers) -> Integers:
        """The windows of an array of element numbers: (channels, *spatial) -> (channels, *out, kernel elements)."""
        if index.ndim != 1 + len(self.kernel):
            raise InputError(f"slides a window of {len(self.kernel)} axes over a tensor of shape {[1, *index.shape]}")
        sizes = [size + sum(pad) for size, pad in zip(index.shape[1:], self.pads, strict=True)]
        if any(size < span for size, span in zip(sizes, self.spans, strict=True)):
            raise InputError(f"slides a window of {list(self.spans)} over an input of {sizes}, padding included")
        check_size(len(index), *(size + stride for size, stride in zip(sizes, self.strides, strict=True)), most=TERMS)
        padded = np.pad(index, ((0, 0), *self.pads), constant_values=_PADDING)
        padded = np.pad(padded, ((0, 0), *self._overhangs(sizes)), constant_values=_OVERHANG)
        axes = tuple(range(1, index.ndim))
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.spans, axes)
        steps = [slice(None, None, stride) for stride in self.strides]
        dilations = [slice(None, None, dilation) for dilation in self.dilations]
        windows = windows[(slice(None), *steps, *dilations)]
        check_size(windows.size, most=TERMS)
        flat: Integers = windows.reshape(*windows.shape[: index.ndim], -1)
        return flat

    def _overhangs(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """How much ceil_mode adds after every axis: a last window that starts inside the input or its left pad."""
        overhangs = []
        for size, span, stride, (_, after) in zip(sizes, self.spans, self.strides, self.pads, strict=True):
            steps = -(-(size - span) // stride) if self.ceil_mode else (size - span) // stride
            if steps * stride >= size - after and self.ceil_mode:
                steps -= 1
            overhangs.append((0, max(steps * stride + span - size, 0)))
        return overhangs


def _channels(tensor: Affine) -> Integers:
    """The element numbers without the batch axis, which must be one: (channels, *spatial)."""
    if len(tensor.shape) < 2 or tensor.shape[0] != 1:
        raise UnsupportedModel(f"reads a tensor of shape {list(tensor.shape)}, not one of shape [1, channels, ...]")
    return tensor.index.reshape(tensor.shape[1:])


def convolve(
    graph: Graph, tensor: Affine, weight: Array, bias: Array | None, window: Window, groups: int = 1
) -> Affine:
    """A convolution of a tensor (1, in, *spatial) with a weight (out, in / groups, *kernel)."""
    channels = _channels(tensor)
    out, per_group = weight.shape[:2]
    if groups < 1 or out % groups or len(channels) != per_group * groups:
        raise InputError(
            f"convolves {len(channels)} channels with a weight of shape {list(weight.shape)} in {groups} groups"
        )
    windows = window.over(channels)  # (in channels, *places, kernel)
    places = windows.shape[1:-1]
    size = per_group * windows.shape[-1]
    check_size(out, math.prod(places), size, most=TERMS)
    grouped = windows.reshape(groups, 1, per_group, math.prod(places), -1)  # ..., kernel
    grouped = grouped.transpose(0, 1, 3, 2, 4).reshape(groups, 1, math.prod(places), size)
    shape = (groups, out // groups, math.prod(places), size)
    index = np.broadcast_to(grouped, shape).reshape(-1, size)
    weights = np.broadcast_to(weight.reshape(groups, out // groups, 1, size), shape).reshape(-1, size)
    offsets = np.zeros(len(index)) if bias is None else np.repeat(bias, math.prod(places))
    return graph.combine(tensor, index, weights, offsets, (1, out, *places))


def average_pool(graph: Graph, tensor: Affine, window: Window, *, count_padding: bool = False) -> Affine:
    """The mean over every window; padded zeros count, or do not."""
    windows = window.over(_channels(tensor))  # (channels, *places, kernel)
    index = windows.reshape(-1, windows.shape[-1])
    counted = (index >= _PADDING) if count_padding else (index >= 0)
    counts = counted.sum(axis=1, keepdims=True)
    if not counts.all():
        raise UnsupportedModel("averages a window that lies in the padding alone")
    weights = np.broadcast_to(1.0 / counts, index.shape)
    return graph.combine(tensor, index, weights, np.zeros(len(index)), (1, *windows.shape[:-1]))


def batch_normalise(
    graph: Graph, tensor: Affine, mean: Array, variance: Array, scale: Array, shift: Array, epsilon: float
) -> Affine:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift; the arrays broadcast against the tensor."""
    if not (variance + epsilon > 0).all():
        raise InputError("normalises with a variance that is not positive")
    factors = scale / np.sqrt(variance + epsilon)
    centred = tensor.plus(Affine.constant(-mean))
    return graph.scale(centred, factors).plus(Affine.constant(shift))
