"""The choices a selection has. Enters: numbers and the name of a criterion. Leaves: `SelectionSettings`, checked."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import TypedDict

from karenina.errors import InputError
from karenina.query import Goal

__all__ = ["CRITERIA", "SelectionOptions", "SelectionSettings"]

CRITERIA = ("percentile", "max", "combined")


class SelectionOptions(TypedDict, total=False):
    """The settings as keywords; see `SelectionSettings`."""

    criterion: str
    percent: float
    iterations: int | None
    similar: float
    stop_below: float | None
    tolerance: float
    time_limit: float
    exact: bool


@dataclass(frozen=True)
class SelectionSettings:
    """How models are removed, when it ends, and how exactly pairs are known."""

    criterion: str = "percentile"  # percentile, max (above the largest gap) or combined (whichever removes more)
    percent: float = 25.0  # of the models left, removed in an iteration by percentile: max(1, floor(percent * n))
    iterations: int | None = None  # None: until a stop rule applies
    similar: float = 0.0  # stop when the largest and the smallest score differ by no more
    stop_below: float | None = None  # stop when no score is larger
    tolerance: float = 1e-3  # of a pair's interval, where it is to be exact
    time_limit: float = math.inf  # seconds a measurement of a pair; a pair that exceeds it is not measured again
    exact: bool = False  # measure all pairs to the tolerance before anything is decided

    def __post_init__(self) -> None:
        if self.criterion not in CRITERIA:
            raise InputError(f"unknown criterion {self.criterion!r}; known: {', '.join(CRITERIA)}")
        if not 0 < self.percent < 100:
            raise InputError(f"percent must be a number between 0 and 100, not {self.percent}")
        if self.iterations is not None and not (isinstance(self.iterations, Integral) and self.iterations >= 0):
            raise InputError(f"iterations must be a whole number >= 0, not {self.iterations}")
        if not 0 < self.tolerance < math.inf:
            raise InputError(f"tolerance must be a finite number > 0, not {self.tolerance}")
        if not 0 <= self.similar < math.inf:
            raise InputError(f"similar must be a finite number >= 0, not {self.similar}")
        if self.stop_below is not None and not 0 <= self.stop_below < math.inf:
            raise InputError(f"stop_below must be a finite number >= 0, not {self.stop_below}")
        if not self.time_limit > 0:
            raise InputError(f"time_limit must be a number of seconds > 0, not {self.time_limit}")

    @property
    def goal(self) -> Goal:
        """What a pair is measured to where it is to be exact."""
        return Goal(self.tolerance, time_limit=self.time_limit)

    def to_dict(self) -> dict[str, object]:
        return asdict(self)
