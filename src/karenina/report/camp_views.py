"""What the camps say where they differ. Enters: a `FinishedRun`. Leaves: for every two camps one witness, chosen among
those of the pairs between them as the one on which the camps as wholes are farthest apart, with what every
member answers there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from karenina.report.finished import FinishedRun

__all__ = ["CampView", "camp_views"]

Array = npt.NDArray[np.float64]
MOST_WITNESSES = 64  # tried for two camps
MOST_VIEWS = 3


@dataclass(frozen=True, eq=False)
class CampView:
    """Two camps on one input."""

    camps: tuple[int, int]
    pair: tuple[str, str]  # whose witness it is, one of either camp
    witness: Array  # (inputs,)
    answers: tuple[Array, Array]  # (members, outputs) of either camp


def camp_views(run: FinishedRun) -> list[CampView]:
    """The clearest first; none where there are no camps, or the networks are not at hand."""
    camps = run.selection.camps.camps
    views = []
    for first, second in itertools.combinations(range(len(camps)), 2):
        if all(name in run.networks for k in (first, second) for name in camps[k].members):
            view = _clearest(run, first, second)
            views += [view] if view is not None else []
    return sorted(views, key=_gap, reverse=True)[:MOST_VIEWS]


def _clearest(run: FinishedRun, first: int, second: int) -> CampView | None:
    camps, table = run.selection.camps.camps, run.selection.table
    pairs = itertools.product(camps[first].members, camps[second].members)
    found = [(pair, table.disagreement(*pair)) for pair in pairs]
    seen = sorted(((p, d.lower, d.witness) for p, d in found if d.witness is not None), key=lambda item: -item[1])
    views = [
        CampView(
            (first, second),
            pair,
            witness,
            (_answers(run, camps[first].members, witness), _answers(run, camps[second].members, witness)),
        )
        for pair, _, witness in seen[:MOST_WITNESSES]
    ]
    return max(views, key=_gap, default=None)


def _answers(run: FinishedRun, members: Sequence[str], witness: Array) -> Array:
    return np.array([run.networks[name](witness) for name in members])


def _gap(view: CampView) -> float:
    """How far apart the camps' means are."""
    return float(np.abs(view.answers[0].mean(axis=0) - view.answers[1].mean(axis=0)).sum())
