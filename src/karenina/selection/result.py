"""The result of a selection. Enters: what `select` found. Leaves: text for a terminal, HTML for a notebook, a
dictionary for JSON, frames for pandas.
"""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karenina.disagreement import DisagreementTable
from karenina.selection.camps import Camps, find_camps
from karenina.selection.settings import SelectionSettings
from karenina.selection.wording import at_most

if TYPE_CHECKING:
    import pandas

__all__ = ["Certainty", "Guarantee", "Iteration", "Removal", "Selection", "Stop"]

Interval = tuple[float, float]


class Certainty(enum.Enum):
    """How sure a decision is. `str(certainty)` reads as a sentence."""

    CERTIFIED = "certified"  # no value inside the pairs' intervals could change it
    TIE = "tie within tolerance"  # decided by the lower ends of intervals no wider than the tolerance
    UNDECIDED = "undecided within the time limit"  # decided by the lower ends of intervals that are wider
    UNVERIFIED = "undecided: the back end knows no better"  # the same, but not for lack of time

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Removal:
    """A model that was removed, and why, in words."""

    name: str
    reason: str


@dataclass(frozen=True)
class Iteration:
    """One iteration: the scores of the models in the race, who was removed, who survived."""

    number: int  # from 1
    scores: Mapping[str, Interval]  # in the order of the networks
    removed: tuple[Removal, ...]  # in the order of the networks
    survived: tuple[str, ...]
    certainty: Certainty
    numbers: Mapping[str, float] = field(default_factory=dict)  # of the criterion, such as the gap
    undecided_pairs: tuple[tuple[str, str], ...] = ()  # not known to the tolerance, and it matters
    note: str = ""  # how a tie was decided

    @property
    def certified(self) -> bool:
        """Whether no value inside the pairs' intervals could change who was removed."""
        return self.certainty is Certainty.CERTIFIED


@dataclass(frozen=True)
class Stop:
    """Why no more models were removed."""

    reason: str
    certainty: Certainty
    undecided_pairs: tuple[tuple[str, str], ...] = ()

    @property
    def certified(self) -> bool:
        return self.certainty is Certainty.CERTIFIED


@dataclass(frozen=True)
class Guarantee:
    """No two survivors disagree by more than `upper`, as the distance counts it, and some two do by `lower`."""

    lower: float
    upper: float
    pair: tuple[str, str]  # that differs by at least `lower`
    distance: str = "l1"
    undecided_pairs: tuple[tuple[str, str], ...] = ()  # not known to the tolerance: the true bound may be smaller

    def __str__(self) -> str:
        return _SENTENCES.get(self.distance, _EVERYWHERE).format(bound=at_most(self.upper), distance=self.distance)


# The c-distance and the class distance say nothing about some inputs, so neither may the sentence.
_EVERYWHERE = "on every input of the domain any two survivors differ by at most {bound} ({distance})"
_SENTENCES = {
    "c-distance": "any two survivors have a c-distance of at most {bound}: on each box of the domain there is a "
    "condition such that they differ by no more (l1) wherever both satisfy it",
    "class": "on every input of the domain on which two survivors choose different classes, their margins for "
    "their own choices add up to at most {bound}",
}


@dataclass(frozen=True, eq=False)
class Selection:
    """The survivors of a population, with the evidence."""

    names: tuple[str, ...]
    survivors: tuple[str, ...]  # in the order of the networks
    recommended: str  # the survivor with the lowest score among the survivors
    recommendation: Certainty
    guarantee: Guarantee
    iterations: tuple[Iteration, ...]
    scores: Mapping[str, Interval]  # of the survivors among themselves
    stop: Stop
    table: DisagreementTable  # what is known of every pair that was measured
    distance: str
    settings: SelectionSettings
    measurements: int  # of pairs, those repeated to a smaller tolerance counted again
    exact_pairs: int  # pairs that were measured to the tolerance
    boxes: int
    seconds: float
    notes: tuple[str, ...] = ()  # the rules that ties and two survivors needed; what is odd about survivors' pairs

    @property
    def certified(self) -> bool:
        """Whether every removal, and the end, is certified."""
        return self.stop.certified and all(iteration.certified for iteration in self.iterations)

    @property
    def complete(self) -> bool:
        """Whether nothing was left open for lack of time or by the back end: no decision, and not the guarantee."""
        decisions = {self.stop.certainty, self.recommendation, *(step.certainty for step in self.iterations)}
        return not decisions & {Certainty.UNDECIDED, Certainty.UNVERIFIED} and not self.guarantee.undecided_pairs

    @property
    def removed(self) -> tuple[str, ...]:
        """All models that were removed, iteration by iteration."""
        return tuple(removal.name for iteration in self.iterations for removal in iteration.removed)

    @functools.cached_property
    def camps(self) -> Camps:
        """Groups of models that agree among themselves and not with each other; see `karenina.selection.camps`."""
        return find_camps(self.table, self.survivors)

    def to_dict(self) -> dict[str, object]:
        """Everything, in values that JSON has; infinities are the strings "Infinity" and "-Infinity"."""
        from karenina.selection.presentation import as_dictionary

        return as_dictionary(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def scores_frame(self) -> pandas.DataFrame:
        """One row for each model of each iteration; needs pandas."""
        from karenina.selection.presentation import scores_frame

        return scores_frame(self)

    def pairs_frame(self) -> pandas.DataFrame:
        """One row for each pair that was measured; needs pandas."""
        return self.table.to_frame()

    def __str__(self) -> str:
        from karenina.selection.presentation import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from karenina.selection.presentation import as_html

        return as_html(self)
