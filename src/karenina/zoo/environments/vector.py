"""A simulator as gymnasium's `VectorEnv`.

Enters: any simulator. Leaves: vector environments that begin a new episode in the step after one has ended, as
gymnasium's own do: that step's action is ignored and its reward is 0.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from karenina.zoo.environments.autoreset import Autoreset
from karenina.zoo.environments.simulator import Simulator, parameters
from karenina.zoo.environments.spaces import action_space, observation_space

__all__ = ["VectorEnvironments", "vector_environment"]

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


class VectorEnvironments(VectorEnv):
    """All episodes of a simulator, side by side."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}

    def __init__(self, simulator: Simulator, seed: int | None = None) -> None:
        self.num_envs = simulator.count
        self.single_observation_space = observation_space(simulator)
        self.single_action_space = action_space(simulator)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.episodes = Autoreset(simulator, seed)
        self._finished = np.zeros(self.num_envs, np.bool_)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._finished[:] = False
        return self.episodes.begin(seed).astype(np.float32), {}

    def step(self, actions: npt.NDArray[Any]) -> tuple[Floats, npt.NDArray[np.float64], Flags, Flags, dict[str, Any]]:
        given = np.asarray(actions, np.float64).reshape(self.num_envs, -1)  # discrete ones come flat
        step = self.episodes.simulator.step(given)
        again = self._finished  # these stood still in this step
        observations = self.episodes.restart(again) if again.any() else step.observations
        self._finished = step.finished & ~again
        ends = (step.terminated & ~again, step.truncated & ~again)
        return observations.astype(np.float32), step.rewards, *ends, {}


def vector_environment(
    num_envs: int, benchmark: str, preset: str = "in-distribution", render_mode: None = None, **changes: object
) -> VectorEnvironments:
    """What `gymnasium.make_vec` calls; the changes are parameters of the environment."""
    if render_mode is not None:
        raise ValueError("the vector environments are not rendered: make a single one")
    return VectorEnvironments(parameters(benchmark, preset, **changes).simulator(num_envs))
