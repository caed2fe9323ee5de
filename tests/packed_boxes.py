"""Queries as the plain arrays that compiled code reads, and single boxes bounded by it. Needs numba.

Enters: a query. Leaves: `Packed`, and for a box inside its own the `Room` with all bounds, and a `Node` for `dive`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from karenina.engine.box import hidden_bounds
from karenina.engine.cases import Cases
from karenina.engine.joint import Joint
from karenina.engine.lines import has_one_kink
from karenina.engine.nodes import flat
from karenina.engine.packed import Node, Question, Weights
from karenina.engine.packing import pack_question, pack_weights
from karenina.engine.room import Room, new_room
from karenina.engine.rounding import Rounding
from karenina.query import Query

Array = npt.NDArray[np.float64]
CPU = torch.device("cpu")


class Packed(NamedTuple):
    """One query, as tensors and as arrays."""

    joint: Joint
    cases: Cases
    rounding: Rounding
    net: Weights
    ask: Question


def pack(query: Query, near: bool = False) -> Packed:
    joint = Joint.of(query.networks, CPU)
    cases, rounding = Cases.of(query, joint, CPU, near=near)
    return Packed(joint, cases, rounding, pack_weights(joint, rounding), pack_question(cases, near))


def room_on(packed: Packed, lower: Array, upper: Array, known: Sequence[Array] | None = None) -> Room:
    """A box, bounded; known: bounds of all pre-activations."""
    room = new_room(packed.net)
    room.lower[:], room.upper[:] = lower, upper
    room.low[:], room.high[:] = (-np.inf, np.inf) if known is None else known
    hidden_bounds(packed.net, room, packed.ask.near)
    return room


def root_of(packed: Packed, case: int = 0) -> Room:
    """The box of a case, bounded."""
    return room_on(packed, packed.ask.lower[case], packed.ask.upper[case])


def pre_activations(joint: Joint, x: Array) -> Array:
    """Of all neurons, numbered as the engine does, at points x: (points, neurons)."""
    z: Array = flat(joint.forward(torch.as_tensor(x))[0]).numpy()
    return z


def kinds_of(packed: Packed) -> npt.NDArray[np.int64]:
    """The row of net.kinds that each neuron has."""
    starts = np.concatenate([[0], np.cumsum(packed.joint.widths)])
    rows = [np.tile(np.arange(a, b), packed.joint.stack) for a, b in itertools.pairwise(starts)]
    return np.concatenate(rows)


def loose_neurons(room: Room) -> npt.NDArray[np.bool_]:
    """Whose lines differ somewhere in the range, or have a slope to choose."""
    up, up_most, up_point, up_value, down, down_most, down_point, down_value = room.lines
    at_ends = [(up_value + up * (z - up_point)) - (down_value + down * (z - down_point)) for z in (room.low, room.high)]
    loose: npt.NDArray[np.bool_] = (up_most > up) | (down_most > down) | (np.maximum(*at_ends) > 0)
    return loose


def node_on(packed: Packed, room: Room, case: int = 0) -> Node:
    """The box with all its neurons, for `dive`."""
    ask, loose = packed.ask, loose_neurons(room)
    ranges = zip(kinds_of(packed).tolist(), room.low.tolist(), room.high.tolist(), strict=True)
    bent = np.array([has_one_kink(packed.net.kinds, p, low, high) for p, low, high in ranges])
    return Node(
        room.lower,
        room.upper,
        room.lines,
        room.low,
        room.high,
        np.flatnonzero(loose),
        np.where(loose, np.cumsum(loose) - 1, -1),
        bent & loose,
        room.start,
        ask.objective[case],
        float(ask.offset[case] + ask.error[case]),
        ask.rows[case],
        ask.row_offset[case] + 2 * ask.row_error[case],
        ask.row_offset[case] - 8 * ask.row_error[case] - 2e-9,
    )
