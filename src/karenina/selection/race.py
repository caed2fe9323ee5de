"""The measuring side of a selection: rounds of tasks, until a decision is certain or nothing more can be known.

Enters: a function that takes a decision on a `Standing`. Leaves: the decision and how certain it is. In a round all
tasks are measured before anything is decided, so the result depends neither on who measures nor on the order of
arrival.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from karenina.disagreement import Measure, PairTask
from karenina.query import Status
from karenina.selection.criteria import Comparisons
from karenina.selection.known import Array, Known, Standing
from karenina.selection.plan import foresighted, ladder, narrowing, rung, widths
from karenina.selection.result import Certainty

__all__ = ["Progress", "Race", "Verdict", "score_interval"]

Outcome = TypeVar("Outcome")
Pair = tuple[int, int]


@dataclass(frozen=True)
class Progress:
    """Where a selection stands; reported when a round of measurements starts and after each of them."""

    doing: str  # in words
    iteration: int  # from 1; 0 before the first
    models: int  # still in the race
    pairs: int  # of all networks
    exact_pairs: int  # measured to the tolerance
    done: int  # measurements of this round
    planned: int  # measurements of this round
    measurements: int  # in all


@dataclass(frozen=True)
class Verdict:
    """How certain a decision is, and the pairs (places of networks) that keep it undecided."""

    certainty: Certainty
    undecided: tuple[Pair, ...] = ()


class Race:
    """The models still in the race, what is known of their pairs, and who measures."""

    def __init__(self, known: Known, measure: Measure, on_progress: Callable[[Progress], None] | None) -> None:
        self.known, self.measure, self.on_progress = known, measure, on_progress
        self.members: list[int] = list(range(known.results.networks))
        self.iteration = 0
        self.goals = ladder(known.goal)

    def survey(self, exact: bool) -> None:
        """Measure every pair once: to the goal, or as cheaply as can be."""
        goal = self.goals[0.0 if exact else math.inf]
        tasks = [PairTask(i, j, goal) for i, j in itertools.combinations(self.members, 2)]
        self._round(tasks, "measuring all pairs" if exact else "bounding all pairs")

    def settle(
        self,
        members: Sequence[int],
        decide: Callable[[Standing], tuple[Outcome, Comparisons]],
        foresee: Callable[[Standing], Iterable[tuple[Standing, Comparisons]]] = lambda _: (),
    ) -> tuple[Outcome, Verdict, Standing]:
        """Measure until what is decided about the members is certain, or cannot become so.

        `foresee` gives the decisions that are likely to follow, with their claims.
        """
        self._report("deciding", 0, 0)
        while True:
            standing = self.known.standing(members)
            outcome, claims = decide(standing)
            open_ = claims[~claims.certain(standing)]
            if not len(open_):
                return outcome, Verdict(Certainty.CERTIFIED), standing
            wanted = widths(standing, open_, self.known.goal.tolerance)
            wanted = foresighted(standing, wanted, foresee(standing), self.known.goal.tolerance)
            tasks = self._tasks(standing, wanted)
            if not tasks:
                return outcome, self._verdict(standing, open_), standing
            self._round(tasks, "tightening pairs that leave the decision open")

    def narrow(self, members: Sequence[int]) -> Standing:
        """Measure until the largest disagreement of the members is known to the tolerance."""
        while True:
            standing = self.known.standing(members)
            tasks = self._tasks(standing, narrowing(standing, self.known.goal.tolerance))
            if not tasks:
                return standing
            self._round(tasks, "tightening the largest disagreement of the survivors")

    def _tasks(self, standing: Standing, wanted: Array) -> list[PairTask]:
        """The pairs that are wanted to a finite width, each to the rung of the ladder that gives it."""
        first, second = np.nonzero(np.triu(np.isfinite(wanted), 1))
        finest, asked, tasks = self.known.goal.tolerance, self.known.asked, []
        pairs = zip(standing.members[first].tolist(), standing.members[second].tolist(), strict=True)
        for (i, j), width, value in zip(pairs, wanted[first, second], standing.value[first, second], strict=True):
            tasks.append(PairTask(i, j, self.goals[rung(width, value, finest, asked[i, j])]))
        return tasks

    def _round(self, tasks: Sequence[PairTask], doing: str) -> None:
        """Measure all tasks; none may be left out."""
        self._report(doing, 0, len(tasks))
        waiting = {(task.first, task.second) for task in tasks}
        for task, found in self.measure(tasks):
            if (task.first, task.second) not in waiting:
                raise AssertionError(f"a measure answered what was not asked, or twice: {task}")
            waiting.remove((task.first, task.second))
            self.known.record(task, found)
            self._report(doing, len(tasks) - len(waiting), len(tasks))
        if waiting:
            raise AssertionError(f"a measure left {len(waiting)} of {len(tasks)} tasks unanswered")

    def _verdict(self, standing: Standing, open_: Comparisons) -> Verdict:
        """Why claims stay open: values within the tolerance of each other, or pairs not known to it."""
        rows = np.union1d(open_.high, open_.low)
        rows = rows[rows < standing.models]
        missing = np.zeros_like(standing.reached)
        missing[rows] = ~standing.reached[rows]
        first, second = np.nonzero(np.triu(missing | missing.T))
        if not len(first):
            return Verdict(Certainty.TIE)
        pairs = tuple(zip(standing.members[first].tolist(), standing.members[second].tolist(), strict=True))
        late = any(self.known.results[pair].status is Status.TIME_LIMIT for pair in pairs)
        return Verdict(Certainty.UNDECIDED if late else Certainty.UNVERIFIED, pairs)

    def _report(self, doing: str, done: int, planned: int) -> None:
        if self.on_progress is None:
            return
        known = self.known
        self.on_progress(
            Progress(
                doing,
                self.iteration,
                len(self.members),
                known.pairs,
                known.exact_pairs,
                done,
                planned,
                known.measurements,
            )
        )


def score_interval(lower: Array, upper: Array) -> tuple[float, float]:
    """The mean of a model's disagreements with the others, rounded outwards. Enters its row without itself."""
    count = len(lower)
    low, high = math.fsum(lower) / count, math.fsum(upper) / count
    return max(0.0, _down(_down(low))), -_down(_down(-high))


def _down(value: float) -> float:
    return math.nextafter(value, -math.inf)
