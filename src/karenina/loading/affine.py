"""Tensors whose every element is an affine function of atoms: what a model file computes between activations.

An atom is an input of the network or the output of one activation. Enters: index arrays and weights, from
operators that move data (Reshape, Slice, ...) or combine it (Gemm, Conv, ...). Leaves: `Affine`, a sparse
matrix over the atoms, a bias and a shape. Moving data and weighting atoms is exact; only where one affine map
is applied to another are weights multiplied and added, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.errors import UnsupportedModel

__all__ = ["ELEMENTS", "LARGEST", "TERMS", "Affine", "Rows", "check_size"]

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# The most numbers one matrix may hold while loading, so that a small hostile file cannot ask for all memory.
LARGEST = 2**27
# The most elements a tensor may have that depends on the input, or that a node makes of nothing.
ELEMENTS = 2**22
# The most products of weight and element, where one weight is used many times: a convolution.
TERMS = 2**24
# Sparse products with more terms than this are done densely.
_MANY_TERMS = 2**22


def check_size(*factors: int, most: int | None = None) -> None:
    """Refuse a matrix or tensor of more than LARGEST numbers, or of more than `most`, before it is built."""
    limit = LARGEST if most is None else most
    if (size := math.prod(map(int, factors))) > limit:
        raise UnsupportedModel(f"it needs a tensor of {size} numbers, more than the {limit} that karenina holds")


@dataclass(frozen=True, eq=False)
class Rows:
    """A sparse matrix by rows: row r holds values[starts[r]:starts[r + 1]], at columns[starts[r]:starts[r + 1]]."""

    starts: Integers  # (rows + 1,)
    columns: Integers  # (entries,)
    values: Array  # (entries,)

    @classmethod
    def of(cls, row: Integers, columns: Integers, values: Array, count: int) -> Rows:
        """`count` rows from entries that are ordered by row; zeros are dropped."""
        kept = values != 0
        lengths = np.bincount(row[kept], minlength=count)
        return cls(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), columns[kept], values[kept])

    @classmethod
    def units(cls, columns: Integers) -> Rows:
        """Rows that each pick one column."""
        return cls(np.arange(len(columns) + 1), columns, np.ones(len(columns)))

    @classmethod
    def empty(cls, count: int) -> Rows:
        return cls(np.zeros(count + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Integers:
        return np.diff(self.starts)

    @property
    def row(self) -> Integers:
        """The row of every entry."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def are_units(self) -> bool:
        """Whether every row picks one column, or is zero."""
        return bool((self.lengths <= 1).all() and (self.values == 1).all())

    def take(self, rows: Integers) -> Rows:
        lengths = self.lengths[rows]
        check_size(int(lengths.sum()))
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        entries = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], lengths)
        return Rows(starts, self.columns[entries], self.values[entries])

    def scaled(self, factors: Array) -> Rows:
        """Every row times its factor."""
        return Rows.of(self.row, self.columns, self.values * np.repeat(factors, self.lengths), len(self))

    def divided(self, divisors: Array) -> Rows:
        """Every row by its divisor: rounded once, which multiplying by a reciprocal is not."""
        return Rows.of(self.row, self.columns, self.values / np.repeat(divisors, self.lengths), len(self))

    def kept(self, entries: npt.NDArray[np.bool_]) -> Rows:
        """The same rows with only some of their entries."""
        return Rows.of(self.row[entries], self.columns[entries], self.values[entries], len(self))

    def plus(self, other: Rows) -> Rows:
        if not len(self.columns) or not len(other.columns):
            return other if len(other.columns) else self
        row = np.concatenate([self.row, other.row])
        columns, values = (
            np.concatenate([self.columns, other.columns]),
            np.concatenate([self.values, other.values]),
        )
        return _summed(row, columns, values, len(self))

    def times(self, vector: Array) -> Array:
        """The matrix times a vector."""
        product: Array = np.zeros(len(self))
        np.add.at(product, self.row, self.values * vector[self.columns])
        return product

    def __matmul__(self, other: Rows) -> Rows:
        lengths = other.lengths[self.columns]
        if int(lengths.max(initial=0)) <= 1 and len(np.unique(other.columns)) == len(other.columns):
            return self._relabelled(other)
        if int(lengths.sum()) > _MANY_TERMS:
            return self._dense_product(other)
        terms = other.take(self.columns)
        values = np.repeat(self.values, lengths) * terms.values
        return _summed(np.repeat(self.row, lengths), terms.columns, values, len(self))

    def _relabelled(self, other: Rows) -> Rows:
        """The product with a matrix that has at most one entry in every row and column: nothing is added up."""
        terms = other.take(self.columns)
        present = terms.lengths > 0
        return Rows.of(self.row[present], terms.columns, self.values[present] * terms.values, len(self))

    def _dense_product(self, other: Rows) -> Rows:
        columns, position = np.unique(other.columns, return_inverse=True)
        check_size(len(self), len(columns))
        product = self.dense(len(other)) @ Rows(other.starts, position, other.values).dense(len(columns))
        row, column = np.nonzero(product)
        return Rows.of(row, columns[column], product[row, column], len(self))

    def dense(self, width: int) -> Array:
        check_size(len(self), width)
        matrix = np.zeros((len(self), width))
        matrix[self.row, self.columns] = self.values
        return matrix

    @staticmethod
    def stack(parts: Sequence[Rows]) -> Rows:
        """All rows of the first, then of the second, ..."""
        lengths = np.concatenate([part.lengths for part in parts])
        return Rows(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.values for part in parts]),
        )


