"""What is asked of many networks at once, as plain arrays: networks once each, queries as places among them.

Enters: queries with their goals, or pairs of networks of which all the same is asked. Leaves: `Asked`. A thousand
networks have 499,500 pairs: what is the same for all of them is written once and repeated by numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.network import Network
from karenina.query import Case, Goal, Query

__all__ = ["Asked", "Pairs", "near_pairs"]

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The same cases for many pairs of networks, each to its own goal; all goals have one time limit."""

    networks: Sequence[Network]  # of one architecture
    places: Integers  # (pairs, 2)
    goals: Sequence[Goal]
    cases: tuple[Case, ...]
    floor: float

    def __len__(self) -> int:
        return len(self.places)

    def some(self, which: Integers) -> Pairs:
        """Only the pairs at these places of the list."""
        goals = [self.goals[k] for k in which.tolist()]
        return Pairs(self.networks, self.places[which], goals, self.cases, self.floor)

    def query(self, place: int) -> Query:
        """One pair's question by itself."""
        first, second = self.places[place].tolist()
        return Query((self.networks[first], self.networks[second]), self.cases, self.floor)


@dataclass(frozen=True, eq=False)
class Asked:
    """Queries on networks of one architecture, S of them in each query."""

    networks: tuple[Network, ...]
    places: Integers  # (queries, S) each query's networks
    owner: Integers  # (cases,) the query of each case, ascending
    kind: Integers  # (cases,) which of the kinds below it is
    lower: Array  # (kinds, inputs)
    upper: Array  # (kinds, inputs)
    objective: Array  # (kinds, S * outputs)
    offset: Array  # (kinds,)
    rows: Array  # (kinds, constraints, S * outputs)
    row_offset: Array  # (kinds, constraints)
    floor: Array  # (queries,)
    wanted: Array  # (queries, 3) tolerance, relative tolerance, ceiling

    def __len__(self) -> int:
        return len(self.places)

    @classmethod
    def of(cls, queries: Sequence[Query], goals: Sequence[Goal], constraints: int) -> Asked:
        """One query after the other; those with fewer constraints get some that always hold."""
        distinct = {network: place for place, network in enumerate(dict.fromkeys(_all_networks(queries)))}
        owner = np.repeat(np.arange(len(queries)), [len(query.cases) for query in queries])
        places = np.array([[distinct[network] for network in query.networks] for query in queries])
        floor = np.array([query.floor for query in queries])
        cases = _stacked([case for query in queries for case in query.cases], constraints)
        return cls(tuple(distinct), places, owner, np.arange(len(owner)), *cases, floor, _wanted(goals))

    @classmethod
    def of_pairs(cls, pairs: Pairs) -> Asked:
        """All pairs at once."""
        count, each = len(pairs), len(pairs.cases)
        cases = _stacked(pairs.cases, max(len(case.constraint_offsets) for case in pairs.cases))
        owner, kind = np.repeat(np.arange(count), each), np.tile(np.arange(each), count)
        floor = np.full(count, pairs.floor)
        return cls(tuple(pairs.networks), pairs.places, owner, kind, *cases, floor, _wanted(pairs.goals))


def _all_networks(queries: Sequence[Query]) -> list[Network]:
    return [network for query in queries for network in query.networks]


def _stacked(cases: Sequence[Case], constraints: int) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Boxes, objectives and constraints, a row a case."""
    lower, upper = np.stack([case.box.lower for case in cases]), np.stack([case.box.upper for case in cases])
    objective = np.stack([case.objective for case in cases])
    offset = np.array([case.offset for case in cases], dtype=np.float64)
    rows = np.zeros((len(cases), constraints, objective.shape[1]))
    row_offset = np.zeros(rows.shape[:2])
    for place, case in enumerate(cases):
        count = len(case.constraint_offsets)
        if count:
            rows[place, :count], row_offset[place, :count] = case.constraints, case.constraint_offsets
    return lower, upper, objective, offset, rows, row_offset


def _wanted(goals: Sequence[Goal]) -> Array:
    """Many questions have the same few goals."""
    rows = {id(goal): (goal.tolerance, goal.relative_tolerance, goal.ceiling) for goal in goals}
    return np.array([rows[id(goal)] for goal in goals]).reshape(-1, 3)


def near_pairs(networks: Sequence[Network], places: Integers, alike: float) -> Flags:
    """Which pairs have weights that differ by less than `alike` of what they measure; `near_copies` for all at once."""
    weights = np.stack(
        [np.concatenate([layer.weight.cpu().numpy().ravel() for layer in network.layers]) for network in networks]
    )
    products = weights @ weights.T  # (networks, networks)
    sizes = np.diag(products)
    first, second = places.T
    together = sizes[first] + sizes[second]
    near: Flags = together - 2 * products[first, second] < alike**2 * together
    return near
