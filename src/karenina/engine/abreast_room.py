"""Scratch for eight boxes side by side: what `room` and `Steps` are for one box, with a last axis of eight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from karenina.engine.lanes import WIDE
from karenina.engine.lines import compiled
from karenina.engine.packed import Array, Integers, Question, Weights

__all__ = ["Abreast", "new_abreast"]


class Abreast(NamedTuple):
    """Eight boxes of one query; neurons are numbered as in `Weights`. All arrays of numbers are (..., 8)."""

    lower: Array  # (inputs, 8)
    upper: Array
    centre: Array
    radius: Array
    low: Array  # (neurons, 8) bounds of the pre-activations
    high: Array
    up: Array  # (neurons, 8) slope and constant of the upper lines
    up_by: Array
    down: Array  # (neurons, 8) and of the lower lines: those slopes are what the steps move
    down_by: Array
    least: Array  # (neurons, 8) between what
    most: Array
    chord: Array  # (neurons, 8) of smooth neurons: the slope to begin with
    at_low: Array  # (neurons, 8) of smooth neurons: the activation at both ends
    at_high: Array
    side: Array  # (neurons, 8) of smooth neurons: 1 if `touch` is known for lines above, -1 for those below
    touch: Array  # (neurons, 8) where a line from the curve's end touches it
    loose: Array  # (neurons, 8) 1 where the lines differ, to begin with
    rows: Array  # (neurons * inputs, 8) coefficients of the linear function above each pre-activation
    reach: Array  # (neurons, 8) what was taken: coefficient on the activation, slope, intercept
    tilt: Array
    intercept: Array
    total: Array  # (inputs, 8) the linear function's coefficients
    corner: Array  # (inputs, 8) where it is largest
    z: Array  # (neurons, 8) pre-activations at the corner
    y: Array  # (S * outputs, 8)
    share: Array  # (neurons, 8) of a step
    squares: Array
    momentum: Array
    best_slopes: Array
    best_reach: Array
    best_total: Array
    best_corner: Array
    objective: Array  # (S * outputs, 8)
    shortest: Array  # (inputs, 8) a side that is no longer is not halved
    found: Array  # (4, 8) of each box: what is known of it before, the bound, the value at its corner, the axis
    work: Array  # (4, widest, 8)
    active: Integers  # (S, hidden layers, widest) the neurons that are not 0 in all boxes
    actives: Integers  # (S, hidden layers) how many
    wanted: Integers  # (widest,)


@compiled
def new_abreast(net: Weights, ask: Question) -> Abreast:
    """Room for eight boxes."""
    inputs, neurons, outputs = net.sizes[0], len(net.errors), ask.objective.shape[1]
    stack, hidden = len(net.weights), len(net.sizes) - 2
    return Abreast(
        np.empty((inputs, WIDE)),
        np.empty((inputs, WIDE)),
        np.empty((inputs, WIDE)),
        np.empty((inputs, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.zeros((neurons * inputs, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((inputs, WIDE)),
        np.empty((inputs, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((outputs, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((neurons, WIDE)),
        np.empty((inputs, WIDE)),
        np.empty((inputs, WIDE)),
        np.empty((outputs, WIDE)),
        np.empty((inputs, WIDE)),
        np.empty((4, WIDE)),
        np.empty((4, net.widest, WIDE)),
        np.zeros((stack, hidden, net.widest), np.int64),
        np.zeros((stack, hidden), np.int64),
        np.empty(net.widest, np.int64),
    )
