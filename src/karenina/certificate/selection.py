"""What a certificate claims of a selection. Enters: a `Selection`. Leaves: plain data that JSON has, for the checker.

The form is that of `karenina.checker.selection_form`. Scores are claimed a little wider than they were found, since the
bounds that a certificate proves may be wider than those of the run by the rounding of their proof. Decisions are
claimed as they were taken: one whose margin is smaller than that rounding will be refused as not certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from karenina.selection import Certainty, Iteration, Selection

__all__ = ["SLACK", "selection_claims"]

SLACK = 1e-6  # of the largest disagreement, or of the tolerance if that is larger


def selection_claims(found: Selection, slack: float = SLACK) -> dict[str, object]:
    """The claims, all of which a checker can re-derive from the bounds of the pairs."""
    settings = found.settings
    return {
        "settings": {
            "criterion": settings.criterion,
            "percent": float(settings.percent),
            "iterations": None if settings.iterations is None else int(settings.iterations),
            "similar": float(settings.similar),
            "stop_below": None if settings.stop_below is None else float(settings.stop_below),
        },
        "iterations": [_iteration(found, iteration, slack) for iteration in found.iterations],
        "ending": {
            "because": _because(found),
            "scores": _scores(found, found.survivors, slack),
            "certified": found.stop.certified,
        },
        "survivors": list(found.survivors),
        "recommended": {"model": found.recommended, "certified": found.recommendation is Certainty.CERTIFIED},
    }


def _iteration(found: Selection, iteration: Iteration, slack: float) -> dict[str, object]:
    return {
        "removed": [removal.name for removal in iteration.removed],
        "scores": _scores(found, list(iteration.scores), slack),
        "certified": iteration.certified,
    }


def _because(found: Selection) -> str:
    """The reason to end, in the checker's words."""
    if len(found.survivors) == 2:
        return "two models are left"
    if len(found.iterations) == found.settings.iterations:
        return "all iterations are done"
    below = found.stop.reason.startswith("no score is larger")
    return "no score is above stop_below" if below else "no two scores differ by more than similar"


def _scores(found: Selection, members: Sequence[str], slack: float) -> dict[str, list[float | None]]:
    """Each member's mean over the other members, by all that is known at the end, a little wider."""
    lower, upper = found.table.lower, found.table.upper
    room = slack * max(found.settings.tolerance, float(upper[upper < math.inf].max()))
    places = {name: found.names.index(name) for name in members}
    scores: dict[str, list[float | None]] = {}
    for name, place in places.items():
        others = [other for other in places.values() if other != place]
        low, high = float(lower[place, others].mean()) - room, float(upper[place, others].mean()) + room
        scores[name] = [max(0.0, low), high if high < math.inf else None]
    return scores
