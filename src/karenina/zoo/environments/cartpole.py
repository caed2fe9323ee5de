"""Cartpole with continuous actions: a pole on a cart on a platform, whose ends may lie anywhere.

Enters: `Parameters` or the name of a preset. Leaves: a simulator of any number of episodes.
The observation is x, its velocity, the pole's angle and its velocity; the reward is 1 a step, the failing one
included. Explicit Euler: positions move with the velocities before the step, as in gymnasium's CartPole.
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
from karenina.zoo.environments.simulator import Array, Flags, Seeds, replaced, require_not_negative, require_positive

__all__ = ["PRESETS", "CartPole", "Mapping", "Parameters"]

# How an action a becomes a force, with f for `force`: sign(a) * max(|a|, f), f * sign(a), f * clip(a, -1, 1), or -f
# for the action 0 and f for the action 1, as in gymnasium's CartPole.
# The paper's "action min magnitude" is the first: the force is never weaker than f.
Mapping = Literal["minimum-magnitude", "sign", "clip", "discrete"]
_MAPPINGS = get_args(Mapping)

LEFT, CENTRE, RIGHT = (-10.0, -2.4), (-2.4, 2.4), (2.4, 10.0)


@dataclass(frozen=True)
class Parameters:
    """All that defines the environment; lengths in metres, masses in kilograms, seconds."""

    platforms: tuple[tuple[float, float], ...] = (CENTRE,)  # an episode is played on one, each equally likely
    mapping: Mapping = "minimum-magnitude"
    force: float = 10.0
    action_bound: float = 100.0  # actions are clipped to it; for other mappings than the first to 1
    start_width: float = 0.05  # all four values start within it, x of the middle of the platform
    angle_limit: float = 12 * 2 * math.pi / 360
    episode_steps: int = 500
    gravity: float = 9.8
    cart_mass: float = 1.0
    pole_mass: float = 0.1
    half_length: float = 0.5
    time_step: float = 0.02

    def __post_init__(self) -> None:
        if not self.platforms or any(len(pair) != 2 or not pair[0] < pair[1] for pair in self.platforms):
            raise InputError(f"cartpole: platforms are pairs low < high, at least one, not {self.platforms}")
        if self.mapping not in _MAPPINGS:
            raise InputError(f"cartpole: mapping is one of {', '.join(_MAPPINGS)}, not {self.mapping!r}")
        positive = ("force", "action_bound", "angle_limit", "episode_steps", "cart_mass", "half_length", "time_step")
        require_positive(self, "cartpole", positive)
        require_not_negative(self, "cartpole", ("start_width", "gravity", "pole_mass"))

    def replace(self, **changes: object) -> Parameters:
        """These parameters with some changed."""
        return replaced(self, "cartpole", changes)

    def simulator(self, count: int) -> CartPole:
        return CartPole(self, count)


PRESETS = {
    "in-distribution": Parameters(),
    "ood": Parameters(platforms=(LEFT, RIGHT)),
    "ood-left": Parameters(platforms=(LEFT,)),
    "ood-right": Parameters(platforms=(RIGHT,)),
}


class _Physics(NamedTuple):
    """What the compiled step needs, derived from the parameters once."""

    mapping: int
    force: float
    bound: float
    angle_limit: float
    gravity: float
    pole_mass: float
    pole_moment: float  # mass times half-length
    total_mass: float
    half_length: float
    time_step: float
    episode_steps: int


@compiled
def _begin(seeds: Seeds, where: Flags, platforms: Array, width: float, state: Array, ends: Array) -> None:
    for k in range(len(seeds)):
        if not where[k]:
            continue
        key = key_of(seeds[k], 0)
        low, high = platforms[int(unit(key, 0) * len(platforms))]
        ends[k, 0], ends[k, 1] = low, high
        for i in range(4):
            state[k, i] = (2.0 * unit(key, i + 1) - 1.0) * width
        state[k, 0] += 0.5 * (low + high)


@inlined
def _force(action: float, physics: _Physics) -> float:
    """The force of an action; 0 pushes to the right, because it may not push less than the smallest force."""
    if physics.mapping == 3:
        return physics.force if action > 0.5 else -physics.force
    action = min(max(action, -physics.bound), physics.bound)
    if physics.mapping == 2:
        return physics.force * action
    magnitude = max(abs(action), physics.force) if physics.mapping == 0 else physics.force
    return -magnitude if action < 0.0 else magnitude


@compiled
def _advance(
    actions: Array,
    physics: _Physics,
    ends: Array,
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
        x, velocity, angle, spin = state[k]
        sine, cosine = math.sin(angle), math.cos(angle)
        push = (_force(actions[k, 0], physics) + physics.pole_moment * spin**2 * sine) / physics.total_mass
        lever = physics.half_length * (4.0 / 3.0 - physics.pole_mass * cosine**2 / physics.total_mass)
        turn = (physics.gravity * sine - cosine * push) / lever
        acceleration = push - physics.pole_moment * turn * cosine / physics.total_mass
        x += physics.time_step * velocity
        angle += physics.time_step * spin
        state[k, 0], state[k, 1] = x, velocity + physics.time_step * acceleration
        state[k, 2], state[k, 3] = angle, spin + physics.time_step * turn
        steps[k] += 1
        rewards[k] = 1.0
        terminated[k] = x < ends[k, 0] or x > ends[k, 1] or abs(angle) > physics.angle_limit
        truncated[k] = steps[k] >= physics.episode_steps and not terminated[k]


class CartPole(Episodes):
    """Episodes of the continuous Cartpole."""

    def __init__(self, parameters: Parameters, count: int) -> None:
        super().__init__(count, 4, 1, parameters.episode_steps)
        self.parameters = parameters
        self.action_high = parameters.action_bound if parameters.mapping == "minimum-magnitude" else 1.0
        self.choices = 2 if parameters.mapping == "discrete" else 0
        self.action_low = 0.0 if self.choices else -self.action_high
        self._ends = np.zeros((count, 2))  # of each episode's platform
        self._platforms = np.array(parameters.platforms, np.float64)  # (platforms, 2)
        total = parameters.cart_mass + parameters.pole_mass
        self._physics = _Physics(
            mapping=_MAPPINGS.index(parameters.mapping),
            force=float(parameters.force),
            bound=float(self.action_high),
            angle_limit=float(parameters.angle_limit),
            gravity=float(parameters.gravity),
            pole_mass=float(parameters.pole_mass),
            pole_moment=float(parameters.pole_mass * parameters.half_length),
            total_mass=float(total),
            half_length=float(parameters.half_length),
            time_step=float(parameters.time_step),
            episode_steps=int(parameters.episode_steps),
        )
        self.reset(np.arange(count, dtype=np.uint64))

    @property
    def ends(self) -> Array:
        """Of each episode's platform: (count, low and high)."""
        return self._ends.copy()

    @property
    def observation_low(self) -> Array:
        return -self.observation_high

    @property
    def observation_high(self) -> Array:
        """None: how far a strong push takes the cart and the pole past what ends the episode depends on the push."""
        return np.full(4, float(np.finfo(np.float32).max))

    def _begin(self, seeds: Seeds, where: Flags) -> None:
        _begin(seeds, where, self._platforms, float(self.parameters.start_width), self._observations, self._ends)

    def _advance(self, actions: Array) -> None:
        ends = (self._terminated, self._truncated, self._steps)
        _advance(actions, self._physics, self._ends, self._observations, self._rewards, *ends)
