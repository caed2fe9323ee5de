"""What to measure next. Enters: a `Standing` and the claims of a decision that are open. Leaves: pairs with tolerances.

Values are lower ends, so what keeps a claim a > b open is mostly how far the upper ends of b's pairs lie above them.
b can afford as much of that as the values of a and b are apart: its widest pairs are cut down to one level, so chosen
that what is left fits. A pair that is narrow enough, or belongs to no open claim, is left alone.

A measurement goes on where the last one of its pair stopped only if it is still in memory, so a pair had better be
measured once to what it will be needed for at last. The values tell how the selection would go on from here; a pair
that is wanted now is wanted as narrow as any of those later decisions will need it.

The choice depends on what is known and on nothing else: not on who measures, nor on the order in which answers came.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from karenina.query import Goal
from karenina.selection.criteria import Comparisons
from karenina.selection.known import Array, Flags, Places, Standing

__all__ = ["COARSEST", "RUNGS", "foresighted", "ladder", "narrowing", "rung", "widths"]

COARSEST = 1e300  # a tolerance that the first bounds of any pair reach
RUNGS = tuple(2.0**-step for step in range(-6, 10))  # of the ladder, the widest first: relative to the lower end
SHARE = 0.9  # of what a model can afford, so that rounding and chance leave the claim certain
ENDLESS = 1e200  # stands for an infinite width in sums


def ladder(goal: Goal) -> dict[float, Goal]:
    """All goals a selection asks for by their relative tolerance, the coarsest (infinity) first, `goal` (0) last."""
    step = replace(goal, closing=goal.tolerance)
    steps = {rung: replace(step, relative_tolerance=rung) for rung in RUNGS}
    return {math.inf: replace(step, tolerance=COARSEST), **steps, 0.0: goal}


def rung(width: float, value: float, finest: float, asked: float) -> float:
    """The widest relative tolerance of the ladder that gives the width and is finer than what was asked; 0 for exact.

    The ladder depends on the pair alone and not on the population, so that answers can be used again when models are
    added.
    """
    return next((rung for rung in RUNGS if finest < rung * value <= width and rung < asked), 0.0)


def widths(standing: Standing, claims: Comparisons, finest: float) -> Array:
    """(models + 1, models + 1): how narrow each pair is wanted next, infinity where it is not.

    The claims are open. If nothing is wanted, no measurement can make any of them certain.
    """
    width = np.minimum(standing.upper - standing.value, ENDLESS)
    claims = claims[~_hopeless(standing, claims, width) & _improvable(standing, claims)]
    if not len(claims):
        return np.full(width.shape, np.inf)
    wanted = _affordable(standing, claims, width, finest)
    if np.isinf(wanted).all():  # what is left open is within rounding: all that it rests on must be final
        rows = np.union1d(claims.high, claims.low)
        wanted[rows] = np.where(standing.settled[rows], np.inf, 0.0)
    return np.minimum(wanted, wanted.T)


def foresighted(
    standing: Standing, wanted: Array, later: Iterable[tuple[Standing, Comparisons]], finest: float
) -> Array:
    """What is wanted, as narrow as the decisions that are likely to follow will want it."""
    for ahead, claims in later:
        open_ = claims[~claims.certain(ahead)]
        if len(open_):
            places = np.append(np.searchsorted(standing.members, ahead.members), standing.models)
            block = np.ix_(places, places)
            needed = np.minimum(wanted[block], widths(ahead, open_, finest))
            wanted[block] = np.where(np.isfinite(wanted[block]), needed, np.inf)
    return wanted


def narrowing(standing: Standing, finest: float) -> Array:
    """(models + 1, models + 1): what is wanted to know the largest disagreement as a table of exact pairs shows it.

    An exact upper end is at most the tolerance above the true value, so a pair whose upper end is that far below what
    another pair is known to reach cannot be the largest.
    """
    reached = max(float(standing.value.max()), float(np.where(standing.settled, standing.upper, 0.0).max()))
    candidate = ~standing.settled & (standing.upper + finest > reached)
    return np.where(candidate, np.maximum(reached - finest - standing.value, 0.0), np.inf)


def _hopeless(standing: Standing, claims: Comparisons, width: Array) -> Flags:
    """Claims that pairs which took too long keep open whatever else is measured."""
    stuck = np.where(standing.settled & ~standing.reached, width, 0.0)
    keeps = stuck.sum(1)[claims.low] - stuck[claims.high, claims.low]
    return np.asarray((keeps > 0) & (keeps >= claims.margin(standing)))


def _improvable(standing: Standing, claims: Comparisons) -> Flags:
    unsettled: Flags = np.any(~standing.settled, axis=1)
    return np.asarray(unsettled[claims.high] | unsettled[claims.low])


def _affordable(standing: Standing, claims: Comparisons, width: Array, finest: float) -> Array:
    high, low = claims.high, claims.low
    inflated = standing.value - standing.lower
    fixed = np.where(standing.settled, width, 0.0)
    budget = claims.margin(standing)
    budget = budget - (inflated.sum(1)[high] - inflated[high, low]) - (fixed.sum(1)[low] - fixed[high, low])
    wanted = np.full(width.shape, np.inf)
    for row in np.unique(low).tolist():
        own = low == row
        _cut_widest(standing, wanted, width, row, SHARE * float(budget[own].min()), _only(high[own]))
    # Where even exact pairs of the lower model would not do, those of the higher one must be final as well.
    unsettled = (~standing.settled).sum(1)
    short = np.unique(high[budget - finest * unsettled[low] <= 0])
    wanted[short] = np.where(standing.settled[short], wanted[short], 0.0)
    return wanted


def _only(places: Places) -> int | None:
    """The one place there is, if there is but one: its pair with the row cancels."""
    return int(places[0]) if len(places) == 1 else None


def _cut_widest(standing: Standing, wanted: Array, width: Array, row: int, budget: float, cancels: int | None) -> None:
    open_ = ~standing.settled[row]
    if cancels is not None:
        open_[cancels] = False
    level = _water_level(width[row, open_], budget)
    widest = open_ & (width[row] > level)
    wanted[row, widest] = np.minimum(wanted[row, widest], level)


def _water_level(width: Array, budget: float) -> float:
    """The level to which widths must be cut so that their sum is the budget; infinite if they fit as they are."""
    if not len(width) or width.sum() <= budget:
        return math.inf
    if budget <= 0:
        return 0.0
    ascending = np.sort(width)
    below = np.concatenate([[0.0], np.cumsum(ascending)[:-1]])  # of those before each
    count = np.arange(len(ascending), 0, -1)  # of each and those after
    first = int(np.argmax(below + count * ascending >= budget))
    return float((budget - below[first]) / count[first])
