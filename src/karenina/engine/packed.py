"""Nodes as plain arrays, for compiled code: what `settle` hands to `dive`, and what the programmes are made of.

No numba here, so that it can be imported without.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["LINES", "Batch", "Found", "Node", "Prices", "Tableau", "Weights"]

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LINES = 4  # a neuron's: upper with the least and the greatest slope, lower with the least and the greatest


class Weights(NamedTuple):
    """The joint network, flat; neurons are numbered layer by layer, within a layer network by network."""

    sizes: Integers  # inputs, hidden layers, outputs of one network
    widest: int  # the largest of them
    weights: Array  # (S, all weights, row by row)
    biases: Array  # (S, all biases)
    errors: Array  # (neurons,) rounding of a bound of a pre-activation


class Node(NamedTuple):
    """A node, and what is asked: objective @ outputs + constant where rows @ outputs + offsets >= 0."""

    lower: Array  # (inputs,)
    upper: Array
    lines: Array  # (neurons, 8): least slope, greatest slope, point, value of the upper side, then of the lower
    bounds: Array  # (neurons, 2) of the pre-activations
    loose: Integers  # the neurons whose lines differ
    place: Integers  # (neurons,) each one's place among the loose, or -1
    splittable: Flags  # (neurons,) whether its lines are exact on both sides of one kink
    cuts: Array  # (neurons, 2): bounds of the pre-activations that are rows of the programme; infinite where none
    slopes: Array  # (neurons,) to start near
    objective: Array  # (S * outputs,)
    constant: float  # with all rounding
    rows: Array  # (constraints, S * outputs)
    offsets: Array  # (constraints,) with all rounding
    inside: Array  # (constraints,) the same for points that surely satisfy them


class Batch(NamedTuple):
    """`Node`s along a first axis, but for `loose` and `place`: here is_loose says which neurons are."""

    lower: Array
    upper: Array
    lines: Array
    bounds: Array
    is_loose: Flags
    splittable: Flags
    cuts: Array
    slopes: Array
    objective: Array
    constant: Array
    rows: Array
    offsets: Array
    inside: Array


class Prices(NamedTuple):
    """A dual solution in the engine's terms."""

    wanted: Array  # (neurons,) the coefficient that a loose neuron's lines should have on z; NaN where it is linear
    slopes: Array  # (neurons,) that come nearest to it
    prices: Array  # (neurons,) multipliers of z - lower (> 0) or z - upper (< 0)
    multipliers: Array  # (constraints,)


class Tableau(NamedTuple):
    """basic = body @ (nonbasic, 1), value = cost @ (nonbasic, 1).

    Variables: the inputs (above their lower bounds), LINES slacks for every loose neuron, then one for each other row.
    """

    body: Array  # (rows, columns + 1)
    cost: Array  # (columns + 1,)
    column: Integers  # (columns,) the variable of each column
    basic: Integers  # (rows,) the variable of each row
    high: Array  # (variables,) what each may be at most; at least 0
    flipped: Flags  # (variables,) whether the tableau has high - variable in its place


class Found(NamedTuple):
    """What `dive` writes, the nodes along the first axis."""

    bound: Array  # of the leaves, or of the node itself when not all could be closed
    closed: Flags
    slopes: Array  # (nodes, neurons) of the node's own programme
    prices: Array  # (nodes, neurons) multipliers of z - lower (> 0) or z - upper (< 0)
    multipliers: Array  # (nodes, constraints)
    points: Array  # (nodes, inputs)
    programmes: Integers  # how many were solved
