"""The paper's world: environments, training, evaluation and trained policies.

Everything is imported when it is first used: what ships with the package loads with the core alone, and only
simulating and training need the extra `zoo`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina.zoo.environments.simulator import Simulator, Step, simulator
    from karenina.zoo.evaluation import Evaluation, Rewards, evaluate
    from karenina.zoo.population import Population, load, shipped

_HOME = {
    "environments.simulator": ("Simulator", "Step", "simulator"),
    "evaluation": ("Evaluation", "Rewards", "evaluate"),
    "population": ("Population", "load", "shipped"),
}
_MODULE = {name: f"karenina.zoo.{module}" for module, names in _HOME.items() for name in names}

__all__ = ["Evaluation", "Population", "Rewards", "Simulator", "Step", "evaluate", "load", "shipped", "simulator"]


def __getattr__(name: str) -> object:
    if name not in _MODULE:
        raise AttributeError(f"module 'karenina.zoo' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE[name]), name)


def __dir__() -> list[str]:
    return __all__
