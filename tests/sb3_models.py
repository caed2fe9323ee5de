"""Tiny Stable-Baselines3 models for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3

LOW, HIGH = np.array([-2.0, -1.0], np.float32), np.array([2.0, 3.0], np.float32)
BOX = spaces.Box(LOW, HIGH)
OBSERVATIONS = spaces.Box(-1.0, 1.0, (3,))
CONTINUOUS = {"PPO": PPO, "A2C": A2C, "SAC": SAC, "TD3": TD3, "DDPG": DDPG}


def env(action: Any = BOX, observation: Any = OBSERVATIONS) -> Any:
    """An environment whose observations are noise: only the spaces matter here."""
    made = gymnasium.Env()
    made.action_space, made.observation_space = action, observation
    observation.seed(0)
    made.reset = lambda **_: (observation.sample(), {})
    made.step = lambda _: (observation.sample(), 0.0, False, False, {})
    return made


def saved(algorithm: Callable[..., Any], path: Path, world: Any = None, **settings: Any) -> Any:
    """A model with random weights large enough to reach every bound; saved to the path."""
    if algorithm in (SAC, TD3, DDPG, DQN):
        settings["buffer_size"] = 10
    model = algorithm("MlpPolicy", world or env(), seed=0, device="cpu", **settings)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.7)
    model.save(path)
    return model


def observations(count: int = 40) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).uniform(-1, 1, (count, 3)).astype(np.float32)
