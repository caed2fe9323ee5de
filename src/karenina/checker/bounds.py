"""Linear bounds of a chain on boxes, re-derived: in float64 with all rounding, or in exact fractions.

Enters: boxes, for each neuron what side of 0 it is known to be on, a slope, a coefficient. Leaves: for each box a
linear function above the objective, and its maximum.

A linear function of one layer's activations is turned into one of its pre-activations by the lines that enclose each
activation (the upper line where the coefficient is positive, the lower one elsewhere), then into one of the layer
below by its weights, and so on down to the inputs. Lines need bounds of pre-activations, which are found in the same
way, layer by layer. A price p > 0 on a pre-activation z >= low adds p (z - low), which is not negative; p < 0 on
z <= high adds p (z - high); a multiplier m >= 0 adds m times a constraint. So every number a certificate brings
(slopes, coefficients, multipliers) makes a valid bound, be it good or bad.

Rounding. Each step takes the coefficients c it has computed for what they are, floats, and owes only its own error.
With u = 2^-53, n terms in a sum and any order of summation, fl(c W) differs from c W by at most g |c| |W|, entry by
entry, where g = n u / (1 - n u); so what is read at most H large adds at most g |c| (|W| H). fl(c slope) is off by
u |c slope|, times the size of z, at most |W| H + |b|; constants likewise. Adding all these sizes (`size`) and
multiplying once by a g for the largest number of terms covers every step; twice that covers the rounding of `size`
itself and of the last sums; constraints are summed one by one, so their part of `size` counts more the more there are.
Underflow adds less than LEAST for each operation, times what is read (`extent`): inputs, pre-activations, activations.
NaN and infinity compare as not proven.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.checker.activations import Kind
from karenina.checker.chain import IDENTITY, Chain, Layer, exact
from karenina.checker.refusal import Refused

__all__ = ["Bounder", "Boxes", "Goal", "Hints", "Known", "Linear"]

Array = npt.NDArray[Any]  # of float64, or of exact fractions
UNIT = 2.0**-53
LEAST = 1e-290
Step = tuple[Array, Array, Array]  # neurons of a layer that matter, their weights on those of the layer below, biases


@dataclass(frozen=True, eq=False)
class Goal:
    """objective @ outputs where rows @ outputs + offsets >= 0."""

    objective: Array  # (outputs,)
    rows: Array  # (constraints, outputs)
    offsets: Array  # (constraints,)


@dataclass(frozen=True, eq=False)
class Boxes:
    """A batch of nodes: sides of the box, and on which side of its kink at 0 each neuron is (0: not known)."""

    lower: Array  # (boxes, inputs)
    upper: Array
    sides: Array  # (boxes, neurons) of -1, 0, 1

    @property
    def unsided(self) -> Boxes:
        """The same without what is known of neurons."""
        return Boxes(self.lower, self.upper, np.zeros_like(self.sides))

    def __getitem__(self, chosen: Any) -> Boxes:
        return Boxes(self.lower[chosen], self.upper[chosen], self.sides[chosen])


@dataclass(frozen=True, eq=False)
class Hints:
    """What a certificate brings for a batch of boxes: any numbers will do, but multipliers below 0."""

    slopes: Array  # (boxes, neurons); NaN: the usual one
    multipliers: Array  # (boxes, constraints)
    coefficients: Array  # (boxes, neurons) to have on pre-activations, which takes a price; NaN: what the slopes give

    def __getitem__(self, chosen: Any) -> Hints:
        return Hints(self.slopes[chosen], self.multipliers[chosen], self.coefficients[chosen])


@dataclass(frozen=True, eq=False)
class Linear:
    """coefficients @ x + constant is above the objective; `most` is above its maximum on the box."""

    coefficients: Array  # (boxes, inputs)
    constant: Array  # (boxes,)
    most: Array  # (boxes,)


@dataclass(frozen=True, eq=False)
class Known:
    """Bounds of one layer's pre-activations on each box, and how large they can be while rounding is considered."""

    low: Array  # (boxes, neurons)
    high: Array
    reach: Array
    extent: Array  # (boxes,) all that can be read up to here, summed up
    empty: Array  # (boxes,) whether a neuron would have to be on a side where it never is: no input is left


