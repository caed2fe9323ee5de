"""The big-M encoding: a case of a query as a mixed-integer linear programme.

Enters: a `ReluForm`, bounds on its neurons over a box, a `Case`. Leaves: a `Programme` that a MILP solver
takes. Only unstable ReLUs cost anything: two variables (the value h and a binary d, "the neuron is active")
and three rows, h >= z, h <= z - l (1 - d), h <= u d. Everything else is a linear function of the input and
of the unstable neurons before it, and is put in where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.backends.linear_bounds import NeuronBounds
from karenina.backends.relu_form import Mask, ReluForm, ReluLayer
from karenina.domain import Box
from karenina.query import Case

__all__ = ["Encoding", "Programme", "encode"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Programme:
    """Maximise objective @ v + offset where rows @ v <= limits and lower <= v <= upper; `binary` v are 0 or 1.

    The first variables are the networks' input.
    """

    objective: Array  # (variables,)
    offset: float
    rows: Array  # (rows, variables)
    limits: Array  # (rows,)
    lower: Array  # (variables,)
    upper: Array  # (variables,)
    binary: Mask  # (variables,)


@dataclass(frozen=True, eq=False)
class Encoding:
    """The networks over one box, shared by all cases on it: outputs = weight @ v + bias."""

    rows: Array
    limits: Array
    lower: Array
    upper: Array
    binary: Mask
    weight: Array  # (outputs, variables)
    bias: Array  # (outputs,)

    def programme(self, case: Case) -> Programme:
        """The case's objective and constraints on top of the networks."""
        rows, limits = self.rows, self.limits
        if len(case.constraint_offsets):
            rows = np.vstack([rows, -case.constraints @ self.weight])
            limits = np.concatenate([limits, case.constraints @ self.bias + case.constraint_offsets])
        objective = case.objective @ self.weight
        return Programme(objective, case.value(self.bias), rows, limits, self.lower, self.upper, self.binary)


class _Builder:
    """Variables and rows, as layers are added; `weight` and `bias` give the current layer's values."""

    def __init__(self, form: ReluForm, bounds: NeuronBounds, box: Box) -> None:
        self.inputs = box.size
        unstable = [_unstable(*layer) for layer in zip(form.layers, bounds.lower, bounds.upper, strict=True)]
        self.variables = box.size + 2 * sum(int(mask.sum()) for mask in unstable)
        self.lower, self.upper = np.zeros(self.variables), np.ones(self.variables)
        self.lower[: box.size], self.upper[: box.size] = box.lower, box.upper
        self.binary = np.zeros(self.variables, dtype=np.bool_)
        self.rows: list[Array] = [np.zeros((0, self.variables))]
        self.limits: list[Array] = [np.zeros(0)]
        self.used = box.size
        self.weight, self.bias = np.eye(box.size, self.variables), np.zeros(box.size)

    def add(self, layer: ReluLayer, low: Array, high: Array) -> None:
        """One more layer on top of the current one."""
        weight, bias = layer.weight @ self.weight, layer.weight @ self.bias + layer.bias
        unstable, dead = _unstable(layer, low, high), layer.relu & (high <= 0)
        count = int(unstable.sum())
        values = np.arange(self.used, self.used + count)
        active = values + count
        self.used += 2 * count
        self.upper[values], self.binary[active] = high[unstable], True
        self._big_m(weight[unstable], bias[unstable], values, active, low[unstable], high[unstable])
        weight[unstable | dead], bias[unstable | dead] = 0.0, 0.0
        weight[np.flatnonzero(unstable), values] = 1.0
        self.weight, self.bias = weight, bias

    def _big_m(
        self,
        weight: Array,
        bias: Array,
        values: npt.NDArray[np.int64],
        active: npt.NDArray[np.int64],
        low: Array,
        high: Array,
    ) -> None:
        """h >= z, h <= z - l (1 - d) and h <= u d, for z = weight @ v + bias, as rows of `rows @ v <= limits`."""
        each = np.arange(len(values))
        above, below, off = weight.copy(), -weight, np.zeros_like(weight)
        above[each, values] = -1.0
        below[each, values], below[each, active] = 1.0, -low
        off[each, values], off[each, active] = 1.0, -high
        self.rows += [above, below, off]
        self.limits += [-bias, bias - low, np.zeros_like(bias)]


def _unstable(layer: ReluLayer, low: Array, high: Array) -> Mask:
    unstable: Mask = layer.relu & (low < 0) & (high > 0)
    return unstable


def encode(form: ReluForm, bounds: NeuronBounds, box: Box) -> Encoding:
    """The networks over the box, ready for any objective and constraints."""
    builder = _Builder(form, bounds, box)
    for layer, low, high in zip(form.layers, bounds.lower, bounds.upper, strict=True):
        builder.add(layer, low, high)
    return Encoding(
        rows=np.vstack(builder.rows),
        limits=np.concatenate(builder.limits),
        lower=builder.lower,
        upper=builder.upper,
        binary=builder.binary,
        weight=form.weight @ builder.weight,
        bias=form.weight @ builder.bias + form.bias,
    )
