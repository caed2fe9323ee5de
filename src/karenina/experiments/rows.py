"""The tables of docs/results.md. Enters: results as they are stored. Leaves: markdown, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from karenina.experiments.algorithm import CRITERIA
from karenina.experiments.choices import REFERENCE
from karenina.experiments.paper import ATTACKS, COMBINATIONS, SELECTIONS
from karenina.experiments.populations import OOD, PAPER, title
from karenina.experiments.results import Results

__all__ = ["TABLES", "markdown"]

_NONE = "–"
_LEFT_OUT = ("samples, max", "samples, combined", "combined, recommended")  # of the page; the data has them


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _populations(results: Results) -> str:
    rows = []
    for name, data in results.read("selections").items():
        start = data["criteria"]["percentile"]["statistics"][OOD][0]
        paper = f"{SELECTIONS[name].good} of 16" if name in SELECTIONS else _NONE
        named = f"{start['good']} of {start['models']}"
        everything = f"{data['good']} of {data['models']}"
        threshold = f"{data['threshold']:g}"
        rows.append((title(name), data["distance"], threshold, paper, named, everything, data["passed"]))
    head = ("population", "distance", "good above", "paper: good", "named set: good", "all measured: good")
    return markdown((*head, "passed the filter"), rows)


def _selections(results: Results) -> str:
    rows = []
    for name, data in results.read("selections").items():
        for criterion in CRITERIA:
            own = data["criteria"][criterion]
            steps = own["statistics"][OOD]
            rows.append(
                (
                    title(name),
                    criterion,
                    _paper_selection(name, criterion),
                    f"{steps[0]['good']} of {steps[0]['models']}",
                    f"{steps[-1]['good']} of {steps[-1]['models']}",
                    _recommended(data, own),
                    f"{steps[0]['median']:.1f} → {steps[-1]['median']:.1f}",
                    f"{sum(own['certified'])} of {len(own['certified'])}",
                )
            )
    head = ("population", "criterion", "paper: good survivors", "good before", "good survivors", "recommended")
    return markdown((*head, "median reward", "iterations certified"), rows)


def _paper_selection(name: str, criterion: str) -> str:
    if name not in SELECTIONS:
        return _NONE
    count = SELECTIONS[name].survivors.get(criterion)
    return "all" if count is None else f"{count} of {count}"


def _recommended(data: dict[str, Any], own: dict[str, Any]) -> str:
    reward = data["rewards"][OOD].get(own["recommended"])
    return f"{'good' if reward > data['threshold'] else 'bad'} ({reward:.1f})"


def _iterations(results: Results) -> str:
    """Good survivors of all, iteration by iteration."""
    rows = []
    for name, data in results.read("selections").items():
        for criterion in CRITERIA:
            steps = data["criteria"][criterion]["statistics"][OOD]
            rows.append((title(name), criterion, ", ".join(f"{s['good']}/{s['models']}" for s in steps)))
        steps = data["everything"]["statistics"][OOD]
        rows.append((title(name), "percentile, all", ", ".join(f"{s['good']}/{s['models']}" for s in steps)))
    return markdown(("population", "criterion", "good/survivors after iteration 0, 1, 2, ..."), rows)


def _distributions(results: Results) -> str:
    rows = []
    for name, data in results.read("selections").items():
        for preset in [p for p in data["criteria"]["percentile"]["statistics"] if p != OOD]:
            for criterion in CRITERIA:
                steps = data["criteria"][criterion]["statistics"][preset]
                first, last = steps[0], steps[-1]
                cells = [f"{s['good']} of {s['models']}" for s in (first, last)]
                spread = [f"{s['min']:.1f} / {s['median']:.1f} / {s['max']:.1f}" for s in (first, last)]
                rows.append((title(name), preset, criterion, _paper_selection(name, ""), *cells, *spread))
    head = ("population", "distribution", "criterion", "paper: good survivors", "good before", "good survivors")
    return markdown((*head, "min / median / max before", "after"), rows)


def _agreement(results: Results) -> str:
    rows = []
    for name, data in results.read("selections").items():
        for part, key in (("named set", "named_"), ("all measured", "")):
            medians = [data[f"{key}agreement"][kind] for kind in ("good-good", "good-bad", "bad-bad")]
            ranks = [data[f"{key}correlation"][kind] for kind in ("agreement", "in-distribution reward")]
            cells = [_NONE if value is None else f"{value:.2f}" for value in (*medians, *ranks)]
            rows.append((title(name), part, *cells[:3], _holds(medians), *cells[3:]))
    head = ("population", "models", "good–good", "good–bad", "bad–bad", "hypothesis")
    return markdown((*head, "rank correlation: agreement", "in-distribution reward"), rows)


def _holds(medians: list[float | None]) -> str:
    """Whether good models agree with each other more than bad ones do, and more than with bad ones."""
    together, apart, bad = medians
    if together is None or apart is None or bad is None:
        return "too few of a kind"
    if together < min(apart, bad):
        return "holds"
    return "the bad agree more" if bad < together else "does not hold"


def _combinations_of(part: str) -> Callable[[Results], str]:
    def table(results: Results) -> str:
        rows = []
        for name, data in results.read("combinations").items():
            for criterion, own in data.get(part, {}).items():
                for row in own:
                    rows.append((title(name), criterion, *_combination(criterion, row, part)))
        head = ("population", "criterion", "good", "bad", "sets", "only good survive", "some bad survive", "naive")
        return markdown((*head, "ours", "recommended", "paper, Mountain Car"), rows)

    return table


def _combination(criterion: str, row: dict[str, Any], part: str) -> tuple[object, ...]:
    same = part == "all" and row["good"] in COMBINATIONS[criterion]
    paper = _percent(COMBINATIONS[criterion][row["good"]].ours) if same else _NONE
    counts = row["good"], row["bad"], row["sets"], row["all_good"], row["some_bad"]
    return (*counts, _percent(row["naive"]), _percent(row["ours"]), _percent(row["recommended"]), paper)


def _gradients(results: Results) -> str:
    rows = []
    for name, data in results.read("gradients").items():
        for attack, own in data.items():
            paper = ATTACKS.get((name, attack))
            counts = f"{own['aligned']} / {own['untightened']} / {own['failed']}"
            theirs = _NONE if paper is None else f"{paper.aligned} / {paper.untightened} / {paper.failed}"
            judged = [_yes(own["successful"][criterion]) for criterion in CRITERIA]
            if paper is not None:
                judged = [f"{ours} ({_yes(paper.successful[c])})" for ours, c in zip(judged, CRITERIA, strict=True)]
            fine = own["aligned_finely"], own["largest_shortfall"]
            same = " / ".join(_yes(own["same_survivors"][criterion]) for criterion in CRITERIA)
            rows.append((title(name), attack, theirs, counts, *fine, *judged, same))
        rows.append((title(name), "verification", *[_NONE] * 4, *_verified(results, name), _NONE))
    head = ("population", "attack", "paper: aligned / untightened / failed", "ours", "within 0.01", "largest shortfall")
    only = (f"only good survive: {criterion} (paper)" for criterion in CRITERIA)
    return markdown((*head, *only, f"survivors as verification's: {' / '.join(CRITERIA)}"), rows)


def _verified(results: Results, name: str) -> list[str]:
    criteria = results.read("selections")[name]["criteria"]
    last = [criteria[criterion]["statistics"][OOD][-1] for criterion in CRITERIA]
    return [_yes(s["good"] == s["models"]) + (" (yes)" if name in PAPER else "") for s in last]


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _uncertainty(results: Results) -> str:
    rows = []
    for name, data in results.read("uncertainty").items():
        for kind, own in data.items():
            cells = [f"{s['good']} of {s['models']}" for s in (own["lowest"], own["ensemble_statistics"])]
            rewards = ", ".join(f"{own['ensemble_statistics'][key]:.1f}" for key in ("min", "median", "max"))
            rows.append((title(name), kind, *cells, rewards))
    head = ("population", "inputs", "good among the 3 models of lowest variance", "good in the ensemble of lowest")
    return markdown((*head, "its rewards: min, median, max"), rows)


def _choices(results: Results) -> str:
    rows = []
    for name, data in results.read("choices").items():
        for way, own in data["ways"].items():
            if way.endswith(_LEFT_OUT):
                continue
            rows.append((title(name), way, _shown(own["good"], 100, " %"), _shown(own["reward"]), *_beside(way, own)))
    head = ("population", "way of choosing", "good", "reward", "verification better by: good, points")
    return markdown((*head, "reward"), rows)


def _beside(way: str, own: dict[str, Any]) -> tuple[str, str]:
    if way == REFERENCE:
        return _NONE, _NONE
    good, reward = own["verification_minus_good"], own["verification_minus_reward"]
    return _marked(good, 100), _marked(reward, 1)


def _shown(found: dict[str, float], scale: float = 1, unit: str = "") -> str:
    mean, lower, upper = (scale * found[key] for key in ("mean", "lower", "upper"))
    return f"{mean:.1f}{unit} [{lower:.1f}, {upper:.1f}]"


def _marked(found: dict[str, float], scale: float) -> str:
    """In bold where 0 is outside the interval."""
    text = _shown(found, scale)
    return f"**{text}**" if found["lower"] > 0 or found["upper"] < 0 else text


def _samples(results: Results) -> str:
    rows = []
    for name, data in results.read("choices").items():
        for size, own in data["samples"].items():
            same = [_percent(own["same_survivors"][criterion]) for criterion in CRITERIA]
            rows.append((title(name), f"{int(size):,}", _percent(own["median_share"]), *same))
    head = ("population", "samples", "of the true disagreement, median pair")
    return markdown((*head, *(f"same survivors, {criterion}" for criterion in CRITERIA)), rows)


def _verdicts(results: Results) -> str:
    """Verification by percentile against the cheaper ways, in words."""
    against = ("random", "in-distribution reward", "ensemble variance", "10000 samples, percentile")
    rows = []
    for name, data in results.read("choices").items():
        ways = {**data["ways"]}
        shares = [f"{100 * ways[way]['good']['mean']:.0f} %" for way in (*against, REFERENCE)]
        words = [_word(ways[way]["verification_minus_good"]) for way in against]
        rows.append((title(name), *shares, *words))
    named = ("random", "reward", "variance", "10,000 samples")
    head = ("population", *(f"good: {name}" for name in named), "good: verification")
    return markdown((*head, *(f"verification against {name}" for name in named)), rows)


def _word(difference: dict[str, float]) -> str:
    if difference["lower"] > 0:
        return "better"
    return "worse" if difference["upper"] < 0 else "no clear difference"


TABLES: dict[str, Callable[[Results], str]] = {
    "populations": _populations,
    "selections": _selections,
    "iterations": _iterations,
    "agreement": _agreement,
    "distributions": _distributions,
    "combinations-named": _combinations_of("named"),
    "combinations-all": _combinations_of("all"),
    "gradients": _gradients,
    "uncertainty": _uncertainty,
    "choices": _choices,
    "verdicts": _verdicts,
    "samples": _samples,
}
