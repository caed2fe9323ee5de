"""One episode at a time as gymnasium's `Env`: a simulator with a single episode.

Enters: a benchmark, a preset, parameters to change, a render mode. Leaves: a gymnasium environment.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt

from karenina.zoo.environments.pictures import picture
from karenina.zoo.environments.simulator import parameters
from karenina.zoo.environments.spaces import action_space, observation_space

__all__ = ["DrawnEnvironment", "SingleEnvironment"]

Floats = npt.NDArray[np.float32]


class SingleEnvironment(gymnasium.Env):
    """One of the paper's environments. The keyword arguments beyond these are parameters of the environment.

    `reset(seed=s)` begins the episode that simulators begin for the seed s; without a seed, one at random.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self, benchmark: str, preset: str = "in-distribution", render_mode: str | None = None, **changes: object
    ) -> None:
        self.render_mode = render_mode
        self.simulator = parameters(benchmark, preset, **changes).simulator(1)
        self.observation_space = observation_space(self.simulator)
        self.action_space = action_space(self.simulator)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        chosen = self.np_random.integers(2**63) if seed is None else seed
        observation = self.simulator.reset(np.array([chosen], np.uint64))[0]
        return observation.astype(np.float32), {}

    def step(self, action: npt.NDArray[Any]) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        step = self.simulator.step(np.asarray(action, np.float64).reshape(1, -1))
        ends = (bool(step.terminated[0]), bool(step.truncated[0]))
        return step.observations[0].astype(np.float32), float(step.rewards[0]), *ends, {}


class DrawnEnvironment(SingleEnvironment):
    """One that can be looked at: Cartpole and Mountain Car."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["human", "rgb_array"], "render_fps": 30}

    def __init__(self, benchmark: str, render_mode: str | None = None, **options: Any) -> None:
        super().__init__(benchmark, render_mode=render_mode, **options)
        self._picture = None if render_mode is None else picture(self.simulator, render_mode)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        begun = super().reset(seed=seed, options=options)
        self._show()
        return begun

    def step(self, action: npt.NDArray[Any]) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        taken = super().step(action)
        self._show()
        return taken

    def render(self) -> npt.NDArray[np.uint8] | None:
        return None if self._picture is None else self._picture.draw()

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def close(self) -> None:
        if self._picture is not None:
            self._picture.close()
