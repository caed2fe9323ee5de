"""Gymnasium's CartPole-v1: push left or right. The physics and the parameters are Cartpole's.

Enters: `Parameters` or the name of a preset. Leaves: a simulator of any number of episodes.
"""

from __future__ import annotations

from karenina.zoo.environments.cartpole import Parameters

__all__ = ["PRESETS", "Parameters"]

_GYMNASIUM = Parameters(mapping="discrete")
PRESETS = {
    "in-distribution": _GYMNASIUM,
    "ood": _GYMNASIUM.replace(half_length=1.0),
    "ood-longer": _GYMNASIUM.replace(half_length=1.2),
}
