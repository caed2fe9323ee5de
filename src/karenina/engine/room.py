"""Scratch for one box: everything that compiled code knows about the box in hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from karenina.engine.lines import compiled
from karenina.engine.packed import Array, Integers, Weights

__all__ = ["Room", "new_room"]


class Room(NamedTuple):
    """Everything about the box in hand; neurons are numbered as in `Weights`."""

    lower: Array  # (inputs,)
    upper: Array
    middle: Array  # (2, inputs) centre and radius
    low: Array  # (neurons,) bounds of the pre-activations
    high: Array
    lines: Array  # (8, neurons), as `lines` writes them
    curve: Array  # (4, neurons) of smooth ones: the activation at both ends, and the slopes that lines may have
    start: Array  # (neurons,) a slope for a side that is free
    gap: Array  # (neurons,) how far the lines are apart at most
    fixed: Array  # (4, neurons) with the starting slope: the upper line's slope and constant, the lower line's
    rows: Array  # (neurons, inputs) coefficients of the linear function above each pre-activation
    apart: Array  # (7, neurons of one network): of z2 - z1 its bounds, then slope and constant of the upper line of
    #               f(z2) - f(z1) in it, of the lower line, and their gap
    above: Array  # (S, widest) coefficients on a layer's pre-activations; `descend` starts from them
    below: Array  # (S, widest) and on what the layer reads
    taken: Array  # (3, neurons) what `descend` took: coefficient on the activation, slope, intercept
    way: Array  # (neurons of one network,) how it went through a pair
    total: Array  # (inputs,) the linear function's coefficients
    corner: Array  # (inputs,) where it is largest
    matrix: Array  # (2, 2 * widest, widest)
    constants: Array  # (2, 2 * widest)
    order: Integers  # (2, widest)


@compiled
def new_room(net: Weights) -> Room:
    """Room for one box."""
    stack, inputs, single = len(net.weights), net.sizes[0], len(net.kinds)
    neurons = stack * single
    return Room(
        np.empty(inputs),
        np.empty(inputs),
        np.empty((2, inputs)),
        np.empty(neurons),
        np.empty(neurons),
        np.empty((8, neurons)),
        np.empty((4, neurons)),
        np.empty(neurons),
        np.empty(neurons),
        np.empty((4, neurons)),
        np.zeros((neurons, inputs)),
        np.empty((7, single)),
        np.empty((stack, net.widest)),
        np.empty((stack, net.widest)),
        np.empty((3, neurons)),
        np.zeros(single),
        np.empty(inputs),
        np.empty(inputs),
        np.empty((2, 2 * net.widest, net.widest)),
        np.empty((2, 2 * net.widest)),
        np.empty((2, net.widest), np.int64),
    )
