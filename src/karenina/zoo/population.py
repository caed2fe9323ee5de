"""The trained populations that ship with karenina.

Enters: a benchmark's name. Leaves: a `Population`: networks in a fixed order, input domain, distance and tolerance (the
paper's, for its benchmarks), rewards as measured, provenance. Needs the core libraries only.

A population's folder holds `manifest.json`, `domain.toml` and the named set of 16 policies; all others that passed
the filter on in-distribution reward lie in its folder `rest`. `karenina.zoo.assembly` makes such folders.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from karenina.domain import Domain
from karenina.domain_file import load_domain
from karenina.errors import InputError
from karenina.loading import load as load_network
from karenina.network import Network

__all__ = ["MEASURES", "Population", "Rewards", "load", "load_population", "shipped"]

Rewards = dict[str, dict[str, Any]]  # preset -> mean, std, good

# Benchmark -> distance, and tolerance of the disagreement thresholds; the first four are the paper's.
MEASURES: dict[str, tuple[str, float]] = {
    "cartpole": ("c-distance", 1.0),
    "mountaincar": ("c-distance", 0.5),
    "aurora_short": ("l1", 1.0),
    "aurora_long": ("l1", 1.0),
    "pendulum": ("l1", 0.01),
    "cartpole_discrete": ("class", 0.1),
    "acrobot": ("class", 0.1),
}


@dataclass(frozen=True, eq=False)
class Population:
    """Policies that differ only in their training's seed, and what they are compared on."""

    benchmark: str
    networks: dict[str, Network]
    domain: Domain
    distance: str
    tolerance: float
    rewards: dict[str, Rewards]  # of every network
    provenance: dict[str, Any]  # what all share under its own keys; what differs under "policies" -> name
    directory: Path

    def __str__(self) -> str:
        return f"{self.benchmark}: {len(self.networks)} policies, {self.distance}"


def shipped() -> list[str]:
    """The benchmarks whose policies ship with this version."""
    return [name for name in MEASURES if (_home(name) / "manifest.json").exists()]


def load(benchmark: str, everything: bool = False) -> Population:
    """The named set of 16 policies of a benchmark, or everything that passed the in-distribution filter."""
    if benchmark not in MEASURES:
        raise InputError(f"unknown benchmark {benchmark!r}; the zoo has {', '.join(MEASURES)}")
    return load_population(_home(benchmark), everything)


def _home(benchmark: str) -> Path:
    return Path(str(files("karenina.zoo"))) / "policies" / benchmark


def load_population(directory: str | Path, everything: bool = False) -> Population:
    """A population from a folder that `karenina.zoo.assembly` made."""
    folder = Path(directory)
    manifest = _manifest(folder / "manifest.json")
    policies: dict[str, dict[str, Any]] = manifest["policies"]
    names = list(policies) if everything else manifest["chosen"]
    distance, tolerance = MEASURES[manifest["benchmark"]]
    return Population(
        manifest["benchmark"],
        {name: _network(folder, name, policies[name]) for name in names},
        load_domain(folder / "domain.toml"),
        distance,
        tolerance,
        {name: policies[name]["rewards"] for name in names},
        {**manifest, "policies": {name: policies[name] for name in names}},
        folder,
    )


def _manifest(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"no trained policies of {path.parent.name} are there: {path} is missing")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        complete = (
            content["benchmark"] in MEASURES
            and all("file" in policy and "rewards" in policy for policy in content["policies"].values())
            and set(content["chosen"]) <= set(content["policies"])
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not the manifest of a population: {error!r}") from None
    if not complete:
        raise InputError(f"{path} is not the manifest of a population: it names policies that it does not describe")
    return dict(content)


def _network(folder: Path, name: str, policy: dict[str, Any]) -> Network:
    """The network, if its file is the one the manifest describes."""
    network = load_network(folder / policy["file"]).named(name)
    if policy.get("digest", network.digest()) != network.digest():
        raise InputError(f"{folder / policy['file']} is not the policy that {folder / 'manifest.json'} describes")
    return network
