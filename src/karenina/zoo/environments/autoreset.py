"""Episodes one after the other: what both vector adaptors do. Enters: a simulator and a seed. Leaves: endless steps.

The n-th episode of slot k of a run is the same whatever happens in the other slots.
"""

from __future__ import annotations

import numpy as np

from karenina.zoo.environments.random_numbers import seeds_at
from karenina.zoo.environments.simulator import Array, Flags, Seeds, Simulator

__all__ = ["Autoreset"]


class Autoreset:
    """A simulator whose finished episodes can be followed by new ones."""

    def __init__(self, simulator: Simulator, seed: int | None = None) -> None:
        self.simulator = simulator
        self.seed = _fresh_seed() if seed is None else seed
        self._numbers = np.zeros(simulator.count, np.uint64)  # of the episodes each slot has begun

    def begin(self, seed: int | None = None) -> Array:
        """New episodes in all slots; with a seed, the first ones of the run with that seed."""
        if seed is not None:
            self.seed = seed
            self._numbers[:] = 0
        return self.restart(np.ones(self.simulator.count, np.bool_))

    def restart(self, where: Flags) -> Array:
        """New episodes in the slots of the mask; the observations of all."""
        observations = self.simulator.reset(self._seeds(), where)
        self._numbers[where] += np.uint64(1)
        return observations

    def _seeds(self) -> Seeds:
        """Of the next episode of every slot."""
        slots = np.arange(self.simulator.count, dtype=np.uint64)
        return seeds_at(self.seed, self._numbers * np.uint64(self.simulator.count) + slots)


def _fresh_seed() -> int:
    return int(np.random.default_rng().integers(2**63))
