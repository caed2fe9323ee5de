"""The figures of docs/results.md. Enters: results as data. Leaves: PNG files. Nothing is computed here.

`figures` tells which there are: name -> what draws it. The data of each is a part of the results as they are stored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from karenina.experiments.drawing import BAD, GOOD, GREY, canvas, save
from karenina.experiments.populations import IN_DISTRIBUTION, Subject, subject, title
from karenina.experiments.results import Results
from karenina.experiments.tables import Table

__all__ = [
    "draw",
    "draw_choices",
    "draw_combinations",
    "draw_iterations",
    "draw_rewards",
    "draw_settings",
    "draw_table",
    "draw_uncertainty",
    "figures",
]

Draw = Callable[[Path], None]
_DRAWN = ("cartpole", "mountaincar")  # gymnasium has a picture of them


def figures(results: Results) -> dict[str, Draw]:
    """File name (without .png) -> what draws it, for all results there are."""
    found: dict[str, Draw] = {}
    for population, data in results.read("selections").items():
        found[f"rewards_{population}"] = functools.partial(draw_rewards, population, data)
        found[f"table_{population}"] = functools.partial(_draw_stored_table, results, population)
        for preset in data["rewards"]:
            if preset != IN_DISTRIBUTION:
                part = functools.partial(draw_iterations, f"{title(population)}, {preset}", data["criteria"], preset)
                found[f"iterations_{population}_{preset}"] = part
        if population in _DRAWN:
            found[f"settings_{population}"] = functools.partial(draw_settings, population)
    for population, data in results.read("gradients").items():
        for attack, own in data.items():
            part = functools.partial(draw_iterations, f"{title(population)}, {attack}", own["criteria"], "ood")
            found[f"gradients_{population}_{attack.replace(',', '').replace(' ', '-')}"] = part
    single = {"combinations": draw_combinations, "uncertainty": draw_uncertainty, "choices": draw_choices}
    for experiment, function in single.items():
        for population, data in results.read(experiment).items():
            found[f"{experiment}_{population}"] = functools.partial(function, population, data)
    return found


def draw(results: Results, told: Callable[[str], None] = lambda _: None) -> None:
    """All figures, into the results' folder."""
    for name, function in figures(results).items():
        told(f"drawing {name}")
        function(results.folder / f"{name}.png")


def _label(name: str) -> str:
    return name.removeprefix("seed_").lstrip("0")


def draw_rewards(population: str, data: dict[str, Any], path: Path) -> None:
    """A panel for every distribution, a bar for every model; in-distribution coloured as out-of-distribution."""
    presets = data["rewards"]
    figure, axes = canvas(3.4 * len(presets), 2.6, 1, len(presets))
    for plane, (preset, rewards) in zip(axes[0], presets.items(), strict=True):
        judged = presets["ood"] if preset == IN_DISTRIBUTION else rewards
        good = [judged[name] > data["threshold"] for name in rewards]
        plane.bar(range(len(rewards)), list(rewards.values()), color=[GOOD if g else BAD for g in good], width=0.7)
        plane.set_xticks(range(len(rewards)), [_label(name) for name in rewards], fontsize=6)
        plane.set_title(preset, fontsize=9)
        if preset != IN_DISTRIBUTION:
            plane.axhline(data["threshold"], color=GREY, linewidth=0.8, linestyle="--")
            plane.set_title(f"{preset}: {sum(good)} of {len(good)} good", fontsize=9)
    axes[0, 0].set_ylabel(f"{title(population)}: mean reward", fontsize=8)
    save(figure, path)


def draw_iterations(name: str, criteria: dict[str, Any], preset: str, path: Path) -> None:
    """A row for every criterion: the survivors' rewards by iteration, and the shares of good and bad ones."""
    figure, axes = canvas(8.0, 1.9 * len(criteria), len(criteria), 2)
    for (left, right), (criterion, own) in zip(axes, criteria.items(), strict=True):
        steps = own["statistics"][preset]
        places = range(len(steps))
        left.fill_between(places, [s["min"] for s in steps], [s["max"] for s in steps], color=GOOD, alpha=0.15)
        for key, style in (("max", ":"), ("median", "-"), ("min", "--")):
            left.plot(places, [s[key] for s in steps], style, color=GOOD, label=key, linewidth=1.2)
        left.set_ylabel(criterion, fontsize=9)
        _shares(right, steps)
        for plane in (left, right):
            plane.set_xticks(list(places))
    axes[0, 0].set_title(f"{name}: reward", fontsize=9)
    axes[0, 1].set_title("good (blue) and bad (orange) survivors, and how many", fontsize=9)
    axes[0, 0].legend(fontsize=7, frameon=False)
    for plane in axes[-1]:
        plane.set_xlabel("iteration", fontsize=8)
    save(figure, path)


def _shares(plane: Any, steps: list[dict[str, float]]) -> None:
    places = range(len(steps))
    good = [100 * s["good"] / s["models"] for s in steps]
    plane.bar(places, good, color=GOOD, width=0.7)
    plane.bar(places, [100 - share for share in good], bottom=good, color=BAD, width=0.7)
    plane.set_ylabel("%", fontsize=8)
    beside = plane.twinx()
    beside.plot(places, [s["models"] for s in steps], color="black", marker="o", markersize=3, linewidth=0.8)
    beside.set_ylim(bottom=0)


