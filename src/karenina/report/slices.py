"""Two networks around a witness. Enters: both networks, the box the witness lies in, the witness. Leaves: their outputs
along lines through it, one for each input, and their distance on the plane of the two inputs that matter most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.distance import CDistance, ClassDistance, Condition, Distance, Linf
from karenina.domain import Box, Domain
from karenina.network import Network

__all__ = ["Lines", "Plane", "box_of", "grid_of", "lines_through", "plane_through", "pointwise"]

Array = npt.NDArray[np.float64]
_LARGEST = 1e300


@dataclass(frozen=True, eq=False)
class Lines:
    """Outputs along the lines through a witness that are parallel to an axis."""

    inputs: tuple[int, ...]  # whose axes; those whose interval is more than a point
    outputs: tuple[int, ...]  # which outputs of the networks
    grids: Array  # (inputs, points): values of the moving input; the witness's own is among them
    values: Array  # (outputs, inputs, 2 networks, points)


@dataclass(frozen=True, eq=False)
class Plane:
    """The distance of the outputs on the plane through a witness that two inputs span."""

    inputs: tuple[int, int]
    values: Array  # (points of the second input, points of the first); NaN where the distance counts nothing


def box_of(domain: Domain, witness: Array) -> int:
    """The place of the box that holds the witness, or is nearest to it."""
    outside = [float(np.maximum(box.lower - witness, witness - box.upper).max()) for box in domain.boxes]
    return int(np.argmin(outside))


def grid_of(lower: float, upper: float, at: float, points: int) -> Array:
    """Evenly spaced values and the one at the witness, so that a kink there is seen; (points,)."""
    grid: Array = np.sort(np.append(np.linspace(lower, upper, points - 1), at))
    return grid


def lines_through(
    networks: tuple[Network, Network],
    box: Box,
    witness: Array,
    inputs: Sequence[int],
    outputs: Sequence[int],
    points: int,
) -> Lines:
    """Both networks' outputs as one input after the other moves through the box."""
    grids = np.array([grid_of(box.lower[i], box.upper[i], witness[i], points) for i in inputs]).reshape(-1, points)
    places = np.tile(witness, (len(inputs), points, 1))  # (inputs, points, all inputs)
    for k, i in enumerate(inputs):
        places[k, :, i] = grids[k]
    both = [_answers(network, places)[..., list(outputs)] for network in networks]  # each (inputs, points, outputs)
    return Lines(tuple(inputs), tuple(outputs), grids, np.transpose(np.stack(both), (3, 1, 0, 2)))


def plane_through(
    networks: tuple[Network, Network],
    box: Box,
    witness: Array,
    inputs: tuple[int, int],
    points: int,
    distance: Distance,
) -> Plane:
    """The distance at the middles of points x points cells."""
    sides = [box.lower[i] + (box.upper[i] - box.lower[i]) * (np.arange(points) + 0.5) / points for i in inputs]
    places = np.tile(witness, (points, points, 1))
    places[:, :, inputs[0]] = sides[0][None, :]
    places[:, :, inputs[1]] = sides[1][:, None]
    return Plane(inputs, pointwise(distance, *(_answers(network, places) for network in networks)))


def pointwise(distance: Distance, first: Array, second: Array) -> Array:
    """The distance of outputs (..., outputs); NaN where no condition of the c-distance holds for both."""
    difference = np.abs(first - second)
    if isinstance(distance, ClassDistance):
        i, j = first.argmax(-1)[..., None], second.argmax(-1)[..., None]
        margins = _at(first, i) - _at(first, j) + _at(second, j) - _at(second, i)
        return np.asarray(margins)
    if isinstance(distance, Linf):
        return np.asarray(difference.max(axis=-1))
    total = np.asarray(difference.sum(axis=-1))
    if isinstance(distance, CDistance):
        conditions = [Condition.parse(text, first.shape[-1]) for text in distance.conditions]
        counts = np.any([_holds(c, first) & _holds(c, second) for c in conditions], axis=0)
        return np.where(counts, total, np.nan)
    return total


def _answers(network: Network, places: Array) -> Array:
    """Outputs that can be drawn: a network may overflow, a picture cannot."""
    return np.clip(np.nan_to_num(network(places)), -_LARGEST, _LARGEST)


def _at(values: Array, place: npt.NDArray[np.intp]) -> Array:
    return np.take_along_axis(values, place, axis=-1)[..., 0]


def _holds(condition: Condition, values: Array) -> npt.NDArray[np.bool_]:
    return np.asarray((values @ condition.rows.T + condition.offsets >= 0).all(axis=-1))
