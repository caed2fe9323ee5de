"""Bounds on every neuron of a ReLU form over a box: interval arithmetic, sharpened by linear bounds.

Enters: a `ReluForm` and a `Box`. Leaves: `NeuronBounds`, and upper bounds of linear functions of the
outputs. Linear bounds go back layer by layer to the input: an unstable ReLU lies under its chord and
above 0 or z, whichever is nearer. Everything is padded by `ROUNDING` times the size of the numbers
that were added, far more than float64 loses in networks a MILP solver can take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.backends.relu_form import ReluForm, ReluLayer
from karenina.domain import Box
from karenina.query import Case

__all__ = ["ROUNDING", "NeuronBounds", "neuron_bounds", "objective_bounds", "upper_bounds"]

Array = npt.NDArray[np.float64]

ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class NeuronBounds:
    """Pre-activation bounds of each layer's neurons; NaN or infinite where float64 overflowed."""

    lower: tuple[Array, ...]
    upper: tuple[Array, ...]

    @property
    def finite(self) -> bool:
        return all(np.isfinite(bound).all() for bound in (*self.lower, *self.upper))


def _interval(weight: Array, bias: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds of weight @ h + bias for low <= h <= high."""
    middle, radius = (low + high) / 2, (high - low) / 2
    centre, spread = weight @ middle + bias, np.abs(weight) @ radius
    pad = ROUNDING * (np.abs(weight) @ np.maximum(np.abs(low), np.abs(high)) + np.abs(bias))
    return centre - spread - pad, centre + spread + pad


def _relaxation(layer: ReluLayer, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Slopes of a line below and of a line above each neuron's activation, and the intercept of the one above."""
    unstable = layer.relu & (low < 0) & (high > 0)
    dead = layer.relu & (high <= 0)
    width = np.where(unstable, high - low, 1.0)
    above = np.where(unstable, high / width, np.where(dead, 0.0, 1.0))
    below = np.where(unstable, (high > -low).astype(np.float64), above)
    return below, above, np.where(unstable, -above * low, 0.0)


def upper_bounds(
    form: ReluForm, bounds: NeuronBounds, box: Box, rows: Array, offsets: Array, depth: int | None = None
) -> Array:
    """Upper bounds over the box of rows @ h + offsets, h being the values after `depth` layers (all unless told)."""
    total, total_size = offsets, np.abs(offsets)
    sizes = np.abs(rows)  # what `rows` would be if nothing cancelled: float64 errs by a small part of it
    for layer, low, high in reversed(list(zip(form.layers, bounds.lower, bounds.upper, strict=False))[:depth]):
        below, above, intercept = _relaxation(layer, low, high)
        total, total_size = total + np.maximum(rows, 0.0) @ intercept, total_size + sizes @ intercept
        rows = np.where(rows > 0, rows * above, rows * below)
        sizes = sizes * np.maximum(above, below)
        total, total_size = total + rows @ layer.bias, total_size + sizes @ np.abs(layer.bias)
        rows, sizes = rows @ layer.weight, sizes @ np.abs(layer.weight)
    middle, radius = (box.lower + box.upper) / 2, (box.upper - box.lower) / 2
    pad = ROUNDING * (total_size + sizes @ np.maximum(np.abs(box.lower), np.abs(box.upper)))
    bound: Array = total + rows @ middle + np.abs(rows) @ radius + pad
    return bound


def neuron_bounds(form: ReluForm, box: Box) -> NeuronBounds:
    """Bounds of every neuron's pre-activation over the box."""
    known = NeuronBounds((), ())
    low, high = box.lower, box.upper
    for depth, layer in enumerate(form.layers):
        z_low, z_high = _interval(layer.weight, layer.bias, low, high)
        if depth:
            z_high = np.minimum(z_high, upper_bounds(form, known, box, layer.weight, layer.bias, depth))
            z_low = np.maximum(z_low, -upper_bounds(form, known, box, -layer.weight, -layer.bias, depth))
        known = NeuronBounds((*known.lower, z_low), (*known.upper, z_high))
        low = np.where(layer.relu, np.maximum(z_low, 0.0), z_low)
        high = np.where(layer.relu, np.maximum(z_high, 0.0), z_high)
    return known


def objective_bounds(form: ReluForm, cases: Sequence[Case]) -> list[float]:
    """An upper bound of every case's objective over its box, the constraints left aside; inf on overflow."""
    known: dict[int, NeuronBounds] = {}
    uppers = []
    for case in cases:
        if id(case.box) not in known:
            known[id(case.box)] = neuron_bounds(form, case.box)
        bounds = known[id(case.box)]
        rows, offset = case.objective @ form.weight, case.value(form.bias)
        upper = upper_bounds(form, bounds, case.box, rows[None], np.array([offset]))[0]
        uppers.append(float(upper) if bounds.finite and np.isfinite(upper) else math.inf)
    return uppers
