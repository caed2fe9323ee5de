"""Camps: groups of models that agree among themselves and not with each other.

Enters: a table of disagreements and the survivors. Leaves: `Camps`: the groups, the pairs that show best how they
differ, and a warning where the survivors are one camp among rivals of similar size.

The rule. Models are clustered by average linkage on the lower ends of their pairs' intervals (differences that were
seen). Of all cuts of the tree with two groups or more of at least two models, the one with the largest mean
silhouette counts. A camp is a group of that cut whose own mean is at least 0.25: its members disagree with each other,
on average, clearly less than with any other group. All others are alone, and if fewer than two camps are left, or
the mean of the cut is below 0.25 too, the population has none. A rival is of similar size if it has at least half
as many members as the survivors' camp; a camp that is no majority of the population is a reason to warn, too.

Selection keeps those that agree, and a majority may agree and be wrong: only somebody who knows the domain, or a
simulator started from the witnesses, can say which camp is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.disagreement import DisagreementTable
from karenina.selection.clustering import Groups, average_linkage, silhouettes
from karenina.selection.wording import at_most

__all__ = ["RULE", "Camp", "Camps", "Divide", "find_camps"]

Array = npt.NDArray[np.float64]

CLEAR = 0.25  # the least mean silhouette of a cut, and of each camp in it
SIMILAR_SIZE = 0.5  # of the survivors' camp
MOST_GROUPS = 40  # cuts into more are not looked at
MOST_DIVIDES = 3
RULE = (
    "average linkage on the pairs' lower bounds; of all cuts with two or more groups of at least two models the one "
    f"with the largest mean silhouette; its groups whose own mean is at least {CLEAR:g}, as the whole cut's must be"
)

_ADVICE = "and which is right agreement cannot say: try the witnesses of the camps in a simulator"


@dataclass(frozen=True)
class Camp:
    """Models that agree among themselves better than with others."""

    members: tuple[str, ...]
    lower: float  # the largest disagreement seen inside
    upper: float  # no two members disagree more

    def __str__(self) -> str:
        return f"{', '.join(self.members)} (disagree by at most {at_most(self.upper, 4)})"


@dataclass(frozen=True)
class Divide:
    """Two models of different camps that are far apart, and an input that shows it."""

    camps: tuple[int, int]  # places in `Camps.camps`
    pair: tuple[str, str]
    lower: float
    upper: float
    witness: tuple[float, ...] | None
    outputs: tuple[tuple[float, ...], tuple[float, ...]] | None  # in the order of the pair


@dataclass(frozen=True)
class Camps:
    """The camps of a population, the largest first; none if it has no clear groups."""

    camps: tuple[Camp, ...]
    alone: tuple[str, ...]  # models in no camp; all of them where there are no camps
    silhouette: float  # the mean of the best cut, whether or not that is clear enough
    order: tuple[str, ...]  # of all models, by clustering: camps stand together
    survivors: int | None  # the place of the camp that all survivors belong to
    rivals: tuple[int, ...]  # other camps of similar size
    divides: tuple[Divide, ...]  # where camps differ most, the largest first

    @property
    def warning(self) -> str:
        """One sentence where others might as well be the right ones, else nothing."""
        if self.survivors is None:
            return ""
        own, models = len(self.camps[self.survivors].members), len(self.order)
        if self.rivals:
            sizes = " and ".join(str(len(self.camps[k].members)) for k in self.rivals)
            many = len(self.rivals) > 1
            others = f"others of {sizes} agree" if many else f"another of {sizes} agrees"
            return (
                f"the survivors come from one camp of {own} models; {others} just as well among themselves, {_ADVICE}"
            )
        if 2 * own <= models:
            return f"the survivors come from one camp of {own} models, no majority of the {models}, {_ADVICE}"
        return ""

    def to_dict(self) -> dict[str, object]:
        return {
            "rule": RULE,
            "silhouette": self.silhouette,
            "camps": [{"members": list(c.members), "lower": c.lower, "upper": c.upper} for c in self.camps],
            "alone": list(self.alone),
            "survivors_camp": self.survivors,
            "rivals": list(self.rivals),
            "warning": self.warning,
            "order": list(self.order),
            "divides": [_divide_dictionary(divide) for divide in self.divides],
        }


def find_camps(table: DisagreementTable, survivors: Sequence[str]) -> Camps:
    """The camps of the table's models, as the rule says."""
    lower, upper = table.lower, table.upper
    cuts = average_linkage(lower)
    groups, clearness = _clearest(lower, cuts)
    order = tuple(table.names[k] for k in cuts[-1][0])
    chosen = _clear_groups(lower, groups) if clearness >= CLEAR else []
    camps = tuple(_camp(table.names, group, lower, upper) for group in chosen)
    inside = {name for camp in camps for name in camp.members}
    alone = tuple(name for name in table.names if name not in inside)
    own = next((k for k, camp in enumerate(camps) if set(survivors) <= set(camp.members)), None)
    return Camps(camps, alone, clearness, order, own, _rivals(camps, own), _divides(table, chosen, lower))


