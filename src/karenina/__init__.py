"""karenina: select the networks that generalise, by certified pairwise disagreement.

    from karenina import load, load_domain, pairwise_disagreement_threshold
    pairwise_disagreement_threshold(load("a.onnx"), load("b.onnx"), load_domain("domain.toml"))

Everything is imported when it is first used, so that `import karenina` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina.backends import backend
    from karenina.backends.fake import FakeBackend
    from karenina.backends.marabou import Marabou
    from karenina.backends.milp import Milp
    from karenina.disagreement import (
        Disagreement,
        DisagreementTable,
        Measure,
        PairTask,
        disagreement_table,
        measure_here,
        pairwise_disagreement_threshold,
    )
    from karenina.distance import L1, CDistance, ClassDistance, Distance, Linf, distance
    from karenina.domain import Box, Domain
    from karenina.domain_data import domain_from_data
    from karenina.domain_file import load_domain
    from karenina.engine import Engine, Settings
    from karenina.errors import DomainError, InputError, KareninaError, MissingExtra, UnsupportedModel
    from karenina.loading import from_torch, load
    from karenina.network import Activation, Layer, Network, concatenate
    from karenina.query import Answer, Backend, Case, Goal, Query, Status, Verdict
    from karenina.selection import Certainty, Progress, Selection, SelectionSettings, Selector, select
    from karenina.vnnlib import Specification, Verification, load_specification, verify

__version__ = "0.1.0"

_HOME = {
    "backends": ("backend",),
    "backends.fake": ("FakeBackend",),
    "backends.marabou": ("Marabou",),
    "backends.milp": ("Milp",),
    "disagreement": (
        "Disagreement",
        "DisagreementTable",
        "Measure",
        "PairTask",
        "disagreement_table",
        "measure_here",
        "pairwise_disagreement_threshold",
    ),
    "distance": ("CDistance", "ClassDistance", "Distance", "L1", "Linf", "distance"),
    "domain": ("Box", "Domain"),
    "domain_data": ("domain_from_data",),
    "domain_file": ("load_domain",),
    "engine": ("Engine", "Settings"),
    "errors": ("DomainError", "InputError", "KareninaError", "MissingExtra", "UnsupportedModel"),
    "loading": ("from_torch", "load"),
    "network": ("Activation", "Layer", "Network", "concatenate"),
    "query": ("Answer", "Backend", "Case", "Goal", "Query", "Status", "Verdict"),
    "selection": ("Certainty", "Progress", "Selection", "SelectionSettings", "Selector", "select"),
    "vnnlib": ("Specification", "Verification", "load_specification", "verify"),
}
_MODULE = {name: f"karenina.{module}" for module, names in _HOME.items() for name in names}

__all__ = [
    "L1",
    "Activation",
    "Answer",
    "Backend",
    "Box",
    "CDistance",
    "Case",
    "Certainty",
    "ClassDistance",
    "Disagreement",
    "DisagreementTable",
    "Distance",
    "Domain",
    "DomainError",
    "Engine",
    "FakeBackend",
    "Goal",
    "InputError",
    "KareninaError",
    "Layer",
    "Linf",
    "Marabou",
    "Measure",
    "Milp",
    "MissingExtra",
    "Network",
    "PairTask",
    "Progress",
    "Query",
    "Selection",
    "SelectionSettings",
    "Selector",
    "Settings",
    "Specification",
    "Status",
    "UnsupportedModel",
    "Verdict",
    "Verification",
    "__version__",
    "backend",
    "concatenate",
    "disagreement_table",
    "distance",
    "domain_from_data",
    "from_torch",
    "load",
    "load_domain",
    "load_specification",
    "measure_here",
    "pairwise_disagreement_threshold",
    "select",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE:
        raise AttributeError(f"module 'karenina' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE[name]), name)


def __dir__() -> list[str]:
    return __all__