def _summed(row: Integers, columns: Integers, values: Array, count: int) -> Rows:
    """Rows from entries in any order; entries at one place are added up."""
    if not len(row):
        return Rows.empty(count)
    order = np.lexsort((columns, row))
    row, columns, values = row[order], columns[order], values[order]
    new = np.concatenate([[True], (np.diff(row) != 0) | (np.diff(columns) != 0)])
    first = np.flatnonzero(new)
    return Rows.of(row[first], columns[first], np.add.reduceat(values, first), count)


@dataclass(frozen=True, eq=False)
class Affine:
    """A tensor: element e is rows[e] @ atoms + bias[e], elements in C order."""

    rows: Rows
    bias: Array  # (elements,)
    shape: tuple[int, ...]

    @classmethod
    def atoms(cls, first: int, shape: tuple[int, ...]) -> Affine:
        """A tensor of consecutive atoms."""
        size = math.prod(shape)
        check_size(size, most=ELEMENTS)
        return cls(Rows.units(np.arange(first, first + size)), np.zeros(size), shape)

    @classmethod
    def constant(cls, array: npt.NDArray[np.float64]) -> Affine:
        return cls(Rows.empty(array.size), array.reshape(-1).astype(np.float64), array.shape)

    @property
    def numbers(self) -> int:
        """How many numbers it takes to hold the tensor."""
        return len(self.rows.values) + len(self.bias)

    @property
    def index(self) -> Integers:
        """The elements' numbers, in the tensor's shape: what moves these moves the tensor."""
        return np.arange(len(self.bias)).reshape(self.shape)

    @property
    def is_atoms(self) -> bool:
        """Whether every element is an atom or zero, so that weighting the elements weights the atoms."""
        return self.rows.are_units and not self.bias.any()

    def moved(self, index: npt.NDArray[np.integer]) -> Affine:
        """The tensor whose elements are these, by number, in the index's shape."""
        check_size(index.size, most=ELEMENTS)
        chosen = index.reshape(-1).astype(np.int64)
        return Affine(self.rows.take(chosen), self.bias[chosen], index.shape)

    def combined(self, index: Integers, weights: Array, bias: Array, shape: tuple[int, ...]) -> Affine:
        """New elements: the r-th is the sum over k of weights[r, k] * element index[r, k], plus bias[r].

        A negative index stands for padding: no element, zero.
        """
        present = (index >= 0).reshape(-1)
        row = np.repeat(np.arange(len(index)), index.shape[1])[present]
        matrix = Rows.of(row, index.reshape(-1)[present], weights.reshape(-1)[present], len(index))
        offset = matrix.times(self.bias) if self.bias.any() else 0.0
        return Affine(matrix @ self.rows, bias + offset, shape)

    def broadcast(self, shape: tuple[int, ...]) -> Affine:
        if shape == self.shape:
            return self
        check_size(*shape, most=ELEMENTS)
        return self.moved(np.broadcast_to(self.index, shape))

    def plus(self, other: Affine) -> Affine:
        shape = np.broadcast_shapes(self.shape, other.shape)
        a, b = self.broadcast(shape), other.broadcast(shape)
        return Affine(a.rows.plus(b.rows), a.bias + b.bias, shape)

    def scaled(self, factors: npt.NDArray[np.float64]) -> Affine:
        shape = np.broadcast_shapes(self.shape, factors.shape)
        tensor, flat = self.broadcast(shape), np.broadcast_to(factors, shape).reshape(-1)
        return Affine(tensor.rows.scaled(flat), tensor.bias * flat, shape)

    def divided(self, divisors: npt.NDArray[np.float64]) -> Affine:
        shape = np.broadcast_shapes(self.shape, divisors.shape)
        tensor, flat = self.broadcast(shape), np.broadcast_to(divisors, shape).reshape(-1)
        return Affine(tensor.rows.divided(flat), tensor.bias / flat, shape)

    @staticmethod
    def joined(tensors: Sequence[Affine], axis: int) -> Affine:
        """The tensors one after the other along an axis."""
        firsts = np.cumsum([0, *(len(tensor.bias) for tensor in tensors)])
        check_size(firsts[-1], most=ELEMENTS)
        index = np.concatenate([t.index + first for t, first in zip(tensors, firsts, strict=False)], axis=axis)
        stacked = Affine(
            Rows.stack([t.rows for t in tensors]), np.concatenate([t.bias for t in tensors]), (int(firsts[-1]),)
        )
        return stacked.moved(index)
