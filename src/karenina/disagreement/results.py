"""The answers about the pairs of k networks, kept compactly: a thousand networks have 499,500 pairs.

Enters: a `Disagreement` at a time. Leaves: (k, k) arrays of bounds, and a mapping from pairs (i, j), i < j, to
`Disagreement`s that are put together when they are asked for.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from karenina.disagreement.pairwise import Disagreement
from karenina.query import Status

__all__ = ["PairResults"]

Array = npt.NDArray[np.float64]
_STATUS = list(Status)
_CODE = {status: code for code, status in enumerate(_STATUS)}
_UNKNOWN = -1


class PairResults(Mapping[tuple[int, int], Disagreement]):
    """What is known of every pair that was measured; `lower` and `upper` hold the bounds of all pairs."""

    def __init__(self, networks: int, inputs: int, outputs: int) -> None:
        pairs = networks * (networks - 1) // 2
        self.networks = networks
        self.lower: Array = np.zeros((networks, networks))  # symmetric, 0 on the diagonal
        self.upper: Array = np.full((networks, networks), np.inf)  # symmetric, 0 on the diagonal
        np.fill_diagonal(self.upper, 0.0)
        self._status = np.full(pairs, _UNKNOWN, np.int8)
        self._witness = np.full((pairs, inputs), np.nan)  # NaN where there is none
        self._outputs = np.full((pairs, 2, outputs), np.nan)
        self._boxes = np.zeros(pairs, np.int64)
        self._seconds = np.zeros(pairs)
        self._note: dict[int, str] = {}  # few pairs have one

    def record(self, first: int, second: int, found: Disagreement) -> None:
        """Let this be what is known of the pair; its cost is added to what the pair has cost before."""
        place = self._place(first, second)
        self.lower[first, second] = self.lower[second, first] = found.lower
        self.upper[first, second] = self.upper[second, first] = found.upper
        self._status[place] = _CODE[found.status]
        self._witness[place] = np.nan if found.witness is None else found.witness
        self._outputs[place] = np.nan if found.outputs is None else found.outputs
        self._boxes[place] += found.boxes
        self._seconds[place] += found.seconds
        self._note.pop(place, None)
        if found.note:
            self._note[place] = found.note

    def __getitem__(self, pair: tuple[int, int]) -> Disagreement:
        if pair not in self:
            raise KeyError(pair)
        place, witness, outputs = self._place(*pair), None, None
        if not np.isnan(self._witness[place]).any():
            witness = self._witness[place].copy()
            outputs = (self._outputs[place, 0].copy(), self._outputs[place, 1].copy())
        return Disagreement(
            float(self.lower[pair]),
            float(self.upper[pair]),
            _STATUS[self._status[place]],
            witness,
            outputs,
            int(self._boxes[place]),
            float(self._seconds[place]),
            self._note.get(place, ""),
        )

    def __contains__(self, pair: object) -> bool:
        if not (isinstance(pair, tuple) and len(pair) == 2):
            return False
        first, second = pair
        return bool(0 <= first < second < self.networks and self._status[self._place(first, second)] != _UNKNOWN)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        first, second = np.triu_indices(self.networks, 1)
        measured = self._status != _UNKNOWN
        return zip(first[measured].tolist(), second[measured].tolist(), strict=True)

    def __len__(self) -> int:
        return int((self._status != _UNKNOWN).sum())

    def notes(self, networks: Sequence[int]) -> Counter[str]:
        """What is noted of the pairs among some of the networks, and of how many pairs."""
        if not self._note:
            return Counter()
        places = (self._place(i, j) for i, j in itertools.combinations(sorted(networks), 2))
        return Counter(self._note[place] for place in places if place in self._note)

    @property
    def boxes(self) -> int:
        """Subdomains bounded, in all."""
        return int(self._boxes.sum())

    @property
    def seconds(self) -> float:
        """Seconds spent on pairs, in all, whoever spent them."""
        return float(self._seconds.sum())

    def _place(self, first: int, second: int) -> int:
        """Where the pair stands in the order of numpy's `triu_indices`."""
        return first * self.networks - first * (first + 1) // 2 + second - first - 1
