"""What a fuzzed case is about, and its file: networks, boxes, what is asked of them, and how the engine is set.

Enters and leaves: a `Subject`, as JSON that reads back bit for bit.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.distance import CDistance, Distance, distance
from karenina.domain import Box, Domain
from karenina.engine import Engine, Settings
from karenina.network import Activation, Layer, Network
from karenina.query import Goal, Query

__all__ = ["Subject", "from_json", "to_json"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Subject:
    """A query on all its networks, or, by its distance, a question about pairs of them."""

    networks: tuple[Network, ...]
    boxes: tuple[Box, ...]
    objectives: tuple[Array, ...] = ()  # each (all outputs,)
    constraints: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (constraints, all outputs)
    constraint_offsets: Array = field(default_factory=lambda: np.zeros(0))
    distance: str = "l1"
    conditions: tuple[str, ...] = ()  # of the c-distance
    goal: Goal = field(default_factory=lambda: Goal(1e-2, time_limit=1.0))
    settings: Settings = field(default_factory=Settings)
    device: str = "cpu"
    seed: int = 0  # of what the checks draw

    @property
    def domain(self) -> Domain:
        return Domain(self.boxes)

    @property
    def query(self) -> Query:
        """All objectives over all boxes."""
        rows = self.constraints if len(self.constraint_offsets) else None
        offsets = self.constraint_offsets if len(self.constraint_offsets) else None
        return Query.maximise(self.networks, self.domain, self.objectives, constraints=rows, constraint_offsets=offsets)

    @property
    def metric(self) -> Distance:
        return CDistance(self.conditions) if self.conditions else distance(self.distance)

    @property
    def piecewise_linear(self) -> bool:
        return all(network.piecewise_linear for network in self.networks)

    def engine(self, **changes: Any) -> Engine:
        """The engine as the case has it, or with other settings."""
        return Engine(self.device, replace(self.settings, **changes))

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def to_json(subject: Subject, check: str, what: str) -> str:
    """The text of a regression file: the case, the check that failed, and what it said."""
    document = {
        "check": check,
        "said": what,
        "networks": [[_layer(layer) for layer in network.layers] for network in subject.networks],
        "boxes": [[box.lower.tolist(), box.upper.tolist()] for box in subject.boxes],
        "objectives": [row.tolist() for row in subject.objectives],
        "constraints": subject.constraints.tolist(),
        "constraint_offsets": subject.constraint_offsets.tolist(),
        "distance": subject.distance,
        "conditions": list(subject.conditions),
        "goal": {name: None if value == math.inf else value for name, value in asdict(subject.goal).items()},
        "settings": asdict(subject.settings),
        "device": subject.device,
        "seed": subject.seed,
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _layer(layer: Layer) -> dict[str, object]:
    kinds = [[activation.name, list(activation.parameters), count] for activation, count in layer.activations]
    return {"weight": layer.weight.tolist(), "bias": layer.bias.tolist(), "activations": kinds}


def from_json(text: str) -> tuple[str, Subject]:
    """The check, and the case."""
    found: dict[str, Any] = json.loads(text)
    networks = tuple(
        Network(tuple(map(_read_layer, layers)), f"network {place}") for place, layers in enumerate(found["networks"])
    )
    goal = {name: value for name, value in found["goal"].items() if value is not None}
    outputs = sum(network.output_size for network in networks)
    return str(found["check"]), Subject(
        networks,
        tuple(Box(lower, upper) for lower, upper in found["boxes"]),
        tuple(np.array(row, dtype=np.float64) for row in found["objectives"]),
        np.array(found["constraints"], dtype=np.float64).reshape(-1, outputs),
        np.array(found["constraint_offsets"], dtype=np.float64),
        found["distance"],
        tuple(found["conditions"]),
        Goal(**goal),
        Settings(**found["settings"]),
        found["device"],
        found["seed"],
    )


def _read_layer(layer: dict[str, Any]) -> Layer:
    kinds = tuple((Activation(name, tuple(parameters)), count) for name, parameters, count in layer["activations"])
    weight = np.array(layer["weight"], dtype=np.float64).reshape(len(layer["bias"]), -1)
    return Layer.of(weight, np.array(layer["bias"], dtype=np.float64), kinds)
