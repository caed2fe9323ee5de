"""The data of the figures. Enters: a `Selection`, and rewards where a figure is about them. Leaves: plain numbers;
`drawing` and the page's script draw them.

    ratio     how many good and bad models are left after each iteration (the paper's figures of remaining models)
    rewards   the least, the median and the largest reward of those left (the paper's reward statistics)
    scores    every model's disagreement score in each iteration, as an interval
    heatmap   the table of disagreements in an order
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError
from karenina.report.ordering import orders
from karenina.report.rewards import Rewards
from karenina.selection import Selection

__all__ = [
    "HeatMap",
    "Left",
    "RewardsLeft",
    "Score",
    "heatmap_data",
    "ratio_data",
    "remaining",
    "rewards_data",
    "scores_data",
]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Left:
    """The models left after an iteration; iteration 0 is the whole population."""

    iteration: int
    good: int
    bad: int
    unknown: int  # no verdict on them

    @property
    def ratio(self) -> float:
        """The share of good ones among those with a verdict."""
        return self.good / (self.good + self.bad) if self.good + self.bad else float("nan")


@dataclass(frozen=True)
class RewardsLeft:
    """The rewards of the models left after an iteration."""

    iteration: int
    least: float
    median: float
    largest: float


@dataclass(frozen=True)
class Score:
    """A model's score in an iteration; the last `iteration` is that of the survivors among themselves."""

    iteration: int
    name: str
    lower: float
    upper: float
    removed: bool


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Intervals of all pairs, rows and columns in the order of the names."""

    names: tuple[str, ...]
    lower: Array  # (models, models)
    upper: Array  # (models, models); infinite where nothing is known


def remaining(selection: Selection) -> list[tuple[str, ...]]:
    """The models before the first iteration, and after each."""
    return [selection.names, *(step.survived for step in selection.iterations)]


def ratio_data(selection: Selection, rewards: Rewards) -> list[Left]:
    """Good and bad models left, iteration by iteration."""
    if not rewards.good:
        raise InputError("nothing says which rewards are good: add a column good to the table, or give --good-above")
    return [_left(number, names, rewards) for number, names in enumerate(remaining(selection))]


def _left(iteration: int, names: Sequence[str], rewards: Rewards) -> Left:
    verdicts = [rewards.good.get(name) for name in names]
    return Left(iteration, verdicts.count(True), verdicts.count(False), verdicts.count(None))


def rewards_data(selection: Selection, rewards: Rewards) -> list[RewardsLeft]:
    """Rewards of the models left, iteration by iteration; those without a reward do not count."""
    found = []
    for number, names in enumerate(remaining(selection)):
        earned = [rewards.earned[name] for name in names if name in rewards.earned]
        if earned:
            found.append(RewardsLeft(number, min(earned), median(earned), max(earned)))
    return found


def scores_data(selection: Selection) -> list[Score]:
    """All scores, iteration by iteration, in the order of the models."""
    found = []
    for step in selection.iterations:
        gone = {removal.name for removal in step.removed}
        found += [Score(step.number, name, *score, name in gone) for name, score in step.scores.items()]
    last = len(selection.iterations) + 1
    return found + [Score(last, name, *score, False) for name, score in selection.scores.items()]


def heatmap_data(selection: Selection, order: str = "removal") -> HeatMap:
    """The table, by removal, by clustering or as given."""
    places = orders(selection)[order]
    square = np.ix_(places, places)
    names = tuple(selection.names[k] for k in places)
    return HeatMap(names, selection.table.lower[square], selection.table.upper[square])
