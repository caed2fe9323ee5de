"""Searches that were stopped by a coarse goal, kept to go on for a finer one.

Enters: a query and a goal that names what may be asked later (`closing`). Leaves: the search that such a question has
left, if it is still here. To go on gives what a new search would give, so it makes no difference whether it is.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from karenina.engine.compiled_search import CompiledSearch
from karenina.query import Goal, Query

__all__ = ["Paused"]

Key = tuple[object, ...]


class Paused:
    """The latest searches, so many bytes in all. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._searches: OrderedDict[Key, CompiledSearch] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, query: Query, goal: Goal) -> CompiledSearch | None:
        """The search that the query has left; it is no longer kept."""
        with self._lock:
            search = self._searches.pop(_key(query, goal), None)
            if search is not None:
                self._bytes -= search.bytes
                search.goal = goal
            return search

    def keep(self, query: Query, goal: Goal, search: CompiledSearch) -> None:
        """Keep a search that may be asked to go on, and let the oldest go where they take too much."""
        if goal.closing is None or search.done:
            return
        key = _key(query, goal)
        with self._lock:
            twin = self._searches.pop(key, None)  # the same query, asked twice at the same time
            self._bytes += search.bytes - (0 if twin is None else twin.bytes)
            self._searches[key] = search
            while self._bytes > self._most and self._searches:
                _, oldest = self._searches.popitem(last=False)
                self._bytes -= oldest.bytes


def _key(query: Query, goal: Goal) -> Key:
    """All that the search depends on, but for when it stops."""
    closing = goal.tolerance if goal.closing is None else goal.closing
    finest = goal.relative_tolerance if goal.closing is None else 0.0
    cases = tuple(
        (
            case.box.lower.tobytes(),
            case.box.upper.tobytes(),
            case.objective.tobytes(),
            case.offset,
            case.constraints.tobytes(),
            case.constraint_offsets.tobytes(),
        )
        for case in query.cases
    )
    return query.networks, cases, query.floor, closing, finest, goal.threshold, goal.ceiling
