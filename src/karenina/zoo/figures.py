"""Draws the pictures of the zoo's pages: how the shipped policies learnt, and what they earn.

Enters: shipped populations, of which only the manifests are read. Leaves: two PNG files a benchmark in a folder.

    python -m karenina.zoo.figures docs/zoo
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from karenina.errors import KareninaError, MissingExtra
from karenina.zoo.population import Population, load, shipped

__all__ = ["Curve", "Earned", "curves_data", "draw", "draw_curves", "draw_rewards", "main", "rewards_data"]

_NAMED, _REST, _GOOD, _BAD = "#1f4e8c", "#b9c4d0", "#1f4e8c", "#d1682b"


@dataclass(frozen=True)
class Curve:
    """The average reward of an episode as a policy was trained."""

    name: str
    steps: tuple[float, ...]
    rewards: tuple[float, ...]
    named: bool  # one of the 16


@dataclass(frozen=True)
class Earned:
    """Mean rewards of a policy."""

    name: str
    inside: float  # in-distribution
    outside: float
    good: bool  # outside
    named: bool


def curves_data(population: Population) -> list[Curve]:
    """The learning curves of all policies; those of the named set last, so that they are drawn on top."""
    chosen = set(population.provenance["chosen"])
    found = [
        Curve(name, tuple(own["curve"]["steps"]), tuple(own["curve"]["reward"]), name in chosen)
        for name, own in population.provenance["policies"].items()
    ]
    return sorted(found, key=lambda curve: curve.named)


def rewards_data(population: Population) -> list[Earned]:
    """What every policy earns, in the population's order: the named set first."""
    chosen = set(population.provenance["chosen"])
    return [
        Earned(name, own["in-distribution"]["mean"], own["ood"]["mean"], own["ood"]["good"], name in chosen)
        for name, own in population.rewards.items()
    ]


def _canvas(width: float, height: float, panels: Sequence[float]) -> tuple[Any, Any]:
    """A figure that needs no display, and its axes beside each other."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise MissingExtra(str(missing.name), "zoo") from missing
    figure = Figure(figsize=(width, height), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False, width_ratios=list(panels))[0]
    for plane in axes:
        plane.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    """With a small palette, since the pictures lie in the repository: a third of the size, and they look the same."""
    from PIL import Image

    figure.canvas.draw()
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    picture.quantize(32, dither=Image.Dither.NONE).save(path, optimize=True)


def draw_curves(curves: Sequence[Curve], path: Path) -> None:
    """A line for every policy."""
    figure, (plane,) = _canvas(6.4, 3.2, [1])
    for curve in curves:
        colour, width = (_NAMED, 0.9) if curve.named else (_REST, 0.5)
        plane.plot([step / 1e6 for step in curve.steps], curve.rewards, color=colour, linewidth=width)
    plane.set_xlabel("steps of training, millions")
    plane.set_ylabel("reward of an episode, average")
    named = sum(curve.named for curve in curves)
    plane.set_title(f"blue: the {named} of the named set; grey: the {len(curves) - named} others", fontsize=9)
    _save(figure, path)


def draw_rewards(earned: Sequence[Earned], threshold: float, path: Path) -> None:
    """The named set policy by policy, and beside it how all policies spread out of distribution."""
    figure, (plane, beside) = _canvas(9.0, 3.4, [3, 2])
    named = [own for own in earned if own.named]
    _draw_named(plane, named, threshold)
    beside.scatter(
        [own.inside for own in earned],
        [own.outside for own in earned],
        s=[22 if own.named else 12 for own in earned],
        c=[_GOOD if own.good else _BAD for own in earned],
        alpha=0.7,
        linewidths=0,
    )
    beside.axhline(threshold, color="grey", linewidth=0.8, linestyle="--")
    beside.set_xlabel("in-distribution")
    beside.set_ylabel("out-of-distribution")
    good = sum(own.good for own in earned)
    beside.set_title(f"all {len(earned)}: {good} good out-of-distribution", fontsize=9)
    _save(figure, path)


def _draw_named(plane: Any, named: Sequence[Earned], threshold: float) -> None:
    places = range(len(named))
    colours = [_GOOD if own.good else _BAD for own in named]
    plane.bar(places, [own.outside for own in named], color=colours, width=0.6, label="out-of-distribution")
    plane.scatter(places, [own.inside for own in named], marker="_", s=90, color="black", label="in-distribution")
    plane.axhline(threshold, color="grey", linewidth=0.8, linestyle="--", label=f"good above {threshold:g}")
    plane.set_xticks(places, [own.name.removeprefix("seed_").lstrip("0") for own in named], fontsize=8)
    plane.set_xlabel("seed, the named set (blue: good out-of-distribution, orange: not)")
    plane.set_ylabel("mean reward of an episode")
    plane.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=3)


def draw(benchmark: str, folder: Path) -> list[Path]:
    """Both pictures of a shipped benchmark; their paths."""
    population = load(benchmark, everything=True)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{benchmark}_{kind}.png" for kind in ("curves", "rewards")]
    draw_curves(curves_data(population), paths[0])
    draw_rewards(rewards_data(population), float(population.provenance["evaluation"]["threshold"]), paths[1])
    return paths


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1:
        print("error: name one folder for the pictures, such as docs/zoo", file=sys.stderr)
        return 2
    try:
        for benchmark in shipped():
            for path in draw(benchmark, Path(given[0])):
                print(path)
    except (OSError, KareninaError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
