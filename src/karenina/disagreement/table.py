"""The table of a population: the pairwise disagreement thresholds of all its pairs, as intervals.

Enters: networks, a domain, a distance, a goal, and who measures. Leaves: a `DisagreementTable` with the interval and
the witness of every pair.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from karenina.disagreement.measure import Measure, PairTask, check_population, measure_here
from karenina.disagreement.pairwise import Disagreement
from karenina.disagreement.results import PairResults
from karenina.distance import Distance
from karenina.domain import Domain
from karenina.errors import InputError, MissingExtra
from karenina.network import Network
from karenina.query import Backend, Goal

if TYPE_CHECKING:
    import pandas

__all__ = ["DisagreementTable", "disagreement_table"]

Array = npt.NDArray[np.float64]
MOST_ROWS = 40  # printed


@dataclass(frozen=True, eq=False)
class DisagreementTable:
    """Intervals of the pairs (i, j), i < j, of the named networks; a pair that was not measured is missing."""

    names: tuple[str, ...]
    pairs: Mapping[tuple[int, int], Disagreement]

    @property
    def lower(self) -> Array:
        """(networks, networks): no pair disagrees less; 0 where nothing is known."""
        return self._bounds("lower", 0.0)

    @property
    def upper(self) -> Array:
        """(networks, networks): no pair disagrees more; infinite where nothing is known."""
        return self._bounds("upper", np.inf)

    def disagreement(self, first: str | int, second: str | int) -> Disagreement:
        """Of two networks, by name or place, in any order. The outputs are in the order asked for."""
        i, j = self._place(first), self._place(second)
        pair = (min(i, j), max(i, j))
        if pair not in self.pairs:
            raise InputError(f"{self.names[i]} and {self.names[j]} were not measured against each other")
        found = self.pairs[pair]
        return found if i < j or found.outputs is None else _turned(found)

    def to_frame(self) -> pandas.DataFrame:
        """One row a pair; needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("pandas", "frames") from error
        columns = ["a", "b", "lower", "upper", "status", "boxes", "seconds", "witness"]
        rows = [
            (self.names[i], self.names[j], d.lower, d.upper, str(d.status), d.boxes, d.seconds, d.witness)
            for (i, j), d in self.pairs.items()
        ]
        return pandas.DataFrame(rows, columns=columns)

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = [f"{'a':<{width}}  {'b':<{width}}  {'lower':>12}  {'upper':>12}  status"]
        for (i, j), found in itertools.islice(self.pairs.items(), MOST_ROWS):
            names = f"{self.names[i]:<{width}}  {self.names[j]:<{width}}"
            lines.append(f"{names}  {found.lower:>12.6g}  {found.upper:>12.6g}  {found.status}")
        if len(self.pairs) > MOST_ROWS:
            lines.append(f"... and {len(self.pairs) - MOST_ROWS} more pairs")
        return "\n".join(lines)

    def _bounds(self, which: str, unknown: float) -> Array:
        if isinstance(self.pairs, PairResults):
            bounds: Array = getattr(self.pairs, which).copy()
            return bounds
        bounds = np.full((len(self.names), len(self.names)), unknown)
        np.fill_diagonal(bounds, 0.0)
        for (i, j), found in self.pairs.items():
            bounds[i, j] = bounds[j, i] = getattr(found, which)
        return bounds

    def _place(self, network: str | int) -> int:
        if isinstance(network, str):
            if network not in self.names:
                raise InputError(f"there is no network {network!r} in the table; there are {', '.join(self.names)}")
            return self.names.index(network)
        if not 0 <= network < len(self.names):
            raise InputError(f"there is no network {network} in the table: places go from 0 to {len(self.names) - 1}")
        return network


def _turned(found: Disagreement) -> Disagreement:
    assert found.outputs is not None
    return replace(found, outputs=(found.outputs[1], found.outputs[0]))


def disagreement_table(
    networks: Sequence[Network],
    domain: Domain,
    distance: str | Distance = "l1",
    *,
    goal: Goal | None = None,
    backend: Backend | None = None,
    measure: Measure | None = None,
    names: Sequence[str] | None = None,
) -> DisagreementTable:
    """All pairs to the goal, by the back end here, or by whatever `measure` is given."""
    checked = check_population(networks, domain, names)
    measure = measure or measure_here(networks, domain, distance, backend)
    results = PairResults(len(networks), domain.size, networks[0].output_size)
    chosen = goal or Goal()
    tasks = [PairTask(i, j, chosen) for i, j in itertools.combinations(range(len(networks)), 2)]
    for task, found in measure(tasks):
        results.record(task.first, task.second, found)
    if len(results) != len(tasks):
        raise AssertionError(f"{len(tasks)} pairs were to be measured, {len(results)} were")
    return DisagreementTable(tuple(checked), results)
