"""The data behind the page. Enters: a `FinishedRun` and rewards. Leaves: a dictionary for JSON that `page/*.js` read.

Models are places in `names`. Bounds are rounded outwards to float32: what the page shows is true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from karenina.query import Status
from karenina.report.details import details, pack
from karenina.report.figures import ratio_data, rewards_data
from karenina.report.finished import FinishedRun
from karenina.report.ordering import orders
from karenina.report.rewards import Rewards
from karenina.selection import Iteration, Selection

__all__ = ["page_data"]

Array = npt.NDArray[np.float64]
_STATUS = list(Status)


def page_data(run: FinishedRun, rewards: Rewards | None = None) -> dict[str, object]:
    """All that the page draws."""
    selection = run.selection
    place = {name: k for k, name in enumerate(selection.names)}
    return {
        "names": list(selection.names),
        "recommended": place[selection.recommended],
        "fates": _fates(selection),
        "distance": selection.distance,
        "tolerance": selection.settings.tolerance,
        "iterations": [_iteration(step, place) for step in selection.iterations] + [_last(selection, place)],
        "table": _table(selection),
        "orders": orders(selection),
        "camps": [[place[name] for name in camp.members] for camp in selection.camps.camps],
        "inputs": list(run.domain.labels),
        "boxes": [[_short(box.lower), _short(box.upper)] for box in run.domain.boxes],
        "details": _details(run),
        "rewards": None if rewards is None else _rewards(selection, rewards),
    }


def _fates(selection: Selection) -> list[int]:
    """For every model the iteration it was removed in; 0 for survivors."""
    gone = {removal.name: step.number for step in selection.iterations for removal in step.removed}
    return [gone.get(name, 0) for name in selection.names]


def _iteration(step: Iteration, place: Mapping[str, int]) -> dict[str, object]:
    return {
        "title": f"Iteration {step.number}",
        "models": [place[name] for name in step.scores],
        "scores": [[_finite(low), _finite(high)] for low, high in step.scores.values()],
        "removed": [place[removal.name] for removal in step.removed],
        "reason": "; ".join(dict.fromkeys(removal.reason for removal in step.removed)),
        "decided": str(step.certainty),
        "certified": step.certified,
    }


def _last(selection: Selection, place: Mapping[str, int]) -> dict[str, object]:
    return {
        "title": "The survivors",
        "models": [place[name] for name in selection.scores],
        "scores": [[_finite(low), _finite(high)] for low, high in selection.scores.values()],
        "removed": [],
        "reason": selection.stop.reason,
        "decided": str(selection.stop.certainty),
        "certified": selection.stop.certified,
    }


def _table(selection: Selection) -> dict[str, object]:
    """Bounds and states of the pairs i < j, row by row; infinite and 255 where nothing is known."""
    number = len(selection.names)
    rows = np.triu_indices(number, 1)
    status = np.full((number, number), 255)
    notes = {}
    for (i, j), found in selection.table.pairs.items():
        status[i, j] = _STATUS.index(found.status)
        if found.note:
            notes[f"{i},{j}"] = found.note
    return {
        "lower": pack(_outwards(selection.table.lower[rows], -math.inf), "f4"),
        "upper": pack(_outwards(selection.table.upper[rows], math.inf), "f4"),
        "status": pack(status[rows], "u1"),
        "words": [str(word) for word in _STATUS],
        "exact": str(Status.EXACT),
        "notes": notes,
    }


def _outwards(values: Array, towards: float) -> npt.NDArray[np.float32]:
    """In float32, rounded towards the infinity given; a bound beyond float32 is infinite."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    beyond = near.astype(np.float64) > values if towards < 0 else near.astype(np.float64) < values
    return np.where(beyond, np.nextafter(near, np.float32(towards)), near)


def _details(run: FinishedRun) -> dict[str, object]:
    found = details(run)
    return {
        "pairs": pack(np.array(found.pairs).reshape(-1, 2), "u2"),
        "boxes": pack(found.boxes, "u2"),
        "witnesses": pack(found.witnesses, "f4"),
        "outputs": pack(found.outputs, "f4"),
        "size": found.outputs.shape[2],
        "views": found.views,
    }


def _rewards(selection: Selection, rewards: Rewards) -> dict[str, object]:
    first = selection.iterations[0].scores if selection.iterations else selection.scores
    return {
        "setting": rewards.setting,
        "threshold": rewards.threshold,
        "earned": [rewards.earned.get(name) for name in selection.names],
        "good": [rewards.good.get(name) for name in selection.names],
        "scores": [[_finite(low), _finite(high)] for low, high in (first[name] for name in selection.names)],
        "left": [[left.good, left.bad, left.unknown] for left in ratio_data(selection, rewards)]
        if rewards.good
        else [],
        "statistics": [[s.iteration, s.least, s.median, s.largest] for s in rewards_data(selection, rewards)],
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity; null is beyond all bounds."""
    return float(value) if math.isfinite(value) else None


def _short(values: Array) -> list[float]:
    return [float(f"{value:.7g}") for value in values]
