"""Alg. 2 of the paper on tables of whole numbers, for very many populations at once.

Enters: a table of disagreements in whole units, and many sets of its models. Leaves: for every set who survives and
who is recommended. `karenina.select` does one set at a time, with evidence; it decides the same (a test compares).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.experiments.populations import Flags
from karenina.experiments.tables import UNIT, Integers

__all__ = ["CRITERIA", "Outcome", "Rule", "Sets", "rules", "run"]

Sets = npt.NDArray[np.intp]  # (sets, models of a set): places in the table, ascending
CRITERIA = ("percentile", "max", "combined")
_LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Rule:
    """A criterion with its end: so many iterations at most, and none once no score exceeds `stop_below`."""

    criterion: str
    iterations: int | None = 7  # the paper's run on Cartpole: 16 models become 3 by percentile
    stop_below: float | None = None
    percent: int = 25


def rules(floor: float | None) -> dict[str, Rule]:
    """The paper's three criteria, as it ran them: the largest gap ends early when no score exceeds the floor."""
    return {name: Rule(name, stop_below=None if name == "percentile" else floor) for name in CRITERIA}


@dataclass(frozen=True, eq=False)
class Outcome:
    """Who survives, and the survivor of lowest score, set by set."""

    survives: Flags  # (sets, models of a set)
    recommended: Sets  # (sets,) place in the set

    def mean(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(sets,) the expected value of a survivor drawn at random; values: (sets, models of a set)."""
        found: npt.NDArray[np.float64] = (values * self.survives).sum(1) / self.survives.sum(1)
        return found


def run(table: Integers, sets: Sets, rule: Rule) -> Outcome:
    """Every set to its end."""
    value = table[sets[:, :, None], sets[:, None, :]]  # (sets, models, models)
    active = np.ones(sets.shape, dtype=bool)
    before = active.copy()  # the models of each set's last iteration
    going = np.arange(len(sets))
    done = 0
    while len(going) and (rule.iterations is None or done < rule.iterations):
        removed = _removed(value[going], active[going], rule)
        going, removed = going[removed.any(1)], removed[removed.any(1)]
        before[going] = active[going]
        active[going] &= ~removed
        done += 1
    return Outcome(active, _recommended(value, active, before))


def _scores(value: Integers, active: Flags) -> Integers:
    """(sets, models) sums over the other active models; models that are gone have the lowest number there is."""
    scores = (value * active[:, None, :]).sum(2)
    return np.where(active, scores, _LOWEST)


def _order(scores: Integers) -> Sets:
    """The highest first; among equal scores the one later in the list first."""
    last = scores.shape[1] - 1
    found: Sets = last - np.argsort(-scores[:, ::-1], axis=1, kind="stable")
    return found


def _removed(value: Integers, active: Flags, rule: Rule) -> Flags:
    """(sets, models) who goes in this iteration; nobody where the set is at its end."""
    left = active.sum(1)  # (sets,)
    scores = _scores(value, active)
    order = _order(np.where(active, scores, -1))
    ordered = np.take_along_axis(scores, order, 1)
    lowest = np.take_along_axis(ordered, left[:, None] - 1, 1)[:, 0]
    ends = (left <= 2) | (ordered[:, 0] == lowest)
    if rule.stop_below is not None:
        ends |= ordered[:, 0] <= np.round(rule.stop_below / UNIT) * (left - 1)
    count = np.where(ends, 0, _count(ordered, left, rule))
    gone = np.zeros(active.shape, dtype=bool)
    np.put_along_axis(gone, order, np.arange(active.shape[1])[None, :] < count[:, None], 1)
    return gone


def _count(ordered: Integers, left: Integers, rule: Rule) -> Integers:
    """(sets,) how many of the highest go."""
    share = np.minimum(np.maximum(1, rule.percent * left // 100), left - 2)
    if rule.criterion == "percentile":
        return np.asarray(share)
    places = np.arange(1, ordered.shape[1])[None, :]
    allowed = places <= left[:, None] - 2  # two must stay
    gaps = np.where(allowed, ordered[:, :-1] - np.where(allowed, ordered[:, 1:], 0), -1)
    above = gaps.argmax(1) + 1  # of equal gaps the highest, which removes fewest
    return np.asarray(above if rule.criterion == "max" else np.maximum(above, share))


def _recommended(value: Integers, active: Flags, before: Flags) -> Sets:
    """The lowest score among the survivors; two score alike, so those of the iteration before count for them too."""
    counted = np.where((active.sum(1) == 2)[:, None], before, active)
    scores = np.where(active, _scores(value, counted), np.iinfo(np.int64).max)
    found: Sets = scores.argmin(1)
    return found
