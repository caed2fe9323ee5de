"""What a run is about. Enters: models, a domain, a distance, settings. Leaves: a `Configuration`, to and from JSON.

All that `karenina resume` needs to continue a run: the models by path (and by content, to see that they are the
same), the domain as text, and every setting that bears on the result.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from karenina.distance import distance
from karenina.domain_file import domain_from_toml
from karenina.errors import InputError
from karenina.loading import load
from karenina.network import Network
from karenina.selection import SelectionSettings
from karenina.store.identity import Context

__all__ = ["Configuration", "Model"]


@dataclass(frozen=True)
class Model:
    """One model of a run."""

    name: str
    path: str  # absolute
    digest: str  # of the network read from it, as `options` say
    normalisation: str | None = None  # the file of its observation statistics


@dataclass(frozen=True)
class Configuration:
    """What was asked."""

    models: tuple[Model, ...]
    domain_file: str
    domain_text: str  # TOML
    context: Context
    distance: str
    conditions: tuple[str, ...]
    options: Mapping[str, Any]  # how model files are read: `load`'s action and activation
    settings: Mapping[str, Any]  # of the selection

    @property
    def hash(self) -> str:
        """Of what bears on the result: not of paths, and not of the version."""
        facts = self.to_json()
        facts["models"] = sorted([model.name, model.digest] for model in self.models)
        facts["context"] = {**asdict(self.context), "version": ""}
        del facts["domain_file"]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return {**asdict(self), "settings": {name: _written(value) for name, value in self.settings.items()}}

    def network(self, model: Model) -> Network:
        """One of the models, read as it was when the run was recorded."""
        beside = None if model.normalisation is None else Path(model.normalisation)
        action, activation = self.options["action"], self.options["activation"]
        network = load(model.path, action=action, normalisation=beside, activation=activation)
        if network.digest() != model.digest:
            advice = "karenina select with the same --out measures what has changed"
            raise InputError(f"{model.path} has changed since the run was recorded: {advice}")
        return network.named(model.name)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Configuration:
        """From what `to_json` gave; a file may hold anything else, which is refused by one error or another."""
        made = cls(
            models=tuple(Model(**model) for model in content["models"]),
            domain_file=content["domain_file"],
            domain_text=content["domain_text"],
            context=Context(**content["context"]),
            distance=content["distance"],
            conditions=tuple(content["conditions"]),
            options=dict(content["options"]),
            settings={name: _read(value) for name, value in content["settings"].items()},
        )
        made._check()
        return made

    def _check(self) -> None:
        """Refuse what cannot be gone on with."""
        texts = [self.domain_file, self.domain_text, self.distance, *self.conditions]
        texts += [text for model in self.models for text in (model.name, model.path, model.digest)]
        texts += [model.normalisation for model in self.models if model.normalisation is not None]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("what should be text is not")
        if not {"action", "activation"} <= self.options.keys():
            raise KeyError("how models are read is missing")
        distance(self.distance, self.conditions)
        domain_from_toml(self.domain_text, "its domain")
        SelectionSettings(**self.settings)


def _written(value: object) -> object:
    """JSON has no infinity."""
    return "Infinity" if value == math.inf else value


def _read(value: object) -> object:
    return math.inf if value == "Infinity" else value
