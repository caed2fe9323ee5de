"""The form in which a certificate claims a selection. Enters: the models' names. Leaves: a form for `check_form`.

A score is claimed as [lower, upper], where an upper end that is null says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from karenina.checker.form import Leaf, is_number

__all__ = ["BELOW", "CRITERIA", "DONE", "ENDINGS", "SIMILAR", "TWO", "selection_form"]

CRITERIA = ("percentile", "max", "combined")
ENDINGS = BELOW, SIMILAR, TWO, DONE = (
    "no score is above stop_below",
    "no two scores differ by more than similar",
    "two models are left",
    "all iterations are done",
)


def selection_form(names: Sequence[str]) -> dict[str, Any]:
    """All that is claimed of a selection among models of these names."""

    def are_models(value: Any) -> bool:
        known = isinstance(value, list) and all(isinstance(name, str) and name in names for name in value)
        return known and len(set(value)) == len(value)

    def are_scores(value: Any) -> bool:
        return isinstance(value, Mapping) and are_models(list(value)) and all(map(_is_interval, value.values()))

    models, scores = Leaf("a list of distinct models", are_models), Leaf("an interval for each model", are_scores)
    certified = Leaf("true or false", lambda value: isinstance(value, bool))
    return {
        "settings": {
            "criterion": Leaf("a known criterion", lambda value: value in CRITERIA),
            "percent": Leaf("a number between 0 and 100", lambda value: is_number(value) and 0 < value < 100),
            "iterations": Leaf(
                "null or a count", lambda value: _is_null_or_number(value) and not isinstance(value, float)
            ),
            "similar": Leaf("a number >= 0", is_number),
            "stop_below": Leaf("null or a number >= 0", _is_null_or_number),
        },
        "iterations": [{"removed": models, "scores": scores, "certified": certified}],
        "ending": {
            "because": Leaf("a known reason", lambda value: value in ENDINGS),
            "scores": scores,
            "certified": certified,
        },
        "survivors": models,
        "recommended": {"model": Leaf("a model", lambda value: are_models([value])), "certified": certified},
    }


def _is_null_or_number(value: Any) -> bool:
    return value is None or is_number(value)


def _is_interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and is_number(value[0]) and _is_null_or_number(value[1])
