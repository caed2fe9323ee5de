"""Orders of the models in a table. Enters: a `Selection`. Leaves: permutations of the models' places, by name."""

from __future__ import annotations

from karenina.selection import Selection

__all__ = ["orders"]


def orders(selection: Selection) -> dict[str, list[int]]:
    """By removal (survivors first, those that went first last), by clustering, and as the models were given."""
    place = {name: k for k, name in enumerate(selection.names)}
    final = sorted(selection.survivors, key=lambda name: (name != selection.recommended, selection.scores[name]))
    removal = [place[name] for name in final]
    for step in reversed(selection.iterations):
        gone = sorted((removal.name for removal in step.removed), key=lambda name: step.scores[name])
        removal += [place[name] for name in gone]
    clustering = [place[name] for name in selection.camps.order]
    return {"removal": removal, "clustering": clustering, "given": list(range(len(place)))}
