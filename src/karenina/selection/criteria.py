"""Decisions on scores: who is removed, whether to stop, whom to recommend; each with the comparisons it rests on.

Enters: a `Standing`. Leaves: a `Decision`, taken on the values of the pairs, with `Comparisons`: claims that one
model's score exceeds another's by more than some number. When every claim holds for all values inside the intervals,
so does the decision: it is certified.

When it is not, this is why two standings of the same models decide alike if each claim either holds for all values,
or rests on pairs whose values are final (equal in both standings). Call the standings s and t, and let the decision
and its claims be those of s.

- percentile: the claims are a > b for every a that goes and b that stays. One that holds for all values holds in t; one
  that rests on final values has the same two scores in s and t, and a goes before b in s. So in t, too, every a comes
  before every b.
- largest gap, after place i, of size g in s, with h between g and the largest rival gap in s. Claims across the gap
  say a - b > h. In t each holds or has the difference it has in s, at least g >= h. So in t the same models are above
  the gap and it is at least h. A rival gap after place j: any models P from place j on and Q up to place j + 1 (in
  the order of s) bound it in every standing, for the j-th highest score is at most the highest in P, and the next is
  at least the lowest in Q: some a in P and b in Q have a - b at least the gap. The claims b - a > -h for all these say
  that the gap is less than h; a claim with final values says a - b <= the gap in s <= h. So in t no rival exceeds
  the gap after i, and equal ones are told apart by place as in s.
- combined: more models go by the one or the other. When percentile removes more, the largest gap needs to win only
  against rivals that would remove more than percentile does.
- similar, stop below: the claims are all that bound the spread (or the scores), or the one difference (or score) that
  exceeds the number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from karenina.selection.known import Array, Flags, Places, Standing
from karenina.selection.settings import SelectionSettings

__all__ = ["Comparisons", "Decision", "decide", "recommend", "removal_count"]


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Claims that score[high] - score[low] > need. The place after the last model is the one that scores 0."""

    high: Places  # (claims,)
    low: Places  # (claims,)
    need: Array  # (claims,)

    @classmethod
    def of(cls, high: npt.ArrayLike, low: npt.ArrayLike, need: float) -> Comparisons:
        """Every combination of the two, with one need."""
        first, second = np.meshgrid(np.atleast_1d(high), np.atleast_1d(low), indexing="ij")
        return cls(first.ravel().astype(np.intp), second.ravel().astype(np.intp), np.full(first.size, need))

    @classmethod
    def where(cls, chosen: Flags, need: float) -> Comparisons:
        """Those of a matrix (high, low) of flags."""
        high, low = np.nonzero(chosen)
        return cls(high, low, np.full(len(high), need))

    def __add__(self, other: Comparisons) -> Comparisons:
        both = zip((self.high, self.low, self.need), (other.high, other.low, other.need), strict=True)
        return Comparisons(*(np.concatenate(parts) for parts in both))

    def __getitem__(self, chosen: Flags) -> Comparisons:
        return Comparisons(self.high[chosen], self.low[chosen], self.need[chosen])

    def __len__(self) -> int:
        return len(self.high)

    def certain(self, standing: Standing) -> Flags:
        """Which claims hold for all values inside the intervals."""
        rounding = standing.rounding(self.high, self.low) + 1e-15 * np.abs(self.need)
        return standing.least(self.high, self.low) > self.need + rounding

    def margin(self, standing: Standing) -> Array:
        """By how much each holds for the values."""
        return standing.score[self.high] - standing.score[self.low] - self.need


NONE = Comparisons.of([], [], 0.0)


@dataclass(frozen=True, eq=False)
class Decision:
    """Remove the first `count` of the order; 0 for stop. In words, with numbers, and with the claims it rests on."""

    count: int
    reason: str
    claims: Comparisons
    numbers: dict[str, float] = field(default_factory=dict)


def decide(standing: Standing, settings: SelectionSettings) -> Decision:
    """Stop, or remove models, as the values of the pairs say."""
    stops: list[Callable[[], tuple[str, Comparisons]]] = []
    if settings.stop_below is not None:
        bound = settings.stop_below
        stops.append(lambda: _all_below(standing, bound))
    stops.append(lambda: _all_similar(standing, settings.similar))
    claims = NONE
    for stop in stops:
        reason, more = stop()
        claims = claims + more
        if reason:
            return Decision(0, reason, claims)
    removal = _REMOVALS[settings.criterion](standing, settings)
    return Decision(removal.count, removal.reason, claims + removal.claims, removal.numbers)


def recommend(standing: Standing, among: Places) -> tuple[int, Comparisons]:
    """The model of lowest score among some (the one earlier in the list if equal), and the claims."""
    best = int(standing.order[np.isin(standing.order, among)][-1])
    others = among[among != best]
    return best, Comparisons.of(others, [best], 0.0)


def removal_count(models: int, percent: float) -> int:
    """How many models percentile removes: the percentage, rounded down, but one at least; and two must stay."""
    wanted = math.floor(Fraction(str(percent)) * models / 100)
    return min(max(1, wanted), models - 2)


def _all_below(standing: Standing, bound: float) -> tuple[str, Comparisons]:
    """Whether no score exceeds the bound: a reason to stop, or none, and the claims either way."""
    others, nobody = standing.models - 1, standing.models
    everyone = np.arange(standing.models)
    if _exact_score(standing, int(standing.order[0])) <= Fraction(bound) * others:
        return f"no score is larger than {bound:g}", Comparisons.of([nobody], everyone, -bound * others)
    candidates = Comparisons.of(everyone, [nobody], bound * others)
    return "", _clearest(candidates, standing)


