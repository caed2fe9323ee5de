"""Results as the command line prints them. Enters: a result and the settings it was asked with. Leaves: text.

Numbers are written so that they read back exactly. JSON has no infinity: there it is the string "Infinity"
or "-Infinity", which Python's `float` and JavaScript's `Number` understand; null is "there is none".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line starts without numpy and torch
    from karenina.disagreement import Disagreement
    from karenina.domain import Array
    from karenina.network import Network
    from karenina.query import Answer
    from karenina.selection import Selection
    from karenina.store import Configuration
    from karenina.vnnlib import Verification

__all__ = [
    "as_json",
    "disagreement_json",
    "disagreement_text",
    "selection_dictionary",
    "verification_json",
    "verification_text",
    "version",
]


def version() -> str:
    """The version of the installed package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("karenina")
    except PackageNotFoundError:
        return "(not installed)"


def verification_text(found: Verification) -> str:
    """The verdict, and for sat the counterexample as VNN-COMP writes it: all inputs, then all outputs."""
    if found.witness is None or found.outputs is None:
        return f"{found.verdict}\n"
    values = [f"(X_{i}  {value!r})" for i, value in enumerate(_list(found.witness))]
    values += [f"(Y_{j}  {value!r})" for j, value in enumerate(_list(found.outputs))]
    return f"{found.verdict}\n(" + "\n ".join(values) + ")\n"


def verification_json(found: Verification, network: Network, settings: Mapping[str, object]) -> str:
    """One JSON object: the verdict, the counterexample, the answer behind it, and what was asked."""
    counterexample = {"witness": _list_or_none(found.witness), "outputs": _list_or_none(found.outputs)}
    return as_json({"verdict": str(found.verdict)} | counterexample | _cost(found.answer) | _asked([network], settings))


def disagreement_text(found: Disagreement, labels: Sequence[str], networks: Sequence[str]) -> str:
    """The interval, the witness by the names of the inputs, and both networks' outputs there."""
    rows = [("lower", repr(found.lower)), ("upper", repr(found.upper)), ("status", str(found.status))]
    if found.witness is not None:
        rows += _column("witness", labels, [repr(value) for value in _list(found.witness)])
    if found.outputs is not None:
        rows += _column("outputs", networks, [" ".join(map(repr, _list(output))) for output in found.outputs])
    rows.append(("cost", f"{found.boxes} boxes, {found.seconds:.3g} s"))
    if found.note:
        rows.append(("note", found.note))
    return "".join(f"{label:<9}{value}\n" for label, value in rows)


def disagreement_json(
    found: Disagreement, labels: Sequence[str], networks: Sequence[Network], settings: Mapping[str, object]
) -> str:
    """One JSON object: the interval, the witness, both networks' outputs there, and what was asked."""
    outputs = None if found.outputs is None else [_list(output) for output in found.outputs]
    witness = {"witness": _list_or_none(found.witness), "outputs": outputs, "names": list(labels)}
    return as_json(_cost(found) | witness | _asked(networks, settings))


def selection_dictionary(found: Selection, asked: Configuration, run: str) -> dict[str, object]:
    """What a selection found, and what was asked; for JSON."""
    models = [{"name": model.name, "path": model.path, "sha256": model.digest} for model in asked.models]
    question = {"models": models, "domain": asked.domain_file, "conditions": list(asked.conditions)}
    who = {"backend": asked.context.backend, **asked.options, "run": run, "version": version()}
    return found.to_dict() | question | who


def _cost(found: Answer | Disagreement) -> dict[str, object]:
    """What every answer has: the interval, how it ended, what it took."""
    return {
        "lower": found.lower,
        "upper": found.upper,
        "status": str(found.status),
        "finished": found.status.finished,
        "boxes": found.boxes,
        "seconds": found.seconds,
        "note": found.note,
    }


def _asked(networks: Sequence[Network], settings: Mapping[str, object]) -> dict[str, object]:
    """What was asked, and of which networks."""
    facts = [{"name": network.name, "shape": network.shape, "sha256": network.digest()} for network in networks]
    return {"networks": facts, **settings, "version": version()}


def _column(title: str, labels: Sequence[str], values: Sequence[str]) -> list[tuple[str, str]]:
    """Rows of label and value, aligned under one title; a value that is not negative leaves room for a sign."""
    width = max(map(len, labels)) + 2
    signed = [value if value.startswith("-") else f" {value}" for value in values]
    lines = [f"{label:<{width}}{value}" for label, value in zip(labels, signed, strict=True)]
    return [(title if k == 0 else "", line) for k, line in enumerate(lines)]


def _list(array: Array) -> list[float]:
    return [float(value) for value in array]


def _list_or_none(array: Array | None) -> list[float] | None:
    return None if array is None else _list(array)


def as_json(result: Mapping[str, object]) -> str:
    """One JSON object, without NaN and Infinity."""
    return json.dumps(_finite(result), indent=2, allow_nan=False) + "\n"


def _finite(value: object) -> object:
    """The value with infinities and NaN as strings, at any depth."""
    match value:
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case Mapping():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value
