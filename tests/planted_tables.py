"""Populations whose table of thresholds is planted, and Alg. 2 written down naively, to hold selections against."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from karenina.disagreement import Disagreement, PairTask
from karenina.domain import Box, Domain
from karenina.network import Layer, Network
from karenina.query import Goal, Status
from karenina.selection import CRITERIA, Selection, SelectionSettings, select

DOMAIN = Domain(Box([0.0], [1.0]))
Table = list[list[float]]


def dummies(count: int) -> list[Network]:
    """Networks that nobody will evaluate."""
    return [Network((Layer.of([[1.0]], [float(i)]),), f"m{i}") for i in range(count)]


def random_table(rng: random.Random, count: int, whole: bool) -> Table:
    """Symmetric thresholds; small whole numbers make ties of scores and of gaps."""
    table = [[0.0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            value = float(rng.randrange(4)) if whole else rng.uniform(0, 10) ** rng.choice([1, 2])
            table[i][j] = table[j][i] = value
    return table


@dataclass
class Planted:
    """A measure that knows the true table and says of each pair an interval as wide as the goal allows, or less.

    What it says depends on the pair and the goal alone. `spoil` shuffles the order of arrival; pairs in `slow` stop
    at the time limit with the interval given.
    """

    table: Table
    seed: int = 0
    exact: bool = False  # intervals of width 0
    loose: float = 20.0  # the widest interval there is
    spoil: random.Random | None = None
    slow: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    asked: list[PairTask] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)

    def __call__(self, tasks: Sequence[PairTask]) -> Iterator[tuple[PairTask, Disagreement]]:
        self.rounds.append(len(tasks))
        ordered = list(tasks)
        if self.spoil is not None:
            self.spoil.shuffle(ordered)
        for task in ordered:
            self.asked.append(task)
            yield task, self.answer(task)

    def answer(self, task: PairTask) -> Disagreement:
        i, j = task.first, task.second
        if (i, j) in self.slow:
            lower, upper = self.slow[i, j]
            return Disagreement(lower, upper, Status.TIME_LIMIT, None, None, 1, 0.5)
        rng = random.Random(repr((self.seed, i, j, task.goal.tolerance, task.goal.relative_tolerance)))
        true = self.table[i][j]
        # a relative tolerance counts from the lower end, which may lie as far below the true value
        most = max(task.goal.tolerance, true * task.goal.relative_tolerance / (1 + task.goal.relative_tolerance))
        width = 0.0 if self.exact else min(self.loose, most) * rng.random()
        lower = max(0.0, true - width * rng.choice([0.0, 0.0, rng.random(), 1.0]))
        upper = max(true, lower + width * 0.999)
        return Disagreement(lower, upper, Status.EXACT, np.array([0.5]), (np.zeros(1), np.array([lower])), 3, 0.25)

    def values(self, tolerance: float, time_limit: float = math.inf) -> Table:
        """The lower ends of the exact answers: what ties are decided by."""
        goal, count = Goal(tolerance, time_limit=time_limit), len(self.table)
        found = [[0.0] * count for _ in range(count)]
        for i in range(count):
            for j in range(i + 1, count):
                found[i][j] = found[j][i] = self.answer(PairTask(i, j, goal)).lower
        return found


def naive_scores(table: Table, members: Sequence[int]) -> dict[int, Fraction]:
    """Def. 3, as exact fractions."""
    return {
        i: sum((Fraction(table[i][j]) for j in members if j != i), Fraction(0)) / (len(members) - 1) for i in members
    }


def naive_removals(table: Table, settings: SelectionSettings) -> list[list[int]]:
    """Alg. 2 on a table of numbers: who goes in each iteration, in order."""
    members = list(range(len(table)))
    removed: list[list[int]] = []
    while len(members) > 2 and len(removed) != settings.iterations:
        gone = naive_iteration(table, members, settings)
        if not gone:
            break
        removed.append(gone)
        members = [i for i in members if i not in gone]
    return removed


def naive_iteration(table: Table, members: Sequence[int], settings: SelectionSettings) -> list[int]:
    """Who goes in one iteration; nobody when a stop rule applies."""
    score = naive_scores(table, members)
    highest, lowest = max(score.values()), min(score.values())
    if settings.stop_below is not None and highest <= Fraction(settings.stop_below):
        return []
    if highest - lowest <= Fraction(settings.similar):
        return []
    order = sorted(members, key=lambda i: (score[i], i), reverse=True)
    percentile = max(1, int(len(order) * Fraction(str(settings.percent)) / 100))
    percentile = min(percentile, len(order) - 2)
    gaps = [score[order[p - 1]] - score[order[p]] for p in range(1, len(order) - 1)]
    gap = gaps.index(max(gaps)) + 1
    count = {"percentile": percentile, "max": gap, "combined": max(percentile, gap)}[settings.criterion]
    return order[:count]


@st.composite
def cases(draw: st.DrawFn, largest: int = 9) -> tuple[Planted, SelectionSettings]:
    """A table of some models with or without ties, and settings."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    table = random_table(rng, rng.randint(2, largest), whole=rng.random() < 0.5)
    planted = Planted(table, rng.randrange(2**32), exact=rng.random() < 0.2, loose=rng.choice([0.5, 5.0, 50.0, 1e300]))
    chosen = SelectionSettings(
        criterion=rng.choice(CRITERIA),
        percent=rng.choice([10, 25, 25, 40, 60, 90]),
        iterations=rng.choice([None, None, 1, 2]),
        similar=rng.choice([0.0, 0.0, 0.5, 1.0]),
        stop_below=rng.choice([None, None, 0.0, 1.0, 2.0, 5.0]),
        tolerance=rng.choice([1e-6, 1e-3, 0.1, 1.0]),
    )
    return planted, chosen


def selected(planted: Planted, chosen: SelectionSettings) -> Selection:
    return select(dummies(len(planted.table)), DOMAIN, settings=chosen, measure=planted)


def removals(selection: Selection) -> list[list[int]]:
    return [[int(removal.name[1:]) for removal in iteration.removed] for iteration in selection.iterations]


def check_against_alg_2(planted: Planted, chosen: SelectionSettings) -> None:
    """Lazily and exactly the same models go, and they are those of Alg. 2."""
    expected = [sorted(gone) for gone in naive_removals(planted.values(chosen.tolerance), chosen)]
    lazy, exact = selected(planted, chosen), selected(planted, replace(chosen, exact=True))
    assert removals(lazy) == removals(exact) == expected
    assert lazy.survivors == exact.survivors
    assert lazy.recommended == exact.recommended
    assert lazy.stop.reason == exact.stop.reason
    assert (lazy.guarantee.upper, lazy.guarantee.lower) == (exact.guarantee.upper, exact.guarantee.lower)
    if lazy.certified:  # then the true thresholds say the same, however coarse the tolerance
        assert expected == [sorted(gone) for gone in naive_removals(planted.table, chosen)]
