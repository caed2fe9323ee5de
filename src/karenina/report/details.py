"""What a click on a pair shows, for as many pairs as there is room for. Enters: a `FinishedRun`. Leaves: `Details`:
witnesses and outputs, and behind the most telling ones lines and planes through the witness, packed as text.

Pairs of survivors come first, then pairs of different camps, then those that were seen farthest apart. Numbers are
packed little-endian in base64: witnesses as float32, lines as 16-bit steps between the least and the largest
output, planes as 8-bit steps from 0 to the largest distance, 255 where the distance counts nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.distance import Distance
from karenina.distance import distance as named_distance
from karenina.domain import Box
from karenina.network import Network
from karenina.report.finished import FinishedRun
from karenina.report.slices import Lines, Plane, box_of, lines_through, plane_through

__all__ = ["Details", "details", "distance_of", "pack", "pack_lines", "pack_plane", "pairs_by_interest", "surroundings"]

Array = npt.NDArray[np.float64]

MOST_INPUTS, MOST_OUTPUTS = 32, 4  # of a pair's lines
MOST_CANDIDATES = 128
POINTS = 41  # of a line, where there is room
FEWEST_POINTS = 17
PLANE_POINTS = 25
PAIR_BYTES = 8_000  # of lines, roughly
LINE_BYTES = 1_100_000  # for all pairs together
WITNESS_BYTES = 600_000  # for all pairs together, and some more for each
WITNESS_BYTES_A_PAIR = 25
_BATCH = 64  # inputs at a time
_FEW = 5  # points, to see which inputs matter


@dataclass(frozen=True, eq=False)
class Details:
    """Pairs in the order of interest: the first have witnesses, the first of those have lines and planes too."""

    pairs: list[tuple[int, int]]  # with a witness
    boxes: list[int]  # of the domain, that hold the witnesses
    witnesses: Array  # (pairs, inputs)
    outputs: Array  # (pairs, 2 networks, outputs)
    views: list[dict[str, object] | None]  # packed lines and plane, of the first pairs; None without the networks


def distance_of(run: FinishedRun) -> Distance:
    """The distance of the selection; one that karenina does not know by name is shown as l1."""
    known = run.selection.distance in ("l1", "linf", "c-distance", "class")
    return named_distance(run.selection.distance if known else "l1", run.conditions)


def details(run: FinishedRun, line_bytes: int = LINE_BYTES, witness_bytes: int | None = None) -> Details:
    """As much about the pairs as there is room for."""
    table = run.selection.table
    if witness_bytes is None:
        witness_bytes = WITNESS_BYTES + WITNESS_BYTES_A_PAIR * len(table.pairs)
    found = [(pair, table.pairs[pair]) for pair in pairs_by_interest(run)]
    seen = [(pair, d.witness, d.outputs) for pair, d in found if d.witness is not None and d.outputs is not None]
    if not seen:
        return Details([], [], np.zeros((0, run.domain.size)), np.zeros((0, 2, 0)), [])
    outputs = len(seen[0][2][0])
    room = max(1, witness_bytes // ((run.domain.size + 2 * outputs) * 4 * 4 // 3))
    seen = seen[:room]
    boxes = [box_of(run.domain, witness) for _, witness, _ in seen]
    views: list[dict[str, object] | None] = []
    left = line_bytes
    for (pair, witness, _), box in zip(seen, boxes, strict=True):
        if left <= 0:
            break
        view = _view(run, pair, run.domain.boxes[box], witness)
        left -= 0 if view is None else len(str(view["lines"])) + len(str(view.get("plane", ""))) + 200
        views.append(view)
    both = np.array([[first, second] for _, _, (first, second) in seen])
    return Details([pair for pair, _, _ in seen], boxes, np.array([w for _, w, _ in seen]), both, views)


def pairs_by_interest(run: FinishedRun) -> Iterator[tuple[int, int]]:
    """Every measured pair once."""
    selection = run.selection
    place = {name: k for k, name in enumerate(selection.names)}
    survivors = {place[name] for name in selection.survivors}
    camp = {place[name]: k for k, own in enumerate(selection.camps.camps) for name in own.members}

    def interest(pair: tuple[int, int]) -> tuple[bool, bool, float]:
        first, second = pair
        divided = first in camp and second in camp and camp[first] != camp[second]
        return not survivors >= {first, second}, not divided, -selection.table.pairs[pair].lower

    yield from sorted(selection.table.pairs, key=interest)


def _view(run: FinishedRun, pair: tuple[int, int], box: Box, witness: Array) -> dict[str, object] | None:
    names = [run.selection.names[k] for k in pair]
    if not all(name in run.networks for name in names):
        return None
    lines, plane = surroundings((run.networks[names[0]], run.networks[names[1]]), box, witness, distance_of(run))
    return {**pack_lines(lines), **({} if plane is None else pack_plane(plane))}


def surroundings(
    networks: tuple[Network, Network], box: Box, witness: Array, distance: Distance
) -> tuple[Lines, Plane | None]:
    """Lines along the inputs that matter most, in their own order, and the plane of the first two of those."""
    movable = _candidates(networks, box)
    spans = _spans(networks, box, witness, movable.tolist())
    by_span = movable[np.argsort(-spans, kind="stable")].tolist()
    inputs = sorted(by_span[:MOST_INPUTS])
    apart = np.abs(networks[0](witness) - networks[1](witness))
    outputs = sorted(np.argsort(-apart, kind="stable")[:MOST_OUTPUTS].tolist())
    points = PAIR_BYTES * 3 // 4 // max(1, 2 * 2 * len(inputs) * len(outputs))
    lines = lines_through(networks, box, witness, inputs, outputs, max(FEWEST_POINTS, min(POINTS, points)))
    if len(by_span) < 2:
        return lines, None
    first, second = sorted(by_span[:2])
    return lines, plane_through(networks, box, witness, (first, second), PLANE_POINTS, distance)


def _candidates(networks: tuple[Network, Network], box: Box) -> npt.NDArray[np.intp]:
    """Inputs that can move; of very many, those with most weight on them, to be looked at more closely."""
    movable = np.flatnonzero(box.upper > box.lower)
    if len(movable) <= MOST_CANDIDATES:
        return movable
    weight = sum(network.layers[0].weight.abs().sum(dim=0).cpu().numpy() for network in networks)  # (inputs,)
    moved = np.asarray(weight * (box.upper - box.lower))[movable]
    return np.sort(movable[np.argsort(-moved, kind="stable")[:MOST_CANDIDATES]])


def _spans(networks: tuple[Network, Network], box: Box, witness: Array, inputs: Sequence[int]) -> Array:
    """How much the difference of the outputs changes along each input; (inputs,)."""
    outputs = range(networks[0].output_size)
    found = []
    for start in range(0, len(inputs), _BATCH):
        lines = lines_through(networks, box, witness, inputs[start : start + _BATCH], outputs, _FEW)
        difference = lines.values[:, :, 0] - lines.values[:, :, 1]  # (outputs, inputs, points)
        found.append((difference.max(axis=-1) - difference.min(axis=-1)).sum(axis=0))
    return np.concatenate(found) if found else np.zeros(0)


def pack(values: npt.ArrayLike, kind: str) -> str:
    """Numbers as text: little-endian, base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<")).tobytes()).decode()


def pack_lines(lines: Lines) -> dict[str, object]:
    """Every output in steps between its least and its largest value, so that lines of one output compare."""
    values = lines.values
    low = values.min(axis=(1, 2, 3)) if lines.inputs else np.zeros(len(lines.outputs))
    high = values.max(axis=(1, 2, 3)) if lines.inputs else np.zeros(len(lines.outputs))
    width = np.where(high > low, high - low, 1.0)
    steps = np.rint((values - low[:, None, None, None]) / width[:, None, None, None] * 65535)
    return {
        "inputs": list(lines.inputs),
        "outputs": list(lines.outputs),
        "points": lines.grids.shape[1],
        "range": [[float(a), float(a + b)] for a, b in zip(low, width, strict=True)],
        "lines": pack(steps, "u2"),
    }


def pack_plane(plane: Plane) -> dict[str, object]:
    """Distances in steps from 0 to the largest."""
    counted, values = ~np.isnan(plane.values), np.nan_to_num(plane.values)
    largest = float(values[counted].max()) if counted.any() else 0.0
    steps = np.where(counted, values / (largest or 1.0) * 254, 255)
    return {"spanned": list(plane.inputs), "largest": largest, "plane": pack(np.rint(steps), "u1")}
