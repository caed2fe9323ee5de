"""Gymnasium's Acrobot: two links, of which only the joint between them is driven, shall swing above a line.

Enters: `Parameters` or the name of a preset. Leaves: a simulator of any number of episodes.
The observation is cosine and sine of the first link's angle from hanging, of the second's from the first, and both
velocities; the action is one of three torques; the reward is -1 a step, 0 for the step that reaches the line. The
physics is Acrobot-v1's: the equations of Sutton and Barto's book, a Runge-Kutta step of fourth order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from karenina.zoo.environments.compiling import compiled, inlined
from karenina.zoo.environments.episodes import Episodes
from karenina.zoo.environments.random_numbers import key_of, unit
from karenina.zoo.environments.simulator import Array, Flags, Seeds, replaced, require_not_negative, require_positive

__all__ = ["PRESETS", "Acrobot", "Parameters"]


@dataclass(frozen=True)
class Parameters:
    """All that defines the environment; metres, kilograms, seconds. The defaults are gymnasium's."""

    first_length: float = 1.0  # the second link's length decides nothing: the line is reached by angles
    first_mass: float = 1.0
    second_mass: float = 1.0
    first_centre: float = 0.5  # of mass, from the link's upper end
    second_centre: float = 0.5
    moment: float = 1.0  # of inertia, of either link
    gravity: float = 9.8
    torque: float = 1.0
    first_speed: float = 4 * math.pi  # the largest
    second_speed: float = 9 * math.pi
    goal_height: float = 1.0  # above the upper joint, were both links 1 long
    start_width: float = 0.1  # angles and velocities start within it
    time_step: float = 0.2
    episode_steps: int = 500

    def __post_init__(self) -> None:
        free = ("gravity", "goal_height", "start_width")
        require_positive(self, "acrobot", (name for name in self.__dataclass_fields__ if name not in free))
        require_not_negative(self, "acrobot", ("gravity", "start_width"))

    def replace(self, **changes: object) -> Parameters:
        """These parameters with some changed."""
        return replaced(self, "acrobot", changes)

    def simulator(self, count: int) -> Acrobot:
        return Acrobot(self, count)


PRESETS = {
    "in-distribution": Parameters(),
    "ood": Parameters(first_length=0.2, first_centre=0.1),
}


class _Physics(NamedTuple):
    """What the compiled step needs: the parameters."""

    first_length: float
    first_mass: float
    second_mass: float
    first_centre: float
    second_centre: float
    moment: float
    gravity: float
    torque: float
    first_speed: float
    second_speed: float
    goal_height: float
    time_step: float
    episode_steps: int


@inlined
def _observe(state: Array, observation: Array) -> None:
    observation[0], observation[1] = math.cos(state[0]), math.sin(state[0])
    observation[2], observation[3] = math.cos(state[1]), math.sin(state[1])
    observation[4], observation[5] = state[2], state[3]


@compiled
def _begin(seeds: Seeds, where: Flags, width: float, state: Array, observations: Array) -> None:
    for k in range(len(seeds)):
        if where[k]:
            key = key_of(seeds[k], 0)
            for i in range(4):
                state[k, i] = (2.0 * unit(key, i) - 1.0) * width
            _observe(state[k], observations[k])


@inlined
def _accelerations(own: _Physics, torque: float, a: float, b: float, u: float, v: float) -> tuple[float, float]:
    """Of the angles a and b, whose velocities are u and v; the book's names for the rest."""
    lever = own.second_mass * own.first_length * own.second_centre
    inertia = own.second_mass * own.second_centre**2 + own.moment
    d1 = own.first_mass * own.first_centre**2 + own.second_mass * own.first_length**2 + inertia + own.moment
    d1 += 2.0 * lever * math.cos(b)
    d2 = inertia + lever * math.cos(b)
    phi2 = own.second_mass * own.second_centre * own.gravity * math.cos(a + b - math.pi / 2.0)
    phi1 = -lever * v**2 * math.sin(b) - 2.0 * lever * v * u * math.sin(b) + phi2
    weight = own.first_mass * own.first_centre + own.second_mass * own.first_length
    phi1 += weight * own.gravity * math.cos(a - math.pi / 2.0)
    second = (torque + d2 / d1 * phi1 - lever * u**2 * math.sin(b) - phi2) / (inertia - d2**2 / d1)
    return -(d2 * second + phi1) / d1, second


