"""A pair, explained in text. Enters: a `FinishedRun` and two names. Leaves: an `Explanation`: how far apart they can
be, the witness, what both do there, and which inputs matter around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill

import numpy as np
import numpy.typing as npt

from karenina.disagreement import Disagreement
from karenina.query import Status
from karenina.report.finished import FinishedRun
from karenina.report.slices import box_of, lines_through
from karenina.selection.wording import at_most, printable

__all__ = ["Explanation", "Move", "explain", "explanation_text"]

Array = npt.NDArray[np.float64]
_POINTS = 101
_MOST_MOVES = 8
_BAR = 20  # columns
_COLUMNS = 80


@dataclass(frozen=True)
class Move:
    """What happens to both models when one input moves through its interval and the others stay."""

    label: str
    lower: float
    upper: float
    at: float  # the witness's value
    first: tuple[float, float]  # the least and the largest output of either model, of the output that differs most
    second: tuple[float, float]

    @property
    def change(self) -> float:
        """How much the outputs change, both together."""
        return self.first[1] - self.first[0] + self.second[1] - self.second[0]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Two models and the input where they were seen farthest apart."""

    names: tuple[str, str]
    found: Disagreement  # its outputs in the order of the names
    distance: str
    labels: tuple[str, ...]  # of the inputs
    bounds: tuple[Array, Array] | None  # of the box that the witness lies in
    output: int  # the one that differs most at the witness
    moves: tuple[Move, ...]  # the inputs that change most first; none without the networks
    fates: tuple[str, str]
    known: str  # how exactly the disagreement is known

    def to_dict(self) -> dict[str, object]:
        """Values for JSON."""
        found = self.found
        return {
            "a": self.names[0],
            "b": self.names[1],
            "fates": list(self.fates),
            "distance": self.distance,
            "lower": found.lower,
            "upper": found.upper,
            "status": str(found.status),
            "note": found.note,
            "names": list(self.labels),
            "witness": None if found.witness is None else found.witness.tolist(),
            "outputs": None if found.outputs is None else [output.tolist() for output in found.outputs],
            "moves": [
                {"name": m.label, "from": m.lower, "to": m.upper, "at": m.at, "a": list(m.first), "b": list(m.second)}
                for m in self.moves
            ],
        }


def explain(run: FinishedRun, first: str, second: str) -> Explanation:
    """Where the two disagree most; names that are not in the run are refused."""
    found = run.selection.table.disagreement(first, second)
    told = (_fate(run, first), _fate(run, second)), _known(found, run.selection.settings.tolerance)
    if found.witness is None or found.outputs is None:
        return Explanation((first, second), found, run.selection.distance, run.domain.labels, None, 0, (), *told)
    box = run.domain.boxes[box_of(run.domain, found.witness)]
    output = int(np.argmax(np.abs(found.outputs[0] - found.outputs[1])))
    moves = _moves(run, (first, second), found.witness, output)
    facts = (first, second), found, run.selection.distance, run.domain.labels, (box.lower, box.upper)
    return Explanation(*facts, output, moves, *told)


def _known(found: Disagreement, tolerance: float) -> str:
    if found.status is Status.EXACT and found.upper - found.lower > tolerance * 1.01:
        return "measured as exactly as the decisions needed"
    return str(found.status)


def _fate(run: FinishedRun, name: str) -> str:
    gone = [step.number for step in run.selection.iterations for removal in step.removed if removal.name == name]
    if gone:
        return f"removed in iteration {gone[0]}"
    return "survives, recommended" if name == run.selection.recommended else "survives"


def _moves(run: FinishedRun, names: tuple[str, str], witness: Array, output: int) -> tuple[Move, ...]:
    if not all(name in run.networks for name in names):
        return ()
    box = run.domain.boxes[box_of(run.domain, witness)]
    networks = run.networks[names[0]], run.networks[names[1]]
    inputs = np.flatnonzero(box.upper > box.lower).tolist()
    found = []
    for i in inputs:  # one at a time: there may be thousands
        values = lines_through(networks, box, witness, [i], [output], _POINTS).values[0, 0]  # (2 networks, points)
        ends = [(float(line.min()), float(line.max())) for line in values]
        label = run.domain.labels[i]
        found.append(Move(label, float(box.lower[i]), float(box.upper[i]), float(witness[i]), ends[0], ends[1]))
    return tuple(sorted(found, key=lambda move: -move.change))


def explanation_text(told: Explanation) -> str:
    """For a terminal of 80 columns."""
    found, lines = told.found, []
    for letter, name, fate in zip("AB", told.names, told.fates, strict=True):
        lines.append(f"{letter}  {printable(name)} ({fate})")
    upper = at_most(found.upper) if np.isfinite(found.upper) else "unknown"
    words = f"They disagree by at least {found.lower:.6g} and at most {upper} ({told.distance}): {told.known}."
    lines += ["", fill(words, _COLUMNS), *([fill(f"Note: {found.note}.", _COLUMNS)] if found.note else [])]
    if told.bounds is None or found.outputs is None:
        lines.append("No input is on record that shows it.")
        return "\n".join(lines) + "\n"
    lines += ["", "Where they were seen farthest apart:", *_witness(told), "", "There they say:"]
    for letter, output in zip("AB", found.outputs, strict=True):
        lines.append(f"  {letter}  " + "  ".join(f"{value:.6g}" for value in output))
    if told.moves:
        which = f" (output y{told.output})" if len(found.outputs[0]) > 1 else ""
        lines += ["", f"When one input moves through the domain and the others stay{which}:", *_move_lines(told)]
    return "\n".join(lines) + "\n"


def _witness(told: Explanation) -> list[str]:
    assert told.bounds is not None
    assert told.found.witness is not None
    width = min(24, max(map(len, map(printable, told.labels))))
    rows = []
    for label, value, low, high in zip(told.labels, told.found.witness, *told.bounds, strict=True):
        name = printable(label)[:width]
        rows.append(f"  {name:<{width}} {value:>11.5g}  {_bar(value, low, high)}  {low:.4g} to {high:.4g}")
    return rows


def _bar(value: float, low: float, high: float) -> str:
    """Where in its interval a value lies."""
    place = 0 if high <= low else round((value - low) / (high - low) * (_BAR - 1))
    place = min(max(place, 0), _BAR - 1)
    return "|" + "-" * place + "o" + "-" * (_BAR - 1 - place) + "|"


def _move_lines(told: Explanation) -> list[str]:
    shown = told.moves[:_MOST_MOVES]
    width = min(24, max(len(printable(move.label)) for move in shown))
    rows = []
    for move in shown:
        a, b = (f"{low:.4g} to {high:.4g}" for low, high in (move.first, move.second))
        rows.append(f"  {printable(move.label)[:width]:<{width}}  A {a:<21}  B {b}")
    rest = len(told.moves) - len(shown)
    return [*rows, f"  ({rest} more inputs change less)"] if rest else rows
