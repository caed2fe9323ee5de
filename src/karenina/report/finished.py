"""A finished run, read back. Enters: the folder of a run. Leaves: a `FinishedRun`: the `Selection` as it was found, the
domain, and the networks that can still be read as they were.

A model that has moved or changed since is no reason to refuse a report: it is missing from `networks`, a note says why,
and what needs it is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from karenina.disagreement import Disagreement, DisagreementTable
from karenina.domain import Domain
from karenina.domain_file import domain_from_toml
from karenina.errors import InputError, KareninaError
from karenina.network import Network
from karenina.query import Status
from karenina.selection import Certainty, Guarantee, Iteration, Removal, Selection, SelectionSettings, Stop
from karenina.store import Configuration, read_configuration, read_result

__all__ = ["FinishedRun", "read_run", "selection_from_dictionary"]

_RESULT = "selection.json"


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A selection with all that it was about."""

    selection: Selection
    domain: Domain
    networks: Mapping[str, Network]  # by the names of the selection; those that can be read
    title: str = "selection"  # what the page is called
    conditions: tuple[str, ...] = ()  # of the c-distance, if not the usual ones
    files: Mapping[str, str] | None = None  # where the models were, by name
    digests: Mapping[str, str] | None = None  # SHA-256 of their contents
    facts: Mapping[str, str] | None = None  # anything else that was asked, in words
    notes: tuple[str, ...] = ()  # what could not be read


def read_run(folder: Path) -> FinishedRun:
    """The run in a folder; refuses one that is not finished."""
    asked = read_configuration(folder)
    result = read_result(folder)
    try:
        selection = selection_from_dictionary(result)
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        where = folder / _RESULT
        raise InputError(f"{where} is damaged: the same karenina select, or karenina resume, writes it anew") from error
    if selection.names != tuple(model.name for model in asked.models):
        raise InputError(f"{folder / _RESULT} is not the result of {folder / 'run.json'}: karenina resume {folder}")
    networks, notes = _networks(asked)
    return FinishedRun(
        selection,
        domain_from_toml(asked.domain_text, asked.domain_file),
        networks,
        folder.resolve().name,
        asked.conditions,
        {model.name: model.path for model in asked.models},
        {model.name: model.digest for model in asked.models},
        {
            "domain": asked.domain_file,
            "action": str(asked.options.get("action") or "raw"),
            "back end": asked.context.backend,
            "version": f"karenina {asked.context.version}",
            "run": str(folder),
        },
        notes,
    )


def _networks(asked: Configuration) -> tuple[dict[str, Network], tuple[str, ...]]:
    """The models that are still what they were, and what is wrong with the others."""
    found, notes = {}, []
    for model in asked.models:
        try:
            found[model.name] = asked.network(model)
        except KareninaError as error:
            notes.append(f"{model.name} is shown without plots: {error}")
    return found, tuple(notes)


def selection_from_dictionary(result: Mapping[str, Any]) -> Selection:
    """The `Selection` that `Selection.to_dict` wrote down."""
    names = tuple(map(str, result["names"]))
    settings = {name: _number(value) for name, value in result["settings"].items()}
    guarantee, stop = result["guarantee"], result["stop"]
    return Selection(
        names,
        tuple(result["survivors"]),
        result["recommended"],
        Certainty(result["recommendation"]),
        Guarantee(
            _number(guarantee["lower"]),
            _number(guarantee["upper"]),
            _pair(guarantee["pair"]),
            result["distance"],
            _pairs(guarantee["undecided_pairs"]),
        ),
        tuple(map(_iteration, result["iterations"])),
        _scores(result["scores"]),
        Stop(stop["reason"], Certainty(stop["certainty"]), _pairs(stop["undecided_pairs"])),
        _table(names, result["pairs"]),
        result["distance"],
        SelectionSettings(**settings),
        result["measurements"],
        result["exact_pairs"],
        result["boxes"],
        result["seconds"],
        tuple(result["notes"]),
    )


def _iteration(step: Mapping[str, Any]) -> Iteration:
    return Iteration(
        step["number"],
        _scores(step["scores"]),
        tuple(Removal(name, step["reasons"][name]) for name in step["removed"]),
        tuple(step["survived"]),
        Certainty(step["certainty"]),
        {name: _number(value) for name, value in step["numbers"].items()},
        _pairs(step["undecided_pairs"]),
        step["note"],
    )


def _table(names: Sequence[str], pairs: Sequence[Mapping[str, Any]]) -> DisagreementTable:
    place = {name: k for k, name in enumerate(names)}
    found = {}
    for pair in pairs:
        witness, outputs = pair["witness"], pair["outputs"]
        found[place[pair["a"]], place[pair["b"]]] = Disagreement(
            _number(pair["lower"]),
            _number(pair["upper"]),
            Status(pair["status"]),
            None if witness is None else np.array(witness, dtype=np.float64),
            None if outputs is None else (np.array(outputs[0], np.float64), np.array(outputs[1], np.float64)),
            pair["boxes"],
            pair["seconds"],
            pair["note"],
        )
    return DisagreementTable(tuple(names), found)


def _scores(scores: Mapping[str, Sequence[Any]]) -> dict[str, tuple[float, float]]:
    return {name: (_number(low), _number(high)) for name, (low, high) in scores.items()}


def _pairs(pairs: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple(map(_pair, pairs))


def _pair(pair: Sequence[str]) -> tuple[str, str]:
    first, second = pair
    return first, second


def _number(value: Any) -> Any:
    """JSON has no infinity: there it is a string."""
    return {"Infinity": math.inf, "-Infinity": -math.inf}.get(value, value) if isinstance(value, str) else value