def _clearest(lower: Array, cuts: Sequence[Groups]) -> tuple[Groups, float]:
    """The cut of largest mean silhouette among those with two camps at least, and that mean."""
    candidates = [cut for cut in cuts[-MOST_GROUPS:] if sum(len(group) > 1 for group in cut) > 1]
    means = [float(silhouettes(lower, cut).mean()) for cut in candidates]
    best = int(np.argmax(means)) if means else 0
    return (candidates[best], means[best]) if means else ((), 0.0)


def _clear_groups(lower: Array, groups: Groups) -> list[list[int]]:
    """The groups that are camps, the largest first; none if it is only one."""
    silhouette = silhouettes(lower, groups)
    clear = [sorted(g) for g in groups if len(g) > 1 and float(silhouette[list(g)].mean()) >= CLEAR]
    return sorted(clear, key=lambda group: (-len(group), group)) if len(clear) > 1 else []


def _camp(names: Sequence[str], group: Sequence[int], lower: Array, upper: Array) -> Camp:
    inside = np.ix_(group, group)
    return Camp(tuple(names[k] for k in group), float(lower[inside].max()), float(upper[inside].max()))


def _rivals(camps: Sequence[Camp], own: int | None) -> tuple[int, ...]:
    if own is None:
        return ()
    enough = SIMILAR_SIZE * len(camps[own].members)
    return tuple(k for k, camp in enumerate(camps) if k != own and len(camp.members) >= enough)


def _divides(table: DisagreementTable, groups: Sequence[Sequence[int]], lower: Array) -> tuple[Divide, ...]:
    """For every two camps the pair that was seen farthest apart; the largest of those."""
    found = []
    for first in range(len(groups)):
        for second in range(first + 1, len(groups)):
            across = lower[np.ix_(groups[first], groups[second])]
            i, j = np.unravel_index(int(np.argmax(across)), across.shape)
            found.append(_divide(table, (first, second), groups[first][int(i)], groups[second][int(j)]))
    return tuple(sorted(found, key=lambda divide: -divide.lower)[:MOST_DIVIDES])


def _divide(table: DisagreementTable, camps: tuple[int, int], first: int, second: int) -> Divide:
    known = table.disagreement(first, second)
    witness = None if known.witness is None else tuple(known.witness.tolist())
    outputs = None if known.outputs is None else (tuple(known.outputs[0].tolist()), tuple(known.outputs[1].tolist()))
    return Divide(camps, (table.names[first], table.names[second]), known.lower, known.upper, witness, outputs)


def _divide_dictionary(divide: Divide) -> dict[str, object]:
    return {
        "camps": list(divide.camps),
        "a": divide.pair[0],
        "b": divide.pair[1],
        "lower": divide.lower,
        "upper": divide.upper,
        "witness": None if divide.witness is None else list(divide.witness),
        "outputs": None if divide.outputs is None else [list(output) for output in divide.outputs],
    }
