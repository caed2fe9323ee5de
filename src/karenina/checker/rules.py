"""Alg. 2 on numbers: one iteration. Enters: the settings that a certificate states. Leaves: what follows from scores.

Scores are sums, not means: the limits are multiplied instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from karenina.checker.scores import Scores
from karenina.checker.selection_form import BELOW, SIMILAR

__all__ = ["Rules", "sizes"]


class Rules:
    """The settings of a selection, exactly."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.criterion: str = settings["criterion"]
        self.percent = Fraction(str(settings["percent"]))  # as written: 0.1, not the float64 nearest to it
        self.iterations: float = math.inf if settings["iterations"] is None else settings["iterations"]
        stated = {BELOW: settings["stop_below"], SIMILAR: settings["similar"]}
        self.ends = {because: Fraction(limit) for because, limit in stated.items() if limit is not None}

    def limits(self, models: int) -> dict[str, Fraction]:
        """The reasons to end: each when its size is no larger."""
        return {because: limit * (models - 1) for because, limit in self.ends.items()}

    def count(self, models: int) -> int:
        """How many go by percentile: rounded down, but one at least, and two must stay."""
        return min(max(1, math.floor(self.percent * models / 100)), models - 2)

    def removed(self, score: Scores) -> set[int]:
        """Who goes; nobody at the end. Of equal scores the later model goes first, of equal gaps the higher counts."""
        order = sorted(score, key=lambda model: (score[model], model), reverse=True)
        if any(sizes(score)[because] <= limit for because, limit in self.limits(len(order)).items()):
            return set()
        gaps = [score[a] - score[b] for a, b in pairwise(order[:-1])]  # below place 1, 2, ...; two must stay
        counts = {"percentile": self.count(len(order)), "max": gaps.index(max(gaps)) + 1}
        return set(order[: counts.get(self.criterion, max(counts.values()))])


def sizes(score: Scores) -> dict[str, Fraction]:
    """What the limits are for: the largest score, and how far two are apart."""
    largest = max(score.values())
    return {BELOW: largest, SIMILAR: largest - min(score.values())}
