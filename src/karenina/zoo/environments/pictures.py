"""Pictures of an episode, drawn by gymnasium's own classes.

Enters: a simulator of one episode and a render mode. Leaves: an image, or a window, of its state. Gymnasium's
environments only lend their drawing: their state is set from ours before each picture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv

from karenina.errors import InputError
from karenina.zoo.environments.cartpole import CartPole
from karenina.zoo.environments.mountaincar import MountainCar
from karenina.zoo.environments.simulator import Simulator

__all__ = ["Picture", "picture"]


class Picture:
    """Draws a simulator's first episode."""

    def __init__(self, artist: Any, pose: Callable[[Any], None]) -> None:
        self._artist, self._pose = artist, pose

    def draw(self) -> npt.NDArray[np.uint8] | None:
        """The image, or None when it went to a window."""
        self._pose(self._artist)
        image: npt.NDArray[np.uint8] | None = self._artist.render()
        return image

    def close(self) -> None:
        self._artist.close()


def picture(simulator: Simulator, render_mode: str) -> Picture:
    """The picture of the first episode of a simulator."""
    if isinstance(simulator, CartPole):
        cart, plain = simulator, CartPoleEnv(render_mode=render_mode)
        return Picture(plain, lambda artist: _pose_cart(artist, cart))
    if isinstance(simulator, MountainCar):
        car, hills = simulator, Continuous_MountainCarEnv(render_mode=render_mode)
        return Picture(hills, lambda artist: _pose_car(artist, car))
    raise InputError(f"there is no picture of {type(simulator).__name__}")


def _pose_cart(artist: Any, cart: CartPole) -> None:
    """Gymnasium draws platforms around 0, so ours is moved there."""
    low, high = cart.ends[0]
    artist.length, artist.x_threshold = cart.parameters.half_length, (high - low) / 2
    artist.state = cart.observations[0] - np.array([(low + high) / 2, 0, 0, 0])


def _pose_car(artist: Any, car: MountainCar) -> None:
    """Gymnasium draws hills like sin(3 x), so x is rescaled until ours are the same."""
    own = car.parameters
    scale = own.frequency / 3.0
    artist.min_position, artist.max_position = scale * own.min_position, scale * own.max_position
    artist.goal_position = scale * own.goal_position
    artist.state = scale * car.observations[0]
    peak = artist.screen_width / (artist.max_position - artist.min_position)  # in pixels: the hills are 1 high
    artist.screen_height = max(400, int(peak) + 60)  # and a flag may stand on them
