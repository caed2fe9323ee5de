"""Disagreement estimated from samples: the same tables as verification's, but each pair's largest distance *seen*.

Enters: networks, a domain, a distance, samples. Leaves: tables in whole units, for growing numbers of samples.
Every estimate is a lower bound of the distance's maximum over a group of queries; the c-distance takes the minimum of
two such maxima, so there it is one as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from karenina.domain import Box
from karenina.errors import InputError
from karenina.experiments.populations import Array, Flags, Subject
from karenina.experiments.tables import UNIT, Integers

__all__ = ["SIZES", "outputs", "sampled_tables"]

SIZES = (100, 10_000, 1_000_000)
_CHUNK = 20_000  # inputs at a time


def sampled_tables(subject: Subject, sizes: Sequence[int] = SIZES, seed: int = 0) -> list[Integers]:
    """A table for each size, ascending; the larger sets of samples hold the smaller ones."""
    rng = np.random.default_rng(seed)
    boxes = [_Box(subject, box, np.random.default_rng(rng.integers(2**63))) for box in subject.domain.boxes]
    tables = []
    for size in sizes:
        shares = [size // len(boxes) + (k < size % len(boxes)) for k in range(len(boxes))]
        for box, share in zip(boxes, shares, strict=True):
            box.sample_until(share)
        tables.append(_whole(np.maximum.reduce([box.table() for box in boxes])))
    return tables


def _whole(table: Array) -> Integers:
    return np.floor(table / UNIT).astype(np.int64)


def outputs(subject: Subject, inputs: Array) -> Array:
    """(models, inputs, outputs)."""
    return np.stack([network(inputs) for network in subject.networks])


class _Box:
    """The samples of one box so far."""

    def __init__(self, subject: Subject, box: Box, rng: np.random.Generator) -> None:
        self.subject, self.box, self.rng, self.seen = subject, box, rng, 0
        size = len(subject.networks)
        self.largest = np.zeros((2, size, size))  # by condition; without conditions both are the same

    def sample_until(self, count: int) -> None:
        while self.seen < count:
            share = min(_CHUNK, count - self.seen)
            found = outputs(self.subject, self.box.sample(share, self.rng))
            for i, row in _rows(found, self.subject.distance):
                self.largest[:, i] = np.maximum(self.largest[:, i], row)
            self.seen += share

    def table(self) -> Array:
        least: Array = self.largest.min(0)
        return np.maximum(least, least.T)


def _rows(found: Array, distance: str) -> Iterator[tuple[int, Array]]:
    """For each model its largest distances to those after it: (conditions, models)."""
    match distance:
        case "l1" | "linf":
            return _plain(found, distance)
        case "c-distance":
            return _conditional(found)
        case "class":
            return _classes(found)
    raise InputError(f"the distance {distance!r} is not sampled; known are l1, linf, c-distance and class")


def _plain(found: Array, distance: str) -> Iterator[tuple[int, Array]]:
    models = len(found)
    for i in range(models - 1):
        apart = np.abs(found[i + 1 :] - found[i])
        row = np.zeros(models)
        row[i + 1 :] = (apart.sum(2) if distance == "l1" else apart.max(2)).max(1)
        yield i, np.stack([row, row])


def _conditional(found: Array) -> Iterator[tuple[int, Array]]:
    """Where both are >= 0 in all outputs, and where both are <= 0."""
    models = len(found)
    signs: list[Flags] = [np.all(found >= 0, axis=2), np.all(found <= 0, axis=2)]  # (models, inputs)
    rows = np.zeros((models, 2, models))
    for k, sign in enumerate(signs):
        for i in range(models - 1):
            here = sign[i]
            apart = np.abs(found[i + 1 :, here] - found[i, here]).sum(2)
            rows[i, k, i + 1 :] = np.where(sign[i + 1 :, here], apart, 0.0).max(1, initial=0.0)
    return enumerate(rows)


def _classes(found: Array) -> Iterator[tuple[int, Array]]:
    """How clearly two choose different classes."""
    models, inputs, _ = found.shape
    top, places = found.argmax(2), np.arange(inputs)
    for i, j in itertools.combinations(range(models), 2):
        a, b = top[i], top[j]
        margin = found[i, places, a] - found[i, places, b] + found[j, places, b] - found[j, places, a]
        row = np.zeros((2, models))
        row[:, j] = margin.max()
        yield i, row
