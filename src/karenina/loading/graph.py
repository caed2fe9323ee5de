"""What a loader builds while it walks through a model: tensors, and the activations between them.

Enters: a loader's calls, in the order the model computes. Leaves: a `Network` whose layers compute the same
function. Weights stay as they are in the file, except where affine maps follow one another directly: those are
multiplied together in float64, and a note says so.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError, UnsupportedModel
from karenina.loading.affine import LARGEST, Affine, Integers
from karenina.loading.chain import Group, chain, level_of
from karenina.network import RELU, Activation, Network

__all__ = ["Graph"]

Array = npt.NDArray[np.float64]

_MOST_STEPS = 2 * LARGEST  # multiplications while loading: some seconds
_MOST_LEVELS = 1000  # activations one after the other
_PRODUCT_NOTE = "affine operators with no activation between them were multiplied together in float64 while loading"


class Graph:
    """The atoms met so far (inputs, then outputs of activations) and how each is computed."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        if not math.prod(shape):
            raise InputError(f"the input has shape {list(shape)}: it holds no number")
        self.input = Affine.atoms(0, shape)
        self._levels = np.zeros(math.prod(shape), np.int64)  # of every atom
        self._groups: list[Group] = []
        self._notes: list[str] = []
        self._spent = 0  # steps taken so far

    def note(self, sentence: str) -> None:
        """Something a user should know, said once."""
        if sentence not in self._notes:
            self._notes.append(sentence)

    def spend(self, steps: int) -> None:
        """Count steps: weights of zero leave nothing behind that would show how long it took to multiply by them."""
        self._spent += steps
        if self._spent > _MOST_STEPS:
            raise UnsupportedModel(f"is where reading the model takes more than {_MOST_STEPS} steps")

    def activate(self, tensor: Affine, activation: Activation) -> Affine:
        """The activation of every element: new atoms."""
        if not len(tensor.bias):
            return tensor
        first, level = len(self._levels), level_of(tensor.rows, self._levels)
        if level > _MOST_LEVELS:
            raise UnsupportedModel(f"is the activation after {_MOST_LEVELS} others, more than karenina reads in a row")
        self._groups.append(Group(tensor.rows, tensor.bias, activation, level, first))
        self._levels = np.concatenate([self._levels, np.full(len(tensor.bias), level)])
        return Affine.atoms(first, tensor.shape)

    def clip(self, tensor: Affine, low: float = -math.inf, high: float = math.inf) -> Affine:
        """Every element clipped; a side may be open."""
        if not low <= high:  # NaN included
            raise UnsupportedModel(f"clips to [{low}, {high}], which is no interval")
        if low == high:
            return Affine.constant(np.full(tensor.shape, low))
        if math.isfinite(low) and math.isfinite(high):
            return self.activate(tensor, Activation("clip", (low, high)))
        if math.isfinite(low):  # low + relu(z - low)
            return _shifted(self.activate(_shifted(tensor, -low), RELU), low)
        if math.isfinite(high):  # high - relu(high - z)
            return _shifted(_negated(self.activate(_shifted(_negated(tensor), high), RELU)), high)
        return tensor

    def combine(self, tensor: Affine, index: Integers, weights: Array, bias: Array, shape: tuple[int, ...]) -> Affine:
        """`Affine.combined`, remembering whether it multiplied weights with weights."""
        self.spend(index.size)
        if not tensor.is_atoms:
            self.note(_PRODUCT_NOTE)
        return tensor.combined(index, weights, bias, shape)

    def scale(self, tensor: Affine, factors: Array, *, divide: bool = False) -> Affine:
        """Every element times, or divided by, its factor."""
        if not (tensor.is_atoms or (factors == 1).all()):
            self.note(_PRODUCT_NOTE)
        return tensor.divided(factors) if divide else tensor.scaled(factors)

    def network(self, output: Affine, name: str, notes: tuple[str, ...] = ()) -> Network:
        """The chain that computes the output tensor, flattened."""
        if not len(output.bias):
            raise InputError(f"the output has shape {list(output.shape)}: it holds no number")
        layers = chain(self._groups, self._levels, output)
        return Network(layers, name, (*notes, *self._notes))


def _shifted(tensor: Affine, by: float) -> Affine:
    return replace(tensor, bias=tensor.bias + by) if by else tensor


def _negated(tensor: Affine) -> Affine:
    return replace(tensor, rows=replace(tensor.rows, values=-tensor.rows.values), bias=-tensor.bias)
