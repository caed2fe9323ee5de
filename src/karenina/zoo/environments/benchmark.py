"""The benchmarks as they are judged: presets, what a policy's output means, and when it is good.

Enters: a benchmark's name. Leaves: its `Benchmark`. Nothing here is guessed from a policy: the description says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karenina.errors import InputError
from karenina.zoo.environments.simulator import Array, Parameters, Simulator, parameters

__all__ = ["BENCHMARKS", "Benchmark", "benchmark_named"]


@dataclass(frozen=True)
class Benchmark:
    """How policies of one benchmark are simulated and judged."""

    name: str
    presets: tuple[str, ...]
    threshold: float  # a policy is good where its mean reward is greater
    reason: str  # where the threshold comes from
    squashed: bool = False  # a policy's output is the action before tanh, which is then rescaled to the bounds
    evaluation_steps: int | None = None  # of an episode, where the preset's number is not what the threshold is for

    def parameters(self, preset: str, **changes: object) -> Parameters:
        """The parameters to evaluate a preset with, with some changed."""
        if preset not in self.presets:
            raise InputError(f"{self.name} has no preset {preset!r}; it has {', '.join(self.presets)}")
        own = {} if self.evaluation_steps is None else {"episode_steps": self.evaluation_steps}
        return parameters(self.name, preset, **(own | changes))

    def actions(self, outputs: Array, simulator: Simulator) -> Array:
        """What a policy does, from what its network says: (episodes, action_size)."""
        if simulator.choices:
            return np.asarray(outputs.argmax(axis=1, keepdims=True), np.float64)
        if not self.squashed:
            return outputs
        low, high = simulator.action_low, simulator.action_high
        return np.asarray(low + 0.5 * (np.tanh(outputs) + 1.0) * (high - low))


_AURORA = (
    "appendix F of the paper, for both kinds of training; a sender that never changes its rate scores 99.0 "
    "out-of-distribution in 50 steps, so episodes of 50 steps are evaluated"
)
_AURORA_PRESETS = ("in-distribution", "ood", "ood-low-mean", "ood-high-mean")
BENCHMARKS = {
    found.name: found
    for found in (
        Benchmark(
            "cartpole",
            ("in-distribution", "ood", "ood-left", "ood-right"),
            250.0,
            "appendix D of the paper: far from the rewards of poor policies, which are usually below 100",
        ),
        Benchmark("mountaincar", ("in-distribution", "ood"), 90.0, "appendix E of the paper", squashed=True),
        Benchmark("aurora_short", _AURORA_PRESETS, 99.0, _AURORA, evaluation_steps=50),
        Benchmark("aurora_long", _AURORA_PRESETS, 99.0, _AURORA, evaluation_steps=50),
        Benchmark(
            "pendulum",
            ("in-distribution", "ood", "ood-heavy"),
            -2000.0,
            "in a gap of the rewards, about halfway between a pendulum that is left to spin (-3,500) and the same "
            "policies were they to brake as hard as they can while it spins faster than in training (about -450)",
        ),
        Benchmark(
            "cartpole_discrete",
            ("in-distribution", "ood", "ood-longer"),
            250.0,
            "as for the paper's Cartpole: half of the steps, in a gap of the rewards",
        ),
        Benchmark(
            "acrobot",
            ("in-distribution", "ood"),
            -280.0,
            "in a gap of the rewards, from -324 to -240: those below need about four times the usual steps",
        ),
    )
}


def benchmark_named(name: str) -> Benchmark:
    """The benchmark of this name."""
    if name not in BENCHMARKS:
        raise InputError(f"unknown benchmark {name!r}; known: {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]