class Bounder:
    """Bounds of one chain's outputs on batches of boxes, in float64."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        widths = [len(layer.bias) for layer in chain.layers]
        self.neurons, self.starts = sum(widths), np.cumsum([0, *widths]).tolist()
        terms = max(chain.inputs, *widths) + 4 * len(widths) + 32
        self.gamma, self.least = terms * UNIT / (1 - terms * UNIT), LEAST

    def bound(self, goal: Goal, boxes: Boxes, hints: Hints) -> Linear:
        """A linear function above the objective on each box."""
        return self._finish(goal, boxes, hints, self._known(boxes))

    def verify(self, goal: Goal, boxes: Boxes, hints: Hints) -> Linear:
        """The same in exact fractions, which tell that no bound of a neuron was rounded the wrong way."""
        exactly, box = _Exact(self.chain), Boxes(exact(boxes.lower), exact(boxes.upper), boxes.sides)
        return exactly._finish(goal, box, hints, exactly._known(box, self._layers(boxes.unsided), self._known(boxes)))

    def _numbers(self, values: Array) -> Array:
        return values

    def _weights(self, layer: Layer) -> tuple[Array, Array]:
        return layer.weight, layer.bias

    @cached_property
    def _groups(self) -> list[list[list[Step]]]:
        """For each layer, its bent neurons in groups that read the same neurons, as ways down to the inputs."""
        groups = []
        for k, layer in enumerate(self.chain.layers):
            bent = np.flatnonzero(~layer.has(IDENTITY))
            reads = [(layer.weight[neuron] != 0).tobytes() for neuron in bent]
            same = [bent[[read == each for read in reads]] for each in dict.fromkeys(reads)]
            groups.append([self._way(k, neurons) for neurons in same])
        return groups

    @cached_property
    def _whole(self) -> list[Step]:
        """The way down from all outputs."""
        return self._way(len(self.chain.layers) - 1, np.arange(self.chain.outputs))

    def _way(self, top: int, neurons: Array) -> list[Step]:
        way: list[Step] = []
        for k in range(top, -1, -1):
            weight, bias = self._weights(self.chain.layers[k])
            read = (self.chain.layers[k].weight[neurons] != 0).any(0)
            below = np.flatnonzero(read) if k and read.any() else np.arange(weight.shape[1])
            way.append((neurons, weight[np.ix_(neurons, below)], bias[neurons]))
            neurons = below
        return way

    def _known(
        self, boxes: Boxes, rounded: list[Known] | None = None, rounded_on_sides: list[Known] | None = None
    ) -> list[Known]:
        """Bounds of all pre-activations; to know sides can make a bound worse, so what holds without them is kept."""
        anywhere = self._layers(boxes.unsided, rounded)
        return self._layers(boxes, rounded_on_sides, anywhere) if boxes.sides.any() else anywhere

    def _layers(
        self, boxes: Boxes, rounded: list[Known] | None = None, anywhere: list[Known] | None = None
    ) -> list[Known]:
        """Layer by layer, each from those below it."""
        known: list[Known] = []
        lines: list[Array] = []
        size = np.maximum(abs(boxes.lower), abs(boxes.upper))
        for k, layer in enumerate(self.chain.layers):
            sides = boxes.sides[:, self.starts[k] : self.starts[k + 1]]
            each = self._layer(k, boxes, size, known, lines)
            each = _on_sides(each if anywhere is None else _both(each, anywhere[k]), sides)
            known.append(each if rounded is None else _confirmed(each, rounded[k], ~layer.has(IDENTITY)))
            usual = np.full(sides.shape, np.nan)
            lines.append(self._lines(layer, known[k], usual))
            size = self._size(layer, known[k])
            known[k] = replace(known[k], extent=known[k].extent + known[k].reach.sum(1) + size.sum(1))
        return known

    def _layer(self, k: int, boxes: Boxes, size: Array, known: list[Known], lines: list[Array]) -> Known:
        weight, bias = self._weights(self.chain.layers[k])
        reach = (size @ abs(weight).T + abs(bias)) * self._numbers(np.array(1 + 2 * self.gamma)) + self.least
        extent = known[-1].extent if known else size.sum(1)
        low, high = -reach, reach.copy()
        for way in self._groups[k]:
            neurons, rows, biases = way[0]
            c, constant = np.concatenate([rows, -rows])[None], np.concatenate([biases, -biases])[None]
            span = np.concatenate([reach[:, neurons]] * 2, axis=1)
            c, constant, span = self._descend(way[1:], c, constant, span, known, lines)
            most = self._most(c, constant, span, boxes, extent)[1]
            high[:, neurons], low[:, neurons] = most[:, : len(neurons)], -most[:, len(neurons) :]
        return Known(low, high, reach, extent, np.zeros(len(low), bool))

    def _descend(
        self, way: list[Step], c: Array, constant: Array, size: Array, known: list[Known], lines: list[Array],
        wanted: Array | None = None,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        """Coefficients (boxes, rows, activations) down to the inputs, with what they leave as constants and sizes."""
        for k, (neurons, weight, bias) in zip(range(len(way) - 1, -1, -1), way, strict=True):
            up, up_rest, down, down_rest = lines[k][:, :, neurons]
            reach = known[k].reach[:, neurons]
            weigh = np.maximum(abs(up_rest), abs(down_rest)) + 2 * np.maximum(abs(up), abs(down)) * reach
            positive, negative = np.maximum(c, 0), np.minimum(c, 0)
            constant = constant + _each(positive, up_rest) + _each(negative, down_rest)
            size = size + _each(positive - negative, weigh)
            c = positive * up[:, None] + negative * down[:, None]
            if wanted is not None:
                wish = wanted[:, self.starts[k] : self.starts[k + 1]][:, neurons]
                price = np.where(np.isnan(wish), 0, self._numbers(np.nan_to_num(wish)) - c[:, 0])
                edge = np.where(price > 0, known[k].low[:, neurons], known[k].high[:, neurons])
                constant = constant - (price * edge).sum(1)[:, None]
                size = size + (abs(price) * (abs(edge) + 2 * reach)).sum(1)[:, None]
                c = c + price[:, None]
            constant = constant + c @ bias
            c = (c.reshape(-1, c.shape[2]) @ weight).reshape(*c.shape[:2], weight.shape[1])
        return c, constant, size

    def _most(self, c: Array, constant: Array, size: Array, boxes: Boxes, extent: Array) -> tuple[Array, Array]:
        """The constant with all rounding, and the maximum over the box, of c @ x + constant (boxes, rows)."""
        positive, negative = np.maximum(c, 0), np.minimum(c, 0)
        size = size + _each(positive - negative, np.maximum(abs(boxes.lower), abs(boxes.upper))) + abs(constant)
        constant = constant + self._error(size, extent)
        return constant, constant + _each(positive, boxes.upper) + _each(negative, boxes.lower)

    def _error(self, size: Array, extent: Array) -> Array:
        return 2 * self.gamma * size + self.least * (1 + extent)[:, None]

    def _finish(self, goal: Goal, boxes: Boxes, hints: Hints, known: list[Known]) -> Linear:
        """The objective and the weighted constraints, down to the inputs."""
        lines = [
            self._lines(layer, known[k], hints.slopes[:, self.starts[k] : self.starts[k + 1]])
            for k, layer in enumerate(self.chain.layers)
        ]
        objective, outputs = self._numbers(goal.objective), self._size(self.chain.layers[-1], known[-1])
        c, size = objective[None] + 0 * outputs, abs(objective)[None] * outputs
        constant = start = 0 * outputs[:, :1]
        for row, offset, times in zip(goal.rows, goal.offsets, hints.multipliers.T, strict=True):
            weights, rest, times = self._numbers(row), self._numbers(np.array(offset)), self._numbers(times)[:, None]
            c, constant = c + times * weights, constant + times * rest
            size, start = size + times * abs(weights) * outputs, start + times * abs(rest)
        start = (start + size.sum(1)[:, None]) * (1 + len(goal.rows) // 16)
        c, constant, size = self._descend(self._whole, c[:, None], constant, start, known, lines, hints.coefficients)
        constant, most = self._most(c, constant, size, boxes, known[-1].extent)
        empty = np.any([layer.empty for layer in known], axis=0)
        return Linear(c[:, 0], constant[:, 0], np.where(empty, -np.inf, most[:, 0]))

    def _lines(self, layer: Layer, known: Known, wished: Array) -> Array:
        """Slope and constant of the line above each activation, then of the line below: (4, boxes, neurons)."""
        lines = np.empty((4, *known.low.shape), dtype=known.low.dtype)
        for kind, start, end in layer.runs:
            part = slice(start, end)
            low, high = known.low[:, part], known.high[:, part]
            slopes = _slopes(kind, low, high, wished[:, part])
            up, down = (self._numbers(slope) for slope in slopes)
            lines[0, :, part], lines[2, :, part] = up, down
            lines[1, :, part] = kind.extremes(up, low, high)[1]
            lines[3, :, part] = kind.extremes(down, low, high)[0]
        return lines

    def _size(self, layer: Layer, known: Known) -> Array:
        """At most how large a layer's activations are."""
        size = np.empty_like(known.low)
        for kind, start, end in layer.runs:
            edges = np.maximum(abs(known.low[:, start:end]), abs(known.high[:, start:end]))
            at_zero = self._numbers(np.abs(kind.roughly(np.zeros(1))) + 1e-9 * (not kind.linear))
            size[:, start:end] = self._numbers(np.array(kind.steepest)) * edges + at_zero
        return size