def _all_similar(standing: Standing, similar: float) -> tuple[str, Comparisons]:
    """Whether all scores are within `similar` of each other: a reason to stop, or none, and the claims."""
    number, order = standing.models, standing.order
    limit = similar * (number - 1)
    different = ~np.eye(number, dtype=bool)
    spread = _exact_score(standing, int(order[0])) - _exact_score(standing, int(order[-1]))
    if spread <= Fraction(similar) * (number - 1):
        return f"no two scores differ by more than {similar:g}", Comparisons.where(different, -limit)
    return "", _clearest(Comparisons.where(different, limit), standing)


def _exact_score(standing: Standing, place: int) -> Fraction:
    """The sum of a model's values. Differences of sums that share a pair are often whole; rounding would hide it."""
    return sum(map(Fraction, standing.value[place].tolist()), Fraction(0))


def _clearest(candidates: Comparisons, standing: Standing) -> Comparisons:
    """The one claim that suffices: one that is certain, or else that of the largest margin."""
    certain = candidates.certain(standing)
    best = int(np.argmax(certain)) if certain.any() else int(np.argmax(candidates.margin(standing)))
    return candidates[np.arange(len(candidates)) == best]


def _percentile(standing: Standing, settings: SelectionSettings) -> Decision:
    count = removal_count(standing.models, settings.percent)
    order = standing.order
    reason = f"among the {count} highest of {standing.models} scores ({settings.percent:g} %)"
    return Decision(count, reason, Comparisons.of(order[:count], order[count:], 0.0))


def _largest_gap(standing: Standing, rival_from: int = 1) -> Decision:
    """Remove all above the largest gap that leaves two at least; its rivals are the gaps from `rival_from` on."""
    order, scale = standing.order, standing.models - 1
    score = standing.score[order]
    gaps = (score[:-1] - score[1:])[: standing.models - 2]  # after place 1, 2, ...
    place = _largest(standing, order, gaps)
    rivals = np.zeros(standing.models + 1, dtype=bool)  # by place
    rivals[rival_from : len(gaps) + 1] = True
    rivals[place] = False
    largest_rival = float(gaps[rivals[1 : len(gaps) + 1]].max(initial=0.0))
    bar = (float(gaps[place - 1]) + largest_rival) / 2 if rivals.any() else 0.0
    bounding = _bounding(standing.models, rivals)
    high, low = np.nonzero(bounding)
    above, below = order[:place], order[place:]
    bar = _certain_bar(standing, (above, below), (order[high], order[low]), bar)
    claims = Comparisons.of(above, below, bar) + Comparisons(order[high], order[low], np.full(len(high), -bar))
    numbers = {"gap": float(gaps[place - 1]) / scale, "next_gap": largest_rival / scale}
    return Decision(place, f"above the largest gap between scores ({numbers['gap']:.4g})", claims, numbers)


def _largest(standing: Standing, order: Places, gaps: Array) -> int:
    """The place after which the gap is largest: of equal ones the first, which removes fewest.

    Gaps that float64 cannot tell apart are often equal, since they share pairs; they are compared exactly.
    """
    rounding = float(standing.rounding(order[:1], order[-1:])[0])
    near = np.flatnonzero(gaps >= gaps.max() - rounding).tolist()
    if len(near) == 1:
        return near[0] + 1

    score = {at: _exact_score(standing, int(order[at])) for place in near for at in (place, place + 1)}
    return max(near, key=lambda place: score[place] - score[place + 1]) + 1  # the first of the largest


def _bounding(models: int, rivals: Flags) -> Flags:
    """(high, low) by place in the order: the claims high - low > -bar that keep every rival gap below the bar.

    The gap after place j is bounded by all low from place j on and all high up to place j + 1.
    """
    until = np.cumsum(rivals)  # (models + 1,) rivals up to a place
    place = np.arange(1, models + 1)
    first, last = place[:, None] - 1, place[None, :]  # the places j that high and low bound together
    before = np.where(first > 0, until[np.maximum(first - 1, 0)], 0)
    found: Flags = (until[last] - before > 0) & (last >= first)
    np.fill_diagonal(found, False)
    return found


def _certain_bar(standing: Standing, across: tuple[Places, Places], rivals: tuple[Places, Places], bar: float) -> float:
    """A bar that certifies the largest gap, if there is one; else the one given."""
    if not len(rivals[0]):
        return bar
    high, low = np.meshgrid(*across, indexing="ij")
    gap = float(standing.least(high.ravel(), low.ravel()).min())
    rival = float((-standing.least(*rivals)).max())
    return (gap + rival) / 2 if gap > rival >= 0 else bar


def _combined(standing: Standing, settings: SelectionSettings) -> Decision:
    percentile, gap = _percentile(standing, settings), _largest_gap(standing)
    if gap.count > percentile.count:
        return gap
    if percentile.count + 1 > standing.models - 2:  # no gap could remove more
        return percentile
    weaker = _largest_gap(standing, rival_from=percentile.count + 1)
    return Decision(percentile.count, percentile.reason, percentile.claims + weaker.claims, gap.numbers)


_REMOVALS: dict[str, Callable[[Standing, SelectionSettings], Decision]] = {
    "percentile": _percentile,
    "max": lambda standing, _: _largest_gap(standing),
    "combined": _combined,
}
