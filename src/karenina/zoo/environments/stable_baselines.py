"""A simulator as Stable-Baselines3's `VecEnv`.

Enters: any simulator. Leaves: environments to train and evaluate with; a finished episode is followed by a new one
in the same step, and its infos hold its last observation, whether it was cut, its reward and its length.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv

from karenina.zoo.environments.autoreset import Autoreset
from karenina.zoo.environments.simulator import Simulator, Step
from karenina.zoo.environments.spaces import action_space, observation_space

__all__ = ["StableBaselinesEnvironments"]

Floats = npt.NDArray[np.float32]
Indices = int | Sequence[int] | None


class StableBaselinesEnvironments(VecEnv):
    """All episodes of a simulator, side by side. `seed` takes effect at the next reset, as always there."""

    def __init__(self, simulator: Simulator, seed: int | None = None) -> None:
        super().__init__(simulator.count, observation_space(simulator), action_space(simulator))
        self.episodes = Autoreset(simulator, seed)
        self._actions = np.zeros((simulator.count, simulator.action_size))
        self._totals, self._lengths = np.zeros(simulator.count), np.zeros(simulator.count, np.int64)
        self._began = time.time()

    def reset(self) -> Floats:
        observations = self.episodes.begin(self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        self._totals[:] = self._lengths[:] = 0
        return observations.astype(np.float32)

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        self._actions = np.asarray(actions, np.float64).reshape(self._actions.shape)  # discrete ones come flat

    def step_wait(self) -> tuple[Floats, Floats, npt.NDArray[np.bool_], list[dict[str, Any]]]:
        step = self.episodes.simulator.step(self._actions)
        done = step.finished
        self._totals += step.rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        observations = step.observations
        if done.any():
            for k in np.flatnonzero(done):
                infos[k] = self._ended(int(k), step)
            self._totals[done] = self._lengths[done] = 0
            observations = self.episodes.restart(done)
        return observations.astype(np.float32), step.rewards.astype(np.float32), done, infos

    def _ended(self, k: int, step: Step) -> dict[str, Any]:
        seconds = round(time.time() - self._began, 6)
        return {
            "TimeLimit.truncated": bool(step.truncated[k]),
            "terminal_observation": step.observations[k].astype(np.float32),
            "episode": {"r": float(self._totals[k]), "l": int(self._lengths[k]), "t": seconds},
        }

    def close(self) -> None:
        """Nothing is held."""

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """The simulator's attribute, the same for all; the environments are not rendered."""
        count = len(list(self._get_indices(indices)))
        return [None if attr_name == "render_mode" else getattr(self.episodes.simulator, attr_name)] * count

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        raise NotImplementedError(f"episodes share one simulator: make one with another {attr_name}")

    def env_method(self, method_name: str, *_: Any, indices: Indices = None, **__: Any) -> list[Any]:
        raise NotImplementedError(f"episodes share one simulator: there is no {method_name} of one of them")

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:  # noqa: ARG002
        return [False for _ in self._get_indices(indices)]
