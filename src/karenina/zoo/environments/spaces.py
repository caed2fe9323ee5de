"""A simulator's spaces as gymnasium writes them. Enters: a simulator. Leaves: boxes of float32, as policies expect, or
choices."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from karenina.zoo.environments.simulator import Simulator

__all__ = ["action_space", "observation_space"]


def observation_space(simulator: Simulator) -> spaces.Box:
    """What one episode's policy sees."""
    low, high = simulator.observation_low.astype(np.float32), simulator.observation_high.astype(np.float32)
    return spaces.Box(low, high, dtype=np.float32)


def action_space(simulator: Simulator) -> spaces.Box | spaces.Discrete:
    """What one episode's policy does."""
    if simulator.choices:
        return spaces.Discrete(simulator.choices)
    low, high = np.float32(simulator.action_low), np.float32(simulator.action_high)
    return spaces.Box(low, high, (simulator.action_size,), np.float32)
