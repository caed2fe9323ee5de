"""The populations the experiments are made on. Enters: a name of the zoo. Leaves: a `Subject`, its rewards as arrays.

A population is only a name here: one that the zoo ships later takes part in every experiment that fits it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from karenina.domain import Domain
from karenina.network import Network
from karenina.zoo.population import load, shipped

__all__ = ["IN_DISTRIBUTION", "OOD", "PAPER", "Array", "Flags", "Subject", "subject", "subjects", "title"]

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

IN_DISTRIBUTION, OOD = "in-distribution", "ood"
PAPER = ("cartpole", "mountaincar", "aurora_short", "aurora_long")  # the paper's own
_TITLES = {"mountaincar": "Mountain Car", "aurora_short": "Aurora (short)", "aurora_long": "Aurora (long)"}


@dataclass(frozen=True, eq=False)
class Subject:
    """Policies of a population that passed its filter, all or the first; the named set are the places of `chosen`."""

    name: str
    names: tuple[str, ...]
    chosen: tuple[int, ...]
    networks: tuple[Network, ...]
    domain: Domain
    distance: str
    paper_tolerance: float  # of the paper's disagreement thresholds
    threshold: float  # of reward, above which a policy is good
    rewards: dict[str, Array]  # preset -> (models,) mean reward
    passed: int  # how many policies passed the filter, those left out here included

    @property
    def good(self) -> Flags:
        """(models,) whether each is good out-of-distribution."""
        return self.good_in(OOD)

    def good_in(self, preset: str) -> Flags:
        found: Flags = self.rewards[preset] > self.threshold
        return found

    def first(self, count: int) -> Subject:
        """The first models only, the named set first; at least that."""
        kept = max(count, len(self.chosen))
        rewards = {preset: values[:kept] for preset, values in self.rewards.items()}
        return replace(self, names=self.names[:kept], networks=self.networks[:kept], rewards=rewards)

    @property
    def out_presets(self) -> tuple[str, ...]:
        """The out-of-distribution presets with a distribution of their own: not those of one side only."""
        sides = ("-left", "-right")
        return tuple(preset for preset in self.rewards if preset.startswith(OOD) and not preset.endswith(sides))


def subject(name: str) -> Subject:
    """A shipped population, all of it."""
    population = load(name, everything=True)
    names = tuple(population.networks)
    presets = list(next(iter(population.rewards.values())))
    return Subject(
        name,
        names,
        tuple(names.index(chosen) for chosen in population.provenance["chosen"]),
        tuple(population.networks.values()),
        population.domain,
        population.distance,
        population.tolerance,
        float(population.provenance["evaluation"]["threshold"]),
        {p: np.array([own[p]["mean"] for own in population.rewards.values()], dtype=np.float64) for p in presets},
        len(names),
    )


def subjects() -> list[str]:
    """The names of all populations that ship, the paper's first."""
    found = shipped()
    return [*(name for name in PAPER if name in found), *(name for name in found if name not in PAPER)]


def title(name: str) -> str:
    """What to call a population in text."""
    return _TITLES.get(name, name.replace("_", " ").capitalize())
