"""Gymnasium's Pendulum: swing up a pole with a torque that is too weak to lift it, and hold it there.

Enters: `Parameters` or the name of a preset. Leaves: a simulator of any number of episodes.
The observation is the cosine and sine of the angle from upright, and its velocity; the reward is minus the square of
the angle, less a tenth of the velocity's square and a thousandth of the torque's. The physics is Pendulum-v1's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError
from karenina.zoo.environments.compiling import compiled
from karenina.zoo.environments.episodes import Episodes
from karenina.zoo.environments.random_numbers import key_of, unit
from karenina.zoo.environments.simulator import Array, Flags, Seeds, replaced, require_not_negative, require_positive

__all__ = ["PRESETS", "Parameters", "Pendulum"]


@dataclass(frozen=True)
class Parameters:
    """All that defines the environment; metres, kilograms, seconds. The defaults are gymnasium's."""

    gravity: float = 10.0
    mass: float = 1.0
    length: float = 1.0
    max_speed: float = 8.0
    max_torque: float = 2.0
    time_step: float = 0.05
    start_angles: tuple[float, float] = (-math.pi, math.pi)
    start_speeds: tuple[tuple[float, float], ...] = ((-1.0, 1.0),)  # from one of these, each equally likely
    episode_steps: int = 200

    def __post_init__(self) -> None:
        require_positive(self, "pendulum", ("mass", "length", "max_speed", "max_torque", "time_step", "episode_steps"))
        require_not_negative(self, "pendulum", ("gravity",))
        for pair in (self.start_angles, *self.start_speeds):
            if len(pair) != 2 or not pair[0] <= pair[1]:
                raise InputError(f"pendulum: start_angles and each of start_speeds are pairs low <= high, not {pair}")
        if not self.start_speeds:
            raise InputError("pendulum: start_speeds needs at least one pair")

    def replace(self, **changes: object) -> Parameters:
        """These parameters with some changed."""
        return replaced(self, "pendulum", changes)

    def simulator(self, count: int) -> Pendulum:
        return Pendulum(self, count)


PRESETS = {
    "in-distribution": Parameters(),
    "ood": Parameters(max_speed=16.0, start_speeds=((-16.0, -8.0), (8.0, 16.0))),
    "ood-heavy": Parameters(mass=2.0),
}


class _Physics(NamedTuple):
    """What the compiled step needs."""

    pull: float  # what gravity adds to the angle's acceleration, by its sine
    push: float  # what the torque adds
    max_speed: float
    max_torque: float
    time_step: float
    episode_steps: int


@compiled
def _begin(seeds: Seeds, where: Flags, angles: Array, speeds: Array, state: Array, observations: Array) -> None:
    for k in range(len(seeds)):
        if where[k]:
            key = key_of(seeds[k], 0)
            low, high = speeds[int(unit(key, 2) * len(speeds))]
            state[k, 0] = angles[0] + unit(key, 0) * (angles[1] - angles[0])
            state[k, 1] = low + unit(key, 1) * (high - low)
            observations[k, 0], observations[k, 1] = math.cos(state[k, 0]), math.sin(state[k, 0])
            observations[k, 2] = state[k, 1]


@compiled
def _advance(
    actions: Array,
    physics: _Physics,
    state: Array,
    observations: Array,
    rewards: Array,
    truncated: Flags,
    steps: npt.NDArray[np.int64],
) -> None:
    for k in range(len(actions)):
        if truncated[k]:
            rewards[k] = 0.0
            continue
        angle, speed = state[k]
        torque = min(max(actions[k, 0], -physics.max_torque), physics.max_torque)
        from_upright = (angle + math.pi) % (2.0 * math.pi) - math.pi
        rewards[k] = -(from_upright**2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed += (physics.pull * math.sin(angle) + physics.push * torque) * physics.time_step
        speed = min(max(speed, -physics.max_speed), physics.max_speed)
        angle += speed * physics.time_step
        state[k, 0], state[k, 1] = angle, speed
        observations[k, 0], observations[k, 1], observations[k, 2] = math.cos(angle), math.sin(angle), speed
        steps[k] += 1
        truncated[k] = steps[k] >= physics.episode_steps


class Pendulum(Episodes):
    """Episodes of the pendulum; none ends but by its length."""

    def __init__(self, parameters: Parameters, count: int) -> None:
        super().__init__(count, 3, 1, parameters.episode_steps)
        self.parameters = parameters
        self.action_low, self.action_high = -float(parameters.max_torque), float(parameters.max_torque)
        self._state = np.zeros((count, 2))  # angle and velocity of each episode
        self._start_angles = np.array(parameters.start_angles, np.float64)  # (2,)
        self._start_speeds = np.array(parameters.start_speeds, np.float64)  # (ranges, low and high)
        self._physics = _Physics(
            pull=float(3.0 * parameters.gravity / (2.0 * parameters.length)),
            push=float(3.0 / (parameters.mass * parameters.length**2)),
            max_speed=float(parameters.max_speed),
            max_torque=float(parameters.max_torque),
            time_step=float(parameters.time_step),
            episode_steps=int(parameters.episode_steps),
        )
        self.reset(np.arange(count, dtype=np.uint64))

    @property
    def angles(self) -> Array:
        """Of each episode, from upright; turns are counted."""
        return self._state[:, 0].copy()

    @property
    def observation_low(self) -> Array:
        return -self.observation_high

    @property
    def observation_high(self) -> Array:
        fastest = max(float(self.parameters.max_speed), float(np.abs(self._start_speeds).max()))
        return np.array([1.0, 1.0, fastest])

    def _begin(self, seeds: Seeds, where: Flags) -> None:
        _begin(seeds, where, self._start_angles, self._start_speeds, self._state, self._observations)

    def _advance(self, actions: Array) -> None:
        ends = (self._truncated, self._steps)
        _advance(actions, self._physics, self._state, self._observations, self._rewards, *ends)
