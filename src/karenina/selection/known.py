"""What is known of the pairs while a selection runs.

Enters: answers to tasks. Leaves: for the models still in the race a `Standing`: the interval each pair is decided
with, and the value it has where intervals do not decide.

The value of a pair is the lower end of its answer to the settings' goal: a witness attains it, and it is at most the
tolerance below the threshold. It depends on the pair and the goal alone, so it is the same however a selection
arrives at it. A pair that has been asked only for less is held in [lower - tolerance, upper]: there lie both the true
threshold and that value. What holds for all values in these intervals therefore holds for the true thresholds, and
for the values that a table of exact pairs would show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from karenina.disagreement import Disagreement, PairResults, PairTask
from karenina.errors import KareninaError
from karenina.query import Goal, Status

__all__ = ["Known", "Standing"]

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]
CONTRADICTION = 1e-9  # relative; less is rounding


@dataclass(frozen=True, eq=False)
class Standing:
    """The models in the race, and one more that disagrees with nobody, so that a score can be compared with a number.

    All matrices are symmetric with zeros on the diagonal and in the last row and column.
    """

    members: Places  # (models,) places in the list of networks, ascending
    value: Array  # (models + 1, models + 1) lower <= value <= upper
    lower: Array  # (models + 1, models + 1) the intervals decisions are made with
    upper: Array  # (models + 1, models + 1)
    settled: Flags  # (models + 1, models + 1) no further measurement is to come
    reached: Flags  # (models + 1, models + 1) not settled, or settled and known to the tolerance
    score: Array  # (models + 1,) sums of the values, correctly rounded: equal sums are equal

    @property
    def models(self) -> int:
        return len(self.members)

    def without(self, places: Places) -> Standing:
        """The standing after some models have left."""
        stay = np.setdiff1d(np.arange(self.models + 1), places)
        block = np.ix_(stay, stay)
        value = self.value[block]
        return Standing(
            self.members[stay[:-1]],
            value,
            self.lower[block],
            self.upper[block],
            self.settled[block],
            self.reached[block],
            _sums(value),
        )

    @property
    def order(self) -> Places:
        """The models by score, the highest first; among equal scores the one later in the list first."""
        places = np.arange(self.models)
        return np.lexsort((-places, -self.score[:-1]))

    def least(self, high: Places, low: Places) -> Array:
        """The least score[high] - score[low] over all values inside the intervals.

        The pair of the two counts in both scores and cancels; the other pairs are free of each other.
        """
        below = self.lower.sum(1)[high] - self.lower[high, low]
        endless = np.isinf(self.upper)
        finite = np.where(endless, 0.0, self.upper)
        above = finite.sum(1)[low] - finite[high, low]
        unbounded = endless.sum(1)[low] > endless[high, low]
        return np.where(unbounded, -math.inf, below - above)

    def rounding(self, high: Places, low: Places) -> Array:
        """More than what float64 may have got wrong in `least`."""
        size = np.where(np.isinf(self.upper), 0.0, self.upper).sum(1)
        return np.asarray(8 * (self.models + 2) * np.finfo(np.float64).eps * (size[high] + size[low]))


class Known:
    """The answers so far, and to what tolerance each pair was asked."""

    def __init__(self, networks: int, inputs: int, outputs: int, goal: Goal) -> None:
        self.goal = goal
        self.results = PairResults(networks, inputs, outputs)
        self.asked = np.full((networks, networks), np.inf)  # the relative tolerance of the last answer
        self.settled: Flags = np.eye(networks, dtype=bool)
        self.reached: Flags = np.ones((networks, networks), dtype=bool)
        self.measurements = 0
        self.exact_pairs = 0  # measured to the goal

    @property
    def pairs(self) -> int:
        return self.results.networks * (self.results.networks - 1) // 2

    def record(self, task: PairTask, found: Disagreement) -> None:
        """Take an answer in; the order in which those of different pairs arrive makes no difference."""
        i, j = task.first, task.second
        final = task.goal == self.goal
        reached = task.goal.reached(found.lower, found.upper) or found.status in (Status.EXACT, Status.INFEASIBLE)
        self.measurements += 1
        self.exact_pairs += final and reached
        kept = self._joined((i, j), found)
        # An answer to the goal stands alone: its lower end must not depend on what was asked before.
        self.results.record(i, j, found if final and reached else kept)
        coarsest = task.goal.tolerance > self.goal.tolerance
        self.asked[i, j] = self.asked[j, i] = math.inf if coarsest else task.goal.relative_tolerance
        self.settled[i, j] = self.settled[j, i] = final or not reached  # what took too long is not asked again
        self.reached[i, j] = self.reached[j, i] = reached or self.goal.reached(kept.lower, kept.upper)

    def _joined(self, pair: tuple[int, int], found: Disagreement) -> Disagreement:
        """The answer together with what was known; the witness is that of the larger lower end."""
        if pair not in self.results:
            return found
        before = self.results[pair]
        best = found if found.lower >= before.lower else before
        lower, upper = best.lower, min(before.upper, found.upper)
        if lower > upper + CONTRADICTION * (1 + abs(upper)):
            raise KareninaError(
                f"two answers about the networks at places {pair[0]} and {pair[1]} contradict each other: "
                f"[{before.lower}, {before.upper}] and [{found.lower}, {found.upper}]"
            )
        return replace(
            best,
            upper=max(lower, upper),
            status=found.status,
            boxes=found.boxes,
            seconds=found.seconds,
            note=found.note,
        )

    def standing(self, members: Sequence[int]) -> Standing:
        """The pairs among some of the networks."""
        chosen = np.array(members, dtype=np.intp)
        block = np.ix_(chosen, chosen)
        lower, upper, settled = self.results.lower[block], self.results.upper[block], self.settled[block]
        value = _bordered(lower)
        return Standing(
            chosen,
            value,
            _bordered(np.where(settled, lower, np.maximum(lower - self.goal.tolerance, 0.0))),
            _bordered(upper),
            np.pad(settled, (0, 1), constant_values=True),
            np.pad(self.reached[block], (0, 1), constant_values=True),
            _sums(value),
        )


def _bordered(matrix: Array) -> Array:
    return np.pad(matrix, (0, 1))


def _sums(value: Array) -> Array:
    return np.array([math.fsum(row) for row in value.tolist()])