def draw_combinations(population: str, data: dict[str, Any], path: Path) -> None:
    """The probability to choose a good model before and after, by composition."""
    figure, axes = canvas(4.2 * len(data), 2.8, 1, len(data))
    for plane, (part, criteria) in zip(axes[0], data.items(), strict=True):
        rows = next(iter(criteria.values()))
        places = np.arange(len(rows))
        plane.bar(places - 0.3, [100 * row["naive"] for row in rows], 0.2, color=GREY, label="naive")
        for k, (criterion, own) in enumerate(criteria.items()):
            shades = (GOOD, "#5b86c4", "#a9c1e4")
            plane.bar(places - 0.1 + 0.2 * k, [100 * row["ours"] for row in own], 0.2, color=shades[k], label=criterion)
        plane.set_xticks(places, [f"{row['good']}:{row['bad']}" for row in rows], fontsize=8)
        plane.set_xlabel("good : bad models", fontsize=8)
        plane.set_ylim(0, 100)
        plane.set_title(f"{title(population)}, {part}", fontsize=9)
    axes[0, 0].set_ylabel("probability of a good model, %", fontsize=8)
    axes[0, 0].legend(fontsize=7, frameon=False)
    save(figure, path)


def draw_uncertainty(population: str, data: dict[str, Any], path: Path) -> None:
    """Models by their variance, for both kinds of inputs."""
    figure, axes = canvas(8.4, 2.6, 1, len(data))
    for plane, (kind, own) in zip(axes[0], data.items(), strict=True):
        ranked = own["ranking"]
        colours = [GOOD if own["good"][name] else BAD for name in ranked]
        plane.bar(range(len(ranked)), [own["variance"][name] for name in ranked], color=colours, width=0.7)
        plane.set_yscale("log")
        plane.set_xticks(range(len(ranked)), [_label(name) for name in ranked], fontsize=6)
        plane.set_title(f"inputs {kind}: models by variance", fontsize=9)
    axes[0, 0].set_ylabel(f"{title(population)}: variance", fontsize=8)
    save(figure, path)


def draw_choices(population: str, data: dict[str, Any], path: Path) -> None:
    """A point with its interval for every way of choosing: the probability of a good model, and the reward."""
    ways = data["ways"]
    figure, axes = canvas(9.0, 0.23 * len(ways) + 0.9, 1, 2)
    places = range(len(ways))
    for plane, key, scale in zip(axes[0], ("good", "reward"), (100, 1), strict=True):
        found = [own[key] for own in ways.values()]
        mean = np.array([scale * f["mean"] for f in found])
        errors = np.array([[scale * (f["mean"] - f["lower"]), scale * (f["upper"] - f["mean"])] for f in found]).T
        colours = [GOOD if way.startswith("verification") else BAD if "samples" in way else GREY for way in ways]
        plane.errorbar(mean, places, xerr=errors, fmt="none", ecolor=colours, elinewidth=1.2)
        plane.scatter(mean, places, color=colours, s=14)
        plane.invert_yaxis()
        plane.set_yticks(list(places), list(ways) if key == "good" else [""] * len(ways), fontsize=7)
        plane.axvline(mean[0], color=GREY, linewidth=0.6, linestyle=":")
    axes[0, 0].set_title(f"{title(population)}: probability of a good model, %", fontsize=9)
    axes[0, 1].set_title("expected out-of-distribution reward", fontsize=9)
    save(figure, path)


def draw_table(own: Subject, table: Table, path: Path) -> None:
    """All pairs, models by their reward out-of-distribution: camps show as dark squares."""
    order = np.argsort(-own.rewards["ood"], kind="stable")
    lower, _ = table.bounds()
    figure, axes = canvas(4.4, 3.6)
    plane = axes[0, 0]
    picture = plane.imshow(lower[np.ix_(order, order)], cmap="viridis", interpolation="nearest")
    edge = int(own.good.sum()) - 0.5
    for line in (plane.axhline, plane.axvline):
        line(edge, color="white", linewidth=1)
    figure.colorbar(picture, ax=plane)
    plane.set_title(f"{title(own.name)}: pairwise disagreement; good | bad", fontsize=9)
    plane.set_xlabel(f"{len(order)} models, the best reward first", fontsize=8)
    save(figure, path)


def draw_settings(population: str, path: Path) -> None:
    """The first state of an episode in- and out-of-distribution, as gymnasium draws it."""
    from karenina.zoo.environments.benchmark import benchmark_named
    from karenina.zoo.environments.pictures import picture

    figure, axes = canvas(6.4, 2.4, 1, 2)
    for plane, preset in zip(axes[0], (IN_DISTRIBUTION, "ood"), strict=True):
        drawn = picture(benchmark_named(population).parameters(preset).simulator(1), "rgb_array")
        plane.imshow(drawn.draw())
        drawn.close()
        plane.set_axis_off()
        plane.set_title(f"{title(population)}: {preset}", fontsize=9)
    save(figure, path)


def _draw_stored_table(results: Results, population: str, path: Path) -> None:
    table = results.table(population)
    draw_table(subject(population).first(len(table.names)), table, path)
