"""A selection for people and programs. Enters: a `Selection`. Leaves: text, HTML, a dictionary for JSON, frames."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from textwrap import TextWrapper
from typing import TYPE_CHECKING

from karenina.disagreement import Disagreement
from karenina.errors import MissingExtra
from karenina.selection.heat_map import heat_map_svg
from karenina.selection.result import Iteration, Selection
from karenina.selection.wording import printable

if TYPE_CHECKING:
    import pandas

__all__ = ["as_dictionary", "as_html", "as_text", "scores_frame"]

_COLUMNS = 80


def as_dictionary(selection: Selection) -> dict[str, object]:
    """Everything a selection says, in values that JSON has."""
    stop, guarantee = selection.stop, selection.guarantee
    whole = {
        "survivors": list(selection.survivors),
        "recommended": selection.recommended,
        "recommendation": str(selection.recommendation),
        "guarantee": {
            "lower": guarantee.lower,
            "upper": guarantee.upper,
            "pair": list(guarantee.pair),
            "undecided_pairs": [list(pair) for pair in guarantee.undecided_pairs],
            "sentence": str(guarantee),
        },
        "certified": selection.certified,
        "iterations": [_iteration(iteration) for iteration in selection.iterations],
        "stop": {
            "reason": stop.reason,
            "certified": stop.certified,
            "certainty": str(stop.certainty),
            "undecided_pairs": [list(pair) for pair in stop.undecided_pairs],
        },
        "scores": {name: list(score) for name, score in selection.scores.items()},
        "camps": selection.camps.to_dict(),
        "pairs": [_pair(selection.names, pair, found) for pair, found in selection.table.pairs.items()],
        "names": list(selection.names),
        "distance": selection.distance,
        "settings": selection.settings.to_dict(),
        "measurements": selection.measurements,
        "exact_pairs": selection.exact_pairs,
        "boxes": selection.boxes,
        "seconds": selection.seconds,
        "notes": list(selection.notes),
    }
    return {key: _finite(value) for key, value in whole.items()}


def _iteration(iteration: Iteration) -> dict[str, object]:
    return {
        "number": iteration.number,
        "scores": {name: list(score) for name, score in iteration.scores.items()},
        "removed": [removal.name for removal in iteration.removed],
        "reasons": {removal.name: removal.reason for removal in iteration.removed},
        "survived": list(iteration.survived),
        "certified": iteration.certified,
        "certainty": str(iteration.certainty),
        "numbers": dict(iteration.numbers),
        "undecided_pairs": [list(pair) for pair in iteration.undecided_pairs],
        "note": iteration.note,
    }


def _pair(names: Sequence[str], pair: tuple[int, int], found: Disagreement) -> dict[str, object]:
    return {
        "a": names[pair[0]],
        "b": names[pair[1]],
        "lower": found.lower,
        "upper": found.upper,
        "status": str(found.status),
        "witness": None if found.witness is None else found.witness.tolist(),
        "outputs": None if found.outputs is None else [output.tolist() for output in found.outputs],
        "boxes": found.boxes,
        "seconds": found.seconds,
        "note": found.note,
    }


def _finite(value: object) -> object:
    """The value with infinities as strings, at any depth."""
    match value:
        case float() if not math.isfinite(value):
            return "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value


def as_text(selection: Selection) -> str:
    """A table by iteration, the survivors, the recommended model, the guarantee."""
    lines = [f"{'iteration':<10}{'models':>7}{'removed':>9}  {'scores':<24}decided"]
    for row in map(_row, selection.iterations):
        lines.append(f"{row[0]:<10}{row[1]:>7}{row[2]:>9}  {row[3]:<24}{row[4]}")
    lines += [_folded(f"{label + ':':<13}", printable(text)) for label, text in _facts(selection)]
    return "\n".join(lines)


def _folded(start: str, text: str) -> str:
    """The text beside its label, in lines that fit; a word that does not fit stays whole."""
    wrapper = TextWrapper(_COLUMNS, start, " " * len(start), break_long_words=False, break_on_hyphens=False)
    return wrapper.fill(text)


def _row(iteration: Iteration) -> tuple[str, ...]:
    low = min(score[0] for score in iteration.scores.values())
    high = max(score[1] for score in iteration.scores.values())
    counts = str(len(iteration.scores)), str(len(iteration.removed))
    return str(iteration.number), *counts, f"{low:.4g} to {high:.4g}", str(iteration.certainty)


def _facts(selection: Selection) -> list[tuple[str, str]]:
    gone = [f"{step.number}. {', '.join(removal.name for removal in step.removed)}" for step in selection.iterations]
    late = len(selection.guarantee.undecided_pairs)
    facts = [
        ("removed", "; ".join(gone) or "none"),
        ("stopped", f"{selection.stop.reason} ({selection.stop.certainty})"),
        ("survivors", ", ".join(selection.survivors)),
        ("recommended", f"{selection.recommended} ({selection.recommendation})"),
        ("guarantee", f"{selection.guarantee}{f' ({late} pairs not known to the tolerance)' if late else ''}"),
        (
            "cost",
            f"{selection.measurements} measurements, {selection.exact_pairs} of "
            f"{len(selection.names) * (len(selection.names) - 1) // 2} pairs to the tolerance, "
            f"{selection.boxes} boxes, {selection.seconds:.3g} s",
        ),
    ]
    return [*facts, *_camps(selection), *(("note", note) for note in selection.notes)]


def _camps(selection: Selection) -> Iterator[tuple[str, str]]:
    """The camps, where there are any, and the warning."""
    found = selection.camps
    if found.camps:
        alone = f"; alone: {', '.join(found.alone)}" if found.alone else ""
        yield "camps", "; ".join(f"{k}. {camp}" for k, camp in enumerate(found.camps, 1)) + alone
        far = found.divides[0]
        told = f"camps {far.camps[0] + 1} and {far.camps[1] + 1}, {far.pair[0]} and {far.pair[1]}"
        yield "farthest", f"{told}: at least {far.lower:.4g} (karenina explain shows where)"
    if found.warning:
        yield "warning", found.warning


def as_html(selection: Selection) -> str:
    """The same as tables and a heat map for a notebook. Names come from files, so they are escaped."""
    head = "".join(f"<th>{title}</th>" for title in ("iteration", "models", "removed", "scores", "decided"))
    rows = [_html_row(_row(iteration)) for iteration in selection.iterations]
    facts = [f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in _facts(selection)]
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"{table}<dl>{''.join(facts)}</dl>{heat_map_svg(selection)}"


def _html_row(cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def scores_frame(selection: Selection) -> pandas.DataFrame:
    """One row for each model of each iteration."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "frames") from error
    rows = []
    for iteration in selection.iterations:
        removed = {removal.name for removal in iteration.removed}
        for name, (lower, upper) in iteration.scores.items():
            rows.append((iteration.number, name, lower, upper, name in removed, iteration.certified))
    return pandas.DataFrame(rows, columns=["iteration", "name", "lower", "upper", "removed", "certified"])
