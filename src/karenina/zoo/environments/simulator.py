"""What every environment is to the rest of the zoo: many independent episodes, stepped by one compiled call.

Enters: a benchmark's name, a preset or parameters, and how many episodes. Leaves: a `Simulator`.
An episode is determined by its seed and the parameters alone: the same scenario, whatever the policy, the number
of episodes beside it, or their order.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from karenina.errors import InputError, MissingExtra

__all__ = [
    "ENVIRONMENTS",
    "Array",
    "Flags",
    "Parameters",
    "Seeds",
    "Simulator",
    "Step",
    "parameters",
    "replaced",
    "require_not_negative",
    "require_positive",
    "simulator",
]

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Seeds = npt.NDArray[np.uint64]

# Benchmark -> the module that simulates it, and what differs from that module's presets.
ENVIRONMENTS: dict[str, tuple[str, dict[str, int]]] = {
    "cartpole": ("cartpole", {}),
    "mountaincar": ("mountaincar", {}),
    "aurora": ("aurora", {}),
    "aurora_short": ("aurora", {"episode_steps": 50}),
    "aurora_long": ("aurora", {"episode_steps": 400}),
    "pendulum": ("pendulum", {}),
    "cartpole_discrete": ("cartpole_discrete", {}),
    "acrobot": ("acrobot", {}),
}


@dataclass(frozen=True)
class Step:
    """What one step gave each episode."""

    observations: Array  # (count, observation_size)
    rewards: Array  # (count,)
    terminated: Flags  # (count,): the episode reached an end of its own
    truncated: Flags  # (count,): it only ran out of steps

    @property
    def finished(self) -> Flags:
        return self.terminated | self.truncated


class Simulator(Protocol):
    """`count` independent episodes of one environment.

    A fresh one stands at the beginning of the episodes with seeds 0 ... count - 1.
    """

    @property
    def count(self) -> int: ...
    @property
    def observation_size(self) -> int: ...
    @property
    def action_size(self) -> int: ...
    @property
    def action_low(self) -> float: ...
    @property
    def action_high(self) -> float: ...
    @property
    def choices(self) -> int: ...  # of a discrete action, which is then 0, 1, ...; 0: a number within the bounds
    @property
    def episode_steps(self) -> int: ...
    @property
    def observation_low(self) -> Array: ...  # (observation_size,)
    @property
    def observation_high(self) -> Array: ...

    def reset(self, seeds: Seeds, where: Flags | None = None) -> Array:
        """Begin the episodes of the mask afresh, episode k with seeds[k]; the observations of all episodes.

        seeds: (count,); where: (count,), all episodes if None.
        """

    def step(self, actions: Array) -> Step:
        """One step of every episode; actions: (count, action_size).

        A finished episode stands still, with reward 0, until it is begun afresh.
        """


class Parameters(Protocol):
    """All that defines an environment, as a frozen dataclass; each environment has its own."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def simulator(self, count: int) -> Simulator: ...
    def replace(self, **changes: object) -> Parameters: ...


Chosen = TypeVar("Chosen", bound=Parameters)


def require_positive(of: object, environment: str, names: Iterable[str]) -> None:
    """Refuse parameters that are not positive and finite."""
    for name in names:
        if not 0 < getattr(of, name) < math.inf:
            raise InputError(f"{environment}: {name} must be positive, not {getattr(of, name)}")


def require_not_negative(of: object, environment: str, names: Iterable[str]) -> None:
    """Refuse parameters that are negative or infinite."""
    for name in names:
        if not 0 <= getattr(of, name) < math.inf:
            raise InputError(f"{environment}: {name} must not be negative, but is {getattr(of, name)}")


def replaced(old: Chosen, environment: str, changes: dict[str, object]) -> Chosen:
    """Parameters with some changed; unknown names and values of another kind are refused."""
    defaults = {field.name: field.default for field in dataclasses.fields(old)}
    for name, value in changes.items():
        if name not in defaults:
            raise InputError(f"{environment} has no parameter {name!r}; it has {', '.join(defaults)}")
        if not _alike(value, defaults[name]):
            raise InputError(f"{environment}: {name} is {defaults[name]!r} by default; {value!r} is not of that kind")
    return dataclasses.replace(old, **{name: _tuples(value) for name, value in changes.items()})


def _alike(value: object, default: object) -> bool:
    """Whether a value is of the default's kind; what is None by default may be a number."""
    if isinstance(default, tuple):
        return isinstance(value, tuple | list) and all(_alike(part, default[0]) for part in value)
    if default is None and value is None:
        return True
    kinds = {int: (int,), str: (str,)}.get(type(default), (int, float))
    return isinstance(value, kinds) and not isinstance(value, bool)


def _tuples(value: object) -> object:
    """JSON has lists where parameters have tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def parameters(benchmark: str, preset: str | Parameters = "in-distribution", **changes: object) -> Parameters:
    """The parameters of a benchmark's preset, with some changed."""
    if benchmark not in ENVIRONMENTS:
        raise InputError(f"unknown benchmark {benchmark!r}; known: {', '.join(ENVIRONMENTS)}")
    module, own = ENVIRONMENTS[benchmark]
    try:
        environment = importlib.import_module(f"karenina.zoo.environments.{module}")
    except ModuleNotFoundError as missing:
        raise MissingExtra(str(missing.name), "zoo") from missing
    if isinstance(preset, str):
        if preset not in environment.PRESETS:
            raise InputError(f"{benchmark} has no preset {preset!r}; it has {', '.join(environment.PRESETS)}")
        chosen: Parameters = environment.PRESETS[preset].replace(**own)
    elif isinstance(preset, environment.Parameters):
        chosen = preset
    else:
        raise InputError(f"{benchmark} takes the parameters of {environment.__name__}, not {type(preset).__qualname__}")
    return chosen.replace(**changes) if changes else chosen


def simulator(benchmark: str, preset: str | Parameters = "in-distribution", count: int = 1) -> Simulator:
    """`count` episodes of a benchmark, in one of its presets or under parameters of your own."""
    return parameters(benchmark, preset).simulator(count)