@inlined
def _integrate(own: _Physics, torque: float, state: Array) -> None:
    """One Runge-Kutta step of fourth order, in place."""
    h = own.time_step
    a, b, u, v = state
    u1, v1 = u, v
    p1, q1 = _accelerations(own, torque, a, b, u1, v1)
    u2, v2 = u + h / 2 * p1, v + h / 2 * q1
    p2, q2 = _accelerations(own, torque, a + h / 2 * u1, b + h / 2 * v1, u2, v2)
    u3, v3 = u + h / 2 * p2, v + h / 2 * q2
    p3, q3 = _accelerations(own, torque, a + h / 2 * u2, b + h / 2 * v2, u3, v3)
    u4, v4 = u + h * p3, v + h * q3
    p4, q4 = _accelerations(own, torque, a + h * u3, b + h * v3, u4, v4)
    state[0] = a + h / 6 * (u1 + 2 * u2 + 2 * u3 + u4)
    state[1] = b + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
    state[2] = u + h / 6 * (p1 + 2 * p2 + 2 * p3 + p4)
    state[3] = v + h / 6 * (q1 + 2 * q2 + 2 * q3 + q4)


@inlined
def _wrapped(angle: float) -> float:
    while angle > math.pi:
        angle -= 2.0 * math.pi
    while angle < -math.pi:
        angle += 2.0 * math.pi
    return angle


@compiled
def _advance(
    actions: Array,
    physics: _Physics,
    state: Array,
    observations: Array,
    rewards: Array,
    terminated: Flags,
    truncated: Flags,
    steps: npt.NDArray[np.int64],
) -> None:
    for k in range(len(actions)):
        if terminated[k] or truncated[k]:
            rewards[k] = 0.0
            continue
        own = state[k]
        _integrate(physics, physics.torque * (actions[k, 0] - 1.0), own)
        own[0], own[1] = _wrapped(own[0]), _wrapped(own[1])
        own[2] = min(max(own[2], -physics.first_speed), physics.first_speed)
        own[3] = min(max(own[3], -physics.second_speed), physics.second_speed)
        _observe(own, observations[k])
        steps[k] += 1
        terminated[k] = -math.cos(own[0]) - math.cos(own[1] + own[0]) > physics.goal_height
        truncated[k] = steps[k] >= physics.episode_steps and not terminated[k]
        rewards[k] = 0.0 if terminated[k] else -1.0


class Acrobot(Episodes):
    """Episodes of the acrobot."""

    choices = 3  # torques: negative, none, positive

    def __init__(self, parameters: Parameters, count: int) -> None:
        super().__init__(count, 6, 1, parameters.episode_steps)
        self.parameters = parameters
        self.action_low, self.action_high = 0.0, 2.0
        self._state = np.zeros((count, 4))  # both angles and their velocities, of each episode
        same = {name: float(getattr(parameters, name)) for name in _Physics._fields if name != "episode_steps"}
        self._physics = _Physics(episode_steps=int(parameters.episode_steps), **same)
        self.reset(np.arange(count, dtype=np.uint64))

    @property
    def states(self) -> Array:
        """Both angles and both velocities of each episode: (count, 4)."""
        return self._state.copy()

    @property
    def observation_low(self) -> Array:
        return -self.observation_high

    @property
    def observation_high(self) -> Array:
        own = self.parameters
        speeds = [max(float(own.start_width), float(fastest)) for fastest in (own.first_speed, own.second_speed)]
        return np.array([1.0, 1.0, 1.0, 1.0, *speeds])

    def _begin(self, seeds: Seeds, where: Flags) -> None:
        _begin(seeds, where, float(self.parameters.start_width), self._state, self._observations)

    def _advance(self, actions: Array) -> None:
        ends = (self._terminated, self._truncated, self._steps)
        _advance(actions, self._physics, self._state, self._observations, self._rewards, *ends)