class _Exact(Bounder):
    """The same in exact fractions, where nothing is rounded."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(chain)
        self.gamma, self.least = 0.0, 0

    def _numbers(self, values: Array) -> Array:
        return exact(values)

    def _weights(self, layer: Layer) -> tuple[Array, Array]:
        return layer.exactly

    def _error(self, size: Array, _extent: Array) -> Array:
        return size * 0


def _each(c: Array, values: Array) -> Array:
    """c (boxes or 1, rows, n) times values (boxes, n): (boxes, rows)."""
    return (c @ values[:, :, None])[:, :, 0]


def _both(first: Known, second: Known) -> Known:
    """What holds by either."""
    low, high = np.maximum(first.low, second.low), np.minimum(first.high, second.high)
    return replace(first, low=low, high=high, reach=second.reach)


def _on_sides(known: Known, sides: Array) -> Known:
    """With what is known of the neurons' sides."""
    low = np.where(sides > 0, np.maximum(known.low, 0), np.where(sides < 0, np.minimum(known.low, 0), known.low))
    high = np.where(sides < 0, np.minimum(known.high, 0), np.where(sides > 0, np.maximum(known.high, 0), known.high))
    empty = ((sides > 0) & (known.high < 0)) | ((sides < 0) & (known.low > 0))
    return replace(known, low=low, high=high, empty=np.asarray(empty.any(1)))


