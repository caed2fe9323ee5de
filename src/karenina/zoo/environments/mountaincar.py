"""Mountain Car with continuous actions: a car too weak for the hill must swing up to it.

Enters: `Parameters` or the name of a preset. Leaves: a simulator of any number of episodes.
The observation is the position and the velocity; the reward is 100 at the goal, less a penalty for every action.

The paper does not say what its "x scale factor" does to the valley (`slope`, `height_scale`) and which action the
penalty is on (`penalty`). The defaults are the reading whose trained policies earn what the paper reports: the hills
keep their height over an axis that is longer by the scale, so they are less steep by it, and the penalty is on the
action as a share of the largest one. docs/zoo/mountaincar.md has the figures of the readings that were tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError
from karenina.zoo.environments.compiling import compiled, inlined
from karenina.zoo.environments.episodes import Episodes
from karenina.zoo.environments.random_numbers import key_of, unit
from karenina.zoo.environments.simulator import Array, Flags, Seeds, replaced, require_positive

__all__ = ["PRESETS", "MountainCar", "Parameters", "Penalty", "Slope"]

# The valley is as steep at x as cos(3 x / scale) or as cos(3 x scale).
Slope = Literal["divide", "multiply"]
# The action that is squared: as given, clipped to its bounds, or clipped and then rescaled to [-1, 1].
Penalty = Literal["raw", "clipped", "rescaled"]
_PENALTIES = get_args(Penalty)


@dataclass(frozen=True)
class Parameters:
    """All that defines the environment."""

    min_position: float = -1.2
    max_position: float = 0.6
    goal_position: float = 0.45
    goal_velocity: float = 0.0
    min_action: float = -2.0
    max_action: float = 2.0
    max_speed: float = 0.4
    start_positions: tuple[float, float] = (-0.9, -0.6)
    start_velocities: tuple[float, float] = (0.0, 0.0)
    scale: float = 1.5
    slope: Slope = "divide"
    height_scale: float = 2 / 3  # of the slope: 1 / scale leaves gymnasium's height to the wider hills
    power: float = 0.0015
    gravity: float = 0.0025
    penalty: Penalty = "rescaled"
    penalty_weight: float = 0.1
    goal_reward: float = 100.0
    episode_steps: int = 300

    def __post_init__(self) -> None:
        for low, high in (("min_position", "max_position"), ("min_action", "max_action")):
            if not getattr(self, low) < getattr(self, high):
                raise InputError(f"mountaincar: {low} must be less than {high}")
        for name in ("start_positions", "start_velocities"):
            pair = getattr(self, name)
            if len(pair) != 2 or not pair[0] <= pair[1]:
                raise InputError(f"mountaincar: {name} is a pair low <= high, not {pair}")
        require_positive(self, "mountaincar", ("max_speed", "scale", "episode_steps"))
        for name, known in (("slope", get_args(Slope)), ("penalty", _PENALTIES)):
            if getattr(self, name) not in known:
                raise InputError(f"mountaincar: {name} is one of {', '.join(known)}, not {getattr(self, name)!r}")

    @property
    def frequency(self) -> float:
        """The valley is as steep at x as cos(frequency * x)."""
        return 3.0 / self.scale if self.slope == "divide" else 3.0 * self.scale

    def replace(self, **changes: object) -> Parameters:
        """These parameters with some changed."""
        return replaced(self, "mountaincar", changes)

    def simulator(self, count: int) -> MountainCar:
        return MountainCar(self, count)


PRESETS = {
    "in-distribution": Parameters(),
    "ood": Parameters(
        min_position=-2.4,
        max_position=1.2,
        goal_position=0.9,
        start_positions=(0.4, 0.5),
        start_velocities=(-0.4, -0.3),
    ),
}


class _Physics(NamedTuple):
    """What the compiled step needs."""

    penalty: int
    min_position: float
    max_position: float
    goal_position: float
    goal_velocity: float
    min_action: float
    max_action: float
    max_speed: float
    frequency: float
    power: float
    pull: float  # gravity times the height's scale
    penalty_weight: float
    goal_reward: float
    episode_steps: int


@compiled
def _begin(seeds: Seeds, where: Flags, ranges: Array, state: Array) -> None:
    for k in range(len(seeds)):
        if where[k]:
            key = key_of(seeds[k], 0)
            for i in range(2):
                state[k, i] = ranges[i, 0] + unit(key, i) * (ranges[i, 1] - ranges[i, 0])


@inlined
def _penalised(action: float, force: float, physics: _Physics) -> float:
    """The action that the penalty squares."""
    if physics.penalty == 0:
        return action
    if physics.penalty == 1:
        return force
    return 2.0 * (force - physics.min_action) / (physics.max_action - physics.min_action) - 1.0


@compiled
def _advance(
    actions: Array,
    physics: _Physics,
    state: Array,
    rewards: Array,
    terminated: Flags,
    truncated: Flags,
    steps: npt.NDArray[np.int64],
) -> None:
    for k in range(len(actions)):
        if terminated[k] or truncated[k]:
            rewards[k] = 0.0
            continue
        position, velocity = state[k]
        force = min(max(actions[k, 0], physics.min_action), physics.max_action)
        velocity += force * physics.power - physics.pull * math.cos(physics.frequency * position)
        velocity = min(max(velocity, -physics.max_speed), physics.max_speed)
        position = min(max(position + velocity, physics.min_position), physics.max_position)
        if position == physics.min_position and velocity < 0.0:
            velocity = 0.0
        state[k, 0], state[k, 1] = position, velocity
        steps[k] += 1
        terminated[k] = position >= physics.goal_position and velocity >= physics.goal_velocity
        truncated[k] = steps[k] >= physics.episode_steps and not terminated[k]
        cost = physics.penalty_weight * _penalised(actions[k, 0], force, physics) ** 2
        rewards[k] = (physics.goal_reward if terminated[k] else 0.0) - cost


class MountainCar(Episodes):
    """Episodes of the continuous Mountain Car."""

    def __init__(self, parameters: Parameters, count: int) -> None:
        super().__init__(count, 2, 1, parameters.episode_steps)
        self.parameters = parameters
        self.action_low, self.action_high = float(parameters.min_action), float(parameters.max_action)
        ranges = [parameters.start_positions, parameters.start_velocities]
        self._ranges = np.array(ranges, np.float64)  # (2, low and high)
        derived = ("penalty", "pull", "episode_steps")
        same = {name: float(getattr(parameters, name)) for name in _Physics._fields if name not in derived}
        self._physics = _Physics(
            penalty=_PENALTIES.index(parameters.penalty),
            pull=float(parameters.gravity * parameters.height_scale),
            episode_steps=int(parameters.episode_steps),
            **same,
        )
        self.reset(np.arange(count, dtype=np.uint64))

    @property
    def observation_low(self) -> Array:
        return np.array([min(self.parameters.min_position, self._ranges[0, 0]), -self._fastest])

    @property
    def observation_high(self) -> Array:
        return np.array([max(self.parameters.max_position, self._ranges[0, 1]), self._fastest])

    @property
    def _fastest(self) -> float:
        return max(self.parameters.max_speed, float(np.abs(self._ranges[1]).max()))

    def _begin(self, seeds: Seeds, where: Flags) -> None:
        _begin(seeds, where, self._ranges, self._observations)

    def _advance(self, actions: Array) -> None:
        ends = (self._terminated, self._truncated, self._steps)
        _advance(actions, self._physics, self._observations, self._rewards, *ends)
