"""How each benchmark's policies are trained: appendix A of the paper, Stable-Baselines3's defaults where it is silent.

Gymnasium's own tasks are trained with Stable-Baselines3's PPO as it comes, Pendulum with RL-Zoo's settings (but without
state-dependent exploration).

Enters: a benchmark's name, and changes. Leaves: a `Recipe`: algorithm, settings, checkpoints, environment.

Aurora's minibatch is not in the paper (the original Aurora has 2048): it is the default, 64, like all else that the
paper does not state. Its episodes end for good after their last step, because PccNs-v0 says `done` there and does not
tell a time limit from an end; with bootstrapping no episode would ever end, and the critic's values can run away (with
minibatches of 2048 they reached 1e7). A checkpoint's steps are rounded up to whole rollouts, as Stable-Baselines3 does.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from karenina.errors import InputError
from karenina.zoo.environments.simulator import Parameters, parameters
from karenina.zoo.ppo import Settings

__all__ = ["RECIPES", "Recipe", "SacSettings", "StockSettings", "recipe"]


@dataclass(frozen=True)
class SacSettings:
    """Soft actor-critic with state-dependent exploration, as RL-Zoo trains MountainCarContinuous."""

    gamma: float = 0.9999
    batch: int = 512
    buffer: int = 50_000
    gradient_steps: int = 32
    steps: int = 32  # of the environment between two updates
    learning_rate: float = 3e-4
    learning_starts: int = 0
    tau: float = 0.01
    entropy_coefficient: str | float = "auto"  # the paper is silent; RL-Zoo has 0.1
    log_deviation: float = -3.6  # at the start
    largest_mean: float = 5.0
    hidden: tuple[int, int] = (64, 16)

    @property
    def samples(self) -> int:
        """Samples between two updates."""
        return self.steps


@dataclass(frozen=True)
class StockSettings(Settings):
    """Stable-Baselines3's own PPO and policy: two hidden layers of 64 Tanh neurons."""

    hidden: tuple[int, int] = (64, 64)
    activation: str = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation not in ("tanh", "relu"):
            raise InputError(f"the activation is tanh or relu, not {self.activation!r}")


@dataclass(frozen=True)
class Recipe:
    """A training but for its seed."""

    benchmark: str
    settings: Settings | SacSettings
    checkpoints: int
    checkpoint_steps: int
    episode_weight: float = 0.05  # of a new episode in the average reward that the learning curve shows
    environment: Mapping[str, object] = field(default_factory=dict)  # what differs from the in-distribution preset

    def __post_init__(self) -> None:
        if self.checkpoints < 1 or self.checkpoint_steps < 1:
            counts = f"{self.checkpoints} checkpoints of {self.checkpoint_steps} steps"
            raise InputError(f"{self.benchmark}: a training has at least one checkpoint of one step, not {counts}")

    @property
    def algorithm(self) -> str:
        return "PPO" if isinstance(self.settings, Settings) else "SAC"

    @property
    def stock(self) -> bool:
        """Whether only Stable-Baselines3 can train it: the population trainer has PPO with ReLU and one action."""
        return type(self.settings) is not Settings

    @property
    def iterations(self) -> int:
        """Rollouts of a checkpoint."""
        return -(-self.checkpoint_steps // self.settings.samples)

    def parameters(self) -> Parameters:
        """The environment to train in."""
        return parameters(self.benchmark, "in-distribution", **self.environment)

    def described(self) -> dict[str, Any]:
        """Everything that decides what a seed learns, as JSON."""
        environment = dataclasses.asdict(self.parameters())
        whole: dict[str, Any] = json.loads(
            json.dumps(
                {
                    "benchmark": self.benchmark,
                    "algorithm": self.algorithm,
                    "hyperparameters": dataclasses.asdict(self.settings),
                    "checkpoints": self.checkpoints,
                    "checkpoint_steps": self.iterations * self.settings.samples,
                    "episode_weight": self.episode_weight,
                    "environment": environment,
                }
            )
        )
        return whole


_AURORA = Settings(
    gamma=0.99,
    steps=8192,
    epochs=4,
    learning_rate=1e-3,
    value_coefficient=1.0,
    entropy_coefficient=1e-2,
    batch=64,
    bootstrap=False,
)
RECIPES = {
    "cartpole": Recipe("cartpole", Settings(gamma=0.95, batch=128), 10, 50_000),
    "mountaincar": Recipe("mountaincar", SacSettings(), 10, 5_000),
    "aurora_short": Recipe("aurora_short", _AURORA, 6, 656_000, 0.005),
    "aurora_long": Recipe("aurora_long", _AURORA, 6, 656_000, 0.02),
    "pendulum": Recipe("pendulum", StockSettings(gamma=0.9, steps=1024, environments=4, learning_rate=1e-3), 5, 20_480),
    "cartpole_discrete": Recipe("cartpole_discrete", StockSettings(), 5, 20_480),
    "acrobot": Recipe("acrobot", StockSettings(), 5, 20_480),
}


def recipe(
    benchmark: str, hyperparameters: Mapping[str, object] | None = None, environment: Mapping[str, object] | None = None
) -> Recipe:
    """A benchmark's recipe with some hyperparameters (or the number and length of checkpoints) and parameters of
    the environment changed."""
    if benchmark not in RECIPES:
        raise InputError(f"no recipe to train {benchmark!r}; there are {', '.join(RECIPES)}")
    old = RECIPES[benchmark]
    own = {"checkpoints", "checkpoint_steps"}
    changes = dict(hyperparameters or {})
    known = {f.name: getattr(old.settings, f.name) for f in dataclasses.fields(old.settings)}
    known |= {name: getattr(old, name) for name in own}
    for name, value in changes.items():
        _check(benchmark, name, value, known)
    inner: dict[str, Any] = {name: _as_tuple(value) for name, value in changes.items() if name not in own}
    outer: dict[str, Any] = {name: value for name, value in changes.items() if name in own}
    outer["environment"] = {name: _as_tuple(value) for name, value in (environment or {}).items()}
    made = dataclasses.replace(old, settings=dataclasses.replace(old.settings, **inner), **outer)
    made.parameters()  # refuses what the environment does not know
    return made


def _check(benchmark: str, name: str, value: object, known: Mapping[str, object]) -> None:
    if name not in known:
        raise InputError(f"{benchmark} has no hyperparameter {name!r}; it has {', '.join(known)}")
    kinds = {bool: (bool,), int: (int,), float: (int, float), str: (str, int, float), tuple: (list, tuple)}
    kind = type(known[name])
    if not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{benchmark}: {name} is {known[name]!r} by default; {value!r} is not of that kind")


def _as_tuple(value: object) -> object:
    return tuple(map(_as_tuple, value)) if isinstance(value, list | tuple) else value
