"""What compiled code reads and writes, as plain arrays: networks, questions, boxes, linear programmes.

No numba here, so that it can be imported without.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "CLIP",
    "CUT",
    "ELU",
    "FINE",
    "KINK",
    "LEAF",
    "LINES",
    "OPEN",
    "SIGMOID",
    "SOFTPLUS",
    "SPLIT",
    "TANH",
    "Best",
    "Edge",
    "Flags",
    "Heap",
    "Node",
    "Plan",
    "Prices",
    "Proving",
    "Question",
    "Record",
    "Tableau",
    "Weights",
]

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

KINK, CLIP, TANH, SIGMOID, SOFTPLUS, ELU = range(6)  # activations; a kink has a slope on either side of 0
SPLIT, CUT, LEAF, FINE, OPEN = range(5)  # what is recorded of a node: halved, cut and halved, closed, closed by prices
LINES = 4  # a neuron's: upper with the least and the greatest slope, lower with the least and the greatest


class Weights(NamedTuple):
    """The joint network, flat; neurons are numbered layer by layer, within a layer network by network."""

    sizes: Integers  # inputs, hidden layers, outputs of one network
    widest: int  # the largest of them
    weights: Array  # (S, all weights, row by row)
    biases: Array  # (S, all biases)
    errors: Array  # (neurons,) rounding of a bound of a pre-activation
    weight_at: Integers  # (layers + 1,) where each layer's weights begin
    bias_at: Integers  # (layers + 1,) where its biases begin, and, times S, its neurons
    kinds: Array  # (hidden neurons of one network, 5): activation, two parameters, least and greatest slope anywhere


class Node(NamedTuple):
    """A node, and what is asked: objective @ outputs + constant where rows @ outputs + offsets >= 0."""

    lower: Array  # (inputs,)
    upper: Array
    lines: Array  # (8, neurons): least slope, greatest slope, point, value of the upper side, then of the lower
    low: Array  # (neurons,) bounds of the pre-activations
    high: Array
    loose: Integers  # the neurons whose lines differ
    place: Integers  # (neurons,) each one's place among the loose, or -1
    splittable: Flags  # (neurons,) whether its lines are exact on both sides of one kink
    slopes: Array  # (neurons,) to start near
    objective: Array  # (S * outputs,)
    constant: float  # with all rounding
    rows: Array  # (constraints, S * outputs)
    offsets: Array  # (constraints,) with all rounding
    inside: Array  # (constraints,) the same for points that surely satisfy them


class Prices(NamedTuple):
    """A dual solution in the engine's terms."""

    wanted: Array  # (neurons,) the coefficient that a loose neuron's lines should have on z; NaN where it is linear
    slopes: Array  # (neurons,) that come nearest to it
    prices: Array  # (neurons,) multipliers of z - lower (> 0) or z - upper (< 0)
    coefficients: Array  # (neurons,) what slopes and prices leave on z
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


class Question(NamedTuple):
    """What is asked, case by case: objective @ outputs + offset where rows @ outputs + row_offset >= 0."""

    lower: Array  # (cases, inputs)
    upper: Array
    objective: Array  # (cases, S * outputs)
    offset: Array  # (cases,)
    error: Array  # (cases,) rounding of a bound of the objective, or of its value at a point
    rows: Array  # (cases, constraints, S * outputs)
    row_offset: Array  # (cases, constraints)
    row_error: Array  # (cases, constraints)
    least_width: Array  # (cases, inputs) a side that is no longer is not halved
    near: bool  # whether the differences of paired neurons are bounded too


class Plan(NamedTuple):
    """When a box is closed, and when the search may stop."""

    tolerance: float  # boxes this close above the best value are closed
    relative_tolerance: float  # or this close relative to it
    least_gap: float  # a smaller one is beyond float64
    enough: float  # the search stops when the interval is no wider
    relative_enough: float
    threshold: float  # boxes that stay below are closed; NaN: none
    ceiling: float  # the search stops when the best value reaches it
    least: float  # no input's objective is less
    steps: int  # of tightening, a box
    loose: int  # neurons whose lines differ at which linear programmes are tried
    programmes: int  # at most, for one box
    most_open: int  # boxes on a heap, from which on it is worked off depth first


class Heap(NamedTuple):
    """Open boxes: order[: filled] is a heap, the highest bound first; the other entries are free slots."""

    filled: Integers  # (1,) how many are open
    order: Integers  # (slots,)
    bound: Array  # (slots,)
    case: Integers  # (slots,)
    axis: Integers  # (slots,) the input to halve next
    near: Integers  # (slots,) 1 where differences of paired neurons have helped, or may
    lower: Array  # (slots, inputs)
    upper: Array
    low: Array  # (slots, neurons)
    high: Array
    slopes: Array  # (slots, neurons)
    multipliers: Array  # (slots, constraints)


class Proving(NamedTuple):
    """What a recorded search is to prove, and how hard it may try at a node."""

    target: float  # a node with no larger bound is closed
    aim: float  # where tightening steps head for
    rounds: int  # of tightening
    loose: int  # neurons whose lines differ at which linear programmes are tried
    programmes: int  # at most, for one node


class Record(NamedTuple):
    """A tree of nodes, written down as it grows: what was done with each, and by what numbers."""

    filled: Integers  # (1,) how many nodes there are
    kinds: Integers  # (nodes,)
    axes: Integers  # (nodes,) what was halved: an input, or after all of them a neuron
    children: Integers  # (nodes,) the first half's place; the second stands next to it
    lower: Array  # (nodes, inputs)
    upper: Array
    slopes: Array  # (nodes, neurons)
    coefficients: Array  # (nodes, neurons) on pre-activations, where a node was closed by prices
    multipliers: Array  # (nodes, constraints)


class Best(NamedTuple):
    """The largest value that is surely attained, where, and the largest bound of what has been closed."""

    value: Array  # (1,)
    x: Array  # (inputs,)
    case: Integers  # (1,) -1: no input yet
    closed: Array  # (1,)
    effort: Integers  # (3,) boxes bounded, linear programmes solved, and those of them that closed a box


class Edge(NamedTuple):
    """Points on the very edge of a constraint: whether they satisfy it, only exact arithmetic tells."""

    filled: Integers  # (1,) how many
    x: Array  # (points, inputs)
    case: Integers  # (points,)