def _confirmed(found: Known, rounded: Known, bent: Array) -> Known:
    """The rounded bounds as exact numbers, if they are no narrower than the exact ones."""
    low, high = exact(rounded.low), exact(rounded.high)
    if not (low <= found.low)[:, bent].all() or not (high >= found.high)[:, bent].all():
        raise Refused("a bound of a neuron was rounded the wrong way")
    return replace(found, low=low, high=high)


def _slopes(kind: Kind, low: Array, high: Array, wished: Array) -> tuple[Array, Array]:
    """Of the upper and the lower line: a chord where the activation is convex or concave, else as wished."""
    low, high = low.astype(np.float64), high.astype(np.float64)
    if kind == IDENTITY:
        return np.ones(low.shape), np.ones(low.shape)
    with np.errstate(all="ignore"):
        chord = (kind.roughly(high) - kind.roughly(low)) / (high - low)
    chord = np.where(np.isfinite(chord), np.clip(chord, -kind.steepest, kind.steepest), kind.slopes[1])
    usual = chord
    if kind.name in ("relu", "leaky_relu", "abs"):
        usual = np.where(high > -low, kind.slopes[1], kind.slopes[0])
    wished = np.where(np.isnan(wished), usual, wished)
    return np.where(kind.is_convex(low, high), chord, wished), np.where(kind.is_concave(low, high), chord, wished)
