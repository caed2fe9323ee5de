"""A back end for tests: it says what it was told to say, and remembers what it was asked.

Enters: answers in order, or a function from query to answer. Leaves: those answers. With it, code that asks
verification queries is tested in microseconds and without luck:

    backend = FakeBackend([Answer(1.0, 1.5, Status.EXACT), Answer(2.0, 2.0, Status.EXACT)])
    ...
    assert len(backend.queries) == 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from karenina.backends.progress import DEFAULT_GOAL
from karenina.query import Answer, Goal, Query

__all__ = ["FakeBackend"]


class FakeBackend:
    """Answers from a list (one answer a query, in order) or by a function of the query.

    `queries` and `goals` hold what was asked. A query beyond the end of the list is an AssertionError, so a test
    fails where it is asked.
    """

    def __init__(self, answers: Iterable[Answer] | Callable[[Query], Answer]) -> None:
        self.queries: list[Query] = []
        self.goals: list[Goal] = []
        self._answers = answers if callable(answers) else _in_order(answers)

    def answer(self, query: Query, goal: Goal = DEFAULT_GOAL) -> Answer:
        """The next scripted answer."""
        self.queries.append(query)
        self.goals.append(goal)
        return self._answers(query)


def _in_order(answers: Iterable[Answer]) -> Callable[[Query], Answer]:
    script = list(answers)
    remaining = iter(script)

    def answer(_query: Query) -> Answer:
        for scripted in remaining:
            return scripted
        raise AssertionError(f"the fake back end has only {len(script)} answers")

    return answer
