"""What all simulators keep: where each episode stands and whether it is over.

Enters: seeds and actions, checked here. Leaves: observations and `Step`s, as copies that stay as they are.
An environment adds `_begin` and `_advance`, which write into the arrays kept here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from karenina.errors import InputError
from karenina.zoo.environments.simulator import Array, Flags, Seeds, Step

__all__ = ["Episodes"]


class Episodes(ABC):
    """A batch of episodes; the base of every simulator."""

    choices = 0  # unless the actions are discrete

    def __init__(self, count: int, observation_size: int, action_size: int, episode_steps: int) -> None:
        if count < 1:
            raise InputError(f"a simulator needs at least one episode, not {count}")
        self.count, self.observation_size, self.action_size = count, observation_size, action_size
        self.episode_steps = episode_steps
        self._observations: Array = np.zeros((count, observation_size))
        self._rewards: Array = np.zeros(count)
        self._terminated: Flags = np.zeros(count, np.bool_)
        self._truncated: Flags = np.zeros(count, np.bool_)
        self._steps = np.zeros(count, np.int64)

    @property
    def observations(self) -> Array:
        """What each episode's policy sees now."""
        return self._observations.copy()

    def reset(self, seeds: Seeds, where: Flags | None = None) -> Array:
        seeds = np.ascontiguousarray(seeds, np.uint64)
        mask = np.ones(self.count, np.bool_) if where is None else np.ascontiguousarray(where, np.bool_)
        if seeds.shape != (self.count,) or mask.shape != (self.count,):
            shapes = f"{seeds.shape} and {mask.shape}"
            raise InputError(f"{self.count} episodes take one seed and one flag each, not arrays of shape {shapes}")
        self._steps[mask] = 0
        self._rewards[mask] = 0.0
        self._terminated[mask] = self._truncated[mask] = False
        self._begin(seeds, mask)
        return self._observations.copy()

    def step(self, actions: Array) -> Step:
        actions = np.ascontiguousarray(actions, np.float64)
        if actions.shape != (self.count, self.action_size):
            shape = (self.count, self.action_size)
            raise InputError(f"the actions of {self.count} episodes have shape {shape}, not {actions.shape}")
        if not np.isfinite(actions).all():
            raise InputError("an action is NaN or infinite")
        if self.choices and not np.isin(actions, np.arange(self.choices)).all():
            raise InputError(f"the actions are the whole numbers 0 to {self.choices - 1} here")
        self._advance(actions)
        return Step(self._observations.copy(), self._rewards.copy(), self._terminated.copy(), self._truncated.copy())

    @abstractmethod
    def _begin(self, seeds: Seeds, where: Flags) -> None:
        """Begin the episodes of the mask; write their observations."""

    @abstractmethod
    def _advance(self, actions: Array) -> None:
        """One step of all episodes that are not over; write observations, rewards, ends and step counts."""
