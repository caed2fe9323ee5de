"""Figures as files, for papers. Enters: the data of `figures`. Leaves: PDF, PNG or SVG files; needs matplotlib.

Blue and vermilion are told apart by every kind of eye, and shapes say the same as colours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from karenina.errors import InputError, MissingExtra
from karenina.report.figures import (
    HeatMap,
    Left,
    RewardsLeft,
    Score,
    heatmap_data,
    ratio_data,
    rewards_data,
    scores_data,
)
from karenina.report.rewards import Rewards
from karenina.selection import Selection

__all__ = ["FORMATS", "KINDS", "draw", "draw_heatmap", "draw_ratio", "draw_rewards", "draw_scores"]

FORMATS = ("pdf", "png", "svg")
_GOOD, _BAD, _GREY = "#0b5c94", "#d55e00", "#8c8c8c"
_UNDATED: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
_MOST_LABELS = 48
_CALM_TO_LOUD = ["#f6f2e7", "#b4c8d8", "#7da6c8", "#4a7fb0", "#255a90", "#0a1f45"]  # as on the page


def draw(kind: str, selection: Selection, path: Path, rewards: Rewards | None = None, order: str = "removal") -> None:
    """Draw one of `KINDS` into a file whose ending is one of `FORMATS`; the same data give the same file."""
    if kind not in KINDS or path.suffix[1:] not in FORMATS:
        raise InputError(f"there is no figure {kind!r} as {path.suffix!r}: {', '.join(KINDS)} as {', '.join(FORMATS)}")
    if kind in ("ratio", "rewards") and rewards is None:
        raise InputError(f"the figure {kind!r} is about rewards: give them with --rewards")
    figure = KINDS[kind](selection, rewards, order)
    from matplotlib import rc_context

    try:
        with rc_context({"svg.hashsalt": "karenina"}):
            figure.savefig(path, metadata=_UNDATED[path.suffix[1:]])
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def _figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure that needs no display, and its axes."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise MissingExtra(str(missing.name), "plot") from missing
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    plane = figure.subplots()
    plane.spines[["top", "right"]].set_visible(False)
    return figure, plane


def draw_ratio(data: Sequence[Left]) -> Any:
    """Bars of good and bad models left after each iteration."""
    figure, plane = _figure(5.0, 3.0)
    places = [left.iteration for left in data]
    good, bad = [left.good for left in data], [left.bad for left in data]
    plane.bar(places, good, color=_GOOD, label="good")
    plane.bar(places, bad, bottom=good, color="white", edgecolor=_BAD, hatch="///", label="bad")
    for left in data:
        if left.good + left.bad:
            plane.annotate(
                f"{left.ratio:.0%}", (left.iteration, left.good + left.bad), ha="center", va="bottom", fontsize=8
            )
    plane.set_xticks(places)
    plane.set_xlabel("iterations done")
    plane.set_ylabel("models left (share of good ones)")
    plane.yaxis.get_major_locator().set_params(integer=True)
    plane.legend(frameon=False)
    return figure


def draw_rewards(data: Sequence[RewardsLeft], rewards: Rewards) -> Any:
    """Least, median and largest reward of the models left."""
    figure, plane = _figure(5.0, 3.0)
    places = [step.iteration for step in data]
    plane.fill_between(places, [s.least for s in data], [s.largest for s in data], color=_GOOD, alpha=0.12, linewidth=0)
    plane.plot(places, [s.largest for s in data], color=_GREY, marker="^", markersize=4, linewidth=1, label="largest")
    plane.plot(places, [s.median for s in data], color=_GOOD, marker="o", markersize=5, label="median")
    plane.plot(places, [s.least for s in data], color=_GREY, marker="v", markersize=4, linewidth=1, label="least")
    if rewards.threshold is not None:
        plane.axhline(
            rewards.threshold, color=_BAD, linestyle="--", linewidth=1, label=f"good above {rewards.threshold:g}"
        )
    plane.set_xticks(places)
    plane.set_xlabel("iterations done")
    plane.set_ylabel(rewards.setting)
    plane.legend(frameon=False, fontsize=8)
    return figure


def draw_scores(data: Sequence[Score]) -> Any:
    """Every model's score in each iteration, as an interval; crosses are removed."""
    figure, plane = _figure(5.5, 3.4)
    for removed, colour, marker, label in ((False, _GOOD, "o", "stays"), (True, _BAD, "x", "removed")):
        own = [score for score in data if score.removed is removed]
        middle = [(s.lower + s.upper) / 2 if np.isfinite(s.upper) else s.lower for s in own]
        spread = [[m - s.lower for m, s in zip(middle, own, strict=True)]] * 2
        places = [s.iteration for s in own]
        plane.errorbar(places, middle, yerr=spread, fmt=marker, color=colour, markersize=4, elinewidth=1, label=label)
    plane.set_xticks(sorted({score.iteration for score in data}))
    plane.set_xlabel("iteration")
    plane.set_ylabel("disagreement score")
    plane.legend(frameon=False)
    return figure


def draw_heatmap(data: HeatMap) -> Any:
    """The lower ends of all pairs' intervals."""
    size = min(10.0, 2.4 + 0.24 * len(data.names))
    figure, plane = _figure(size, size * 0.86)
    shown = np.where(np.eye(len(data.names), dtype=bool), np.nan, data.lower)
    from matplotlib.colors import LinearSegmentedColormap

    image = plane.imshow(shown, cmap=LinearSegmentedColormap.from_list("calm to loud", _CALM_TO_LOUD), vmin=0.0)
    figure.colorbar(image, ax=plane, label="disagree by at least", shrink=0.8)
    if len(data.names) <= _MOST_LABELS:
        names = [name.replace("$", r"\$") for name in data.names]  # or matplotlib would read it as mathematics
        plane.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
        plane.set_yticks(range(len(names)), names, fontsize=7)
    else:
        plane.set_xticks([])
        plane.set_yticks([])
    return figure


def _ratio(selection: Selection, rewards: Rewards | None, _order: str) -> Any:
    assert rewards is not None
    return draw_ratio(ratio_data(selection, rewards))


def _rewards(selection: Selection, rewards: Rewards | None, _order: str) -> Any:
    assert rewards is not None
    return draw_rewards(rewards_data(selection, rewards), rewards)


def _scores(selection: Selection, _rewards: Rewards | None, _order: str) -> Any:
    return draw_scores(scores_data(selection))


def _heatmap(selection: Selection, _rewards: Rewards | None, order: str) -> Any:
    return draw_heatmap(heatmap_data(selection, order))


KINDS: dict[str, Callable[[Selection, Rewards | None, str], Any]] = {
    "ratio": _ratio,
    "rewards": _rewards,
    "scores": _scores,
    "heatmap": _heatmap,
}
