"""What Marabou is asked about one case: variables that vary, and nothing constant.

Enters: a `ReluForm` and a `Case`. Leaves: a `Reduced` case, from which every step of a bisection makes its
request. It is shaped by what Marabou 2.0 gets wrong:

- an input or a neuron that is constant: folded into the biases after it;
- a layer without a ReLU: multiplied into the layer after it;
- variables whose bounds are within 1e-5, which it takes for constants: narrow sides of the box are stretched
  to [0, 1], and all values are multiplied by `MAGNIFICATION` (a ReLU network whose biases and inputs are scaled
  has its outputs scaled), a power of two, so nothing is rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.backends.relu_form import Mask, ReluForm, ReluLayer
from karenina.query import Case

__all__ = ["MAGNIFICATION", "Reduced", "reduce_case"]

Array = npt.NDArray[np.float64]

MAGNIFICATION = 1024.0
_NARROW = 1e-3


@dataclass(frozen=True, eq=False)
class Reduced:
    """The case on variables t; x = start + scale * t for the inputs that vary, x = start for the others."""

    start: Array  # (inputs,)
    scale: Array  # (inputs,)
    varies: Mask  # (inputs,)
    lower: Array  # (variables,)
    upper: Array  # (variables,)
    layers: tuple[ReluLayer, ...]
    rows: Array  # (1 + constraints, last hidden): the objective, then the constraints
    offsets: Array  # (1 + constraints,)

    def input(self, t: Array) -> Array:
        """The networks' input for the values that Marabou gave its (magnified) variables."""
        x = self.start.copy()
        x[self.varies] += self.scale[self.varies] * t / MAGNIFICATION
        return x

    def needed(self, at_least: float) -> tuple[Array, Array] | None:
        """The rows that must not be negative, without those that never are; None where one always is."""
        offsets = self.offsets - np.array([at_least, *np.zeros(len(self.offsets) - 1)])
        asked = np.ones(len(offsets), dtype=np.bool_)
        asked[0] = at_least > -math.inf
        constant = ~self.rows.any(axis=1)
        if np.any(asked & constant & (offsets < 0)):
            return None
        asked &= ~constant
        return self.rows[asked], offsets[asked]

    def request(self, rows: Array, offsets: Array, seconds: int) -> dict[str, Any]:
        """The request as the worker reads it, magnified; no time limit if `seconds` is 0."""
        layers = [
            {"weight": layer.weight.tolist(), "bias": _magnified(layer.bias), "relu": layer.relu.tolist()}
            for layer in self.layers
        ]
        bounds = {"lower": _magnified(self.lower), "upper": _magnified(self.upper)}
        return {**bounds, "layers": layers, "rows": rows.tolist(), "offsets": _magnified(offsets), "seconds": seconds}


def _magnified(values: Array) -> list[float]:
    magnified: list[float] = (MAGNIFICATION * values).tolist()
    return magnified


def reduce_case(form: ReluForm, case: Case) -> Reduced:
    """The case without its constants."""
    low, width = case.box.lower, case.box.upper - case.box.lower
    narrow = width < _NARROW
    start, scale, varies = np.where(narrow, low, 0.0), np.where(narrow, width, 1.0), width > 0
    constants, layers = start, []
    columns = np.diag(scale)[:, varies]  # h = columns @ (what varies) + constants
    for layer in form.layers:
        weight, bias = layer.weight @ columns, layer.bias + layer.weight @ constants
        moving = weight.any(axis=1)
        if not np.any(layer.relu & moving):
            columns, constants = weight, np.where(layer.relu, np.maximum(bias, 0.0), bias)
            continue
        layers.append(ReluLayer(weight[moving], bias[moving], layer.relu[moving]))
        columns = np.eye(len(bias))[:, moving]
        constants = np.where(moving, 0.0, np.where(layer.relu, np.maximum(bias, 0.0), bias))
    rows = np.vstack([case.objective, case.constraints]) if len(case.constraint_offsets) else case.objective[None]
    offsets = np.array([case.offset, *case.constraint_offsets])
    last = rows @ form.weight
    return Reduced(
        start=start,
        scale=scale,
        varies=varies,
        lower=np.where(narrow, 0.0, low)[varies],
        upper=np.where(narrow, 1.0, case.box.upper)[varies],
        layers=tuple(layers),
        rows=last @ columns,
        offsets=offsets + rows @ form.bias + last @ constants,
    )
