"""Eight boxes side by side, bounded by compiled code. Needs numba."""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt
from packed_boxes import Packed, pack, room_on

from karenina.domain import Box
from karenina.engine.abreast_lines import relax
from karenina.engine.abreast_room import Abreast, new_abreast
from karenina.engine.abreast_steps import axes_abreast, bound_abreast, loose_abreast, values_abreast
from karenina.engine.lanes import load, store
from karenina.engine.packed import Weights
from karenina.network import Activation, Layer, Network
from karenina.query import Case, Query

Array = npt.NDArray[np.float64]


def abreast(packed: Packed, boxes: Sequence[Box]) -> Abreast:
    """Boxes inside the first of them, with what is known of that one's neurons."""
    group, root = new_abreast(packed.net, packed.ask), room_on(packed, boxes[0].lower, boxes[0].upper)
    group.low[:], group.high[:], group.best_slopes[:] = root.low[:, None], root.high[:, None], np.nan
    for lane, box in enumerate(boxes):
        group.lower[:, lane], group.upper[:, lane] = box.lower, box.upper
    group.shortest[:] = packed.ask.least_width[0][:, None]
    group.objective[:] = packed.ask.objective[0][:, None]
    group.found[0], group.found[1] = np.inf, packed.ask.offset[0] + packed.ask.error[0]
    return group


def one_neuron(activation: Activation, low: Array, high: Array) -> tuple[Packed, Abreast]:
    """A network of one hidden neuron, the first, with these ranges in eight boxes."""
    network = Network((Layer.of([[1.0]], [0.0], activation), Layer.of([[1.0]], [0.0])))
    packed = pack(Query((network,), (Case(Box([-1.0], [1.0]), np.ones(1)),)))
    group = new_abreast(packed.net, packed.ask)
    group.low[0], group.high[0] = low, high
    return packed, group


@numba.njit(error_model="numpy", fastmath={"contract"})
def relaxed(kinds: Array, room: Abreast) -> bool:
    """Lines of the first neuron."""
    return relax(kinds, 0, room, 0)


@numba.njit(error_model="numpy", fastmath={"contract"})
def bounded(net: Weights, room: Abreast, target: float, aim: float, steps: int) -> None:
    """room.found becomes the bounds, the values at the corners, the numbers of loose neurons and the axes."""
    before, constant = load(room.found, 0), load(room.found, 1)
    store(room.found, 0, bound_abreast(net, room, constant, before, target, aim, steps))
    store(room.found, 1, values_abreast(net, room))
    store(room.found, 2, loose_abreast(room))
    store(room.found, 3, axes_abreast(net, room))
