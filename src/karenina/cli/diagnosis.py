"""What is installed and what works. Enters: nothing. Leaves: a `Diagnosis`.

A back end works if it answers a question whose answer is known: x and -x on [-1, 2] are 4 apart at most.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

__all__ = ["Check", "Diagnosis", "diagnose"]

_CORE = ("torch", "numpy", "onnx", "typer", "rich")
_EXTRAS = ("fast", "plot", "frames", "safetensors", "milp", "gurobi", "marabou", "ray", "zoo")
_SECONDS = 30.0  # for a back end


@dataclass(frozen=True)
class Check:
    """One thing, how it is, and whether that is well."""

    name: str
    found: str
    well: bool


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was looked at."""

    system: tuple[Check, ...]
    extras: tuple[Check, ...]
    backends: tuple[Check, ...]

    @property
    def well(self) -> bool:
        """Whether the core is installed and our own engine answers."""
        return all(check.well for check in self.system) and self.backends[0].well

    def to_dict(self) -> dict[str, object]:
        groups = {"system": self.system, "extras": self.extras, "backends": self.backends}
        told = {name: {c.name: {"found": c.found, "well": c.well} for c in checks} for name, checks in groups.items()}
        return {"well": self.well, **told}


def diagnose() -> Diagnosis:
    """Look at everything; takes some seconds."""
    return Diagnosis(tuple(_system()), tuple(map(_extra, _EXTRAS)), tuple(_backends()))


def _system() -> Iterator[Check]:
    from karenina.presentation import version

    yield Check("karenina", version(), True)
    yield Check("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", True)
    for library in _CORE:
        found = _version(library)
        yield Check(library, found or "missing", found is not None)
    yield Check("cores", str(os.cpu_count() or "unknown"), True)
    yield Check("gpu", _gpu(), True)
    yield _cache()


def _gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        return "none that torch can use"
    return ", ".join(torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count()))


def _cache() -> Check:
    from karenina.store import cache_folder

    try:
        folder = cache_folder()
    except RuntimeError as error:
        return Check("cache", f"none: {error}", True)
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    writable = os.access(there, os.W_OK)
    return Check("cache", f"{folder}{'' if writable else ' (cannot be written)'}", True)


def _extra(extra: str) -> Check:
    """The libraries of an extra, as the installed package declares them."""
    wanted = [re.split(r"[^A-Za-z0-9._-]", need)[0] for need in _requirements() if _belongs(need, extra)]
    if not wanted:
        return Check(extra, "unknown to the installed package: install karenina anew", False)
    found = {library: _version(library) for library in wanted}
    missing = [library for library, installed in found.items() if installed is None]
    if missing:
        return Check(extra, f"{', '.join(missing)} missing: pip install 'karenina[{extra}]'", False)
    return Check(extra, ", ".join(f"{library} {installed}" for library, installed in found.items()), True)


def _requirements() -> list[str]:
    try:
        return metadata.requires("karenina") or []
    except metadata.PackageNotFoundError:
        return []


def _belongs(need: str, extra: str) -> bool:
    return re.search(rf"extra == ['\"]{extra}['\"]", need) is not None


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _backends() -> Iterator[Check]:
    import torch

    for name in ("karenina", "highs", "gurobi", "marabou"):
        yield _backend(name, "cpu")
    if torch.cuda.is_available():
        yield _backend("karenina", "cuda")


def _backend(name: str, device: str) -> Check:
    """Ask it."""
    from karenina.backends import backend
    from karenina.disagreement import pairwise_disagreement_threshold
    from karenina.domain import Box, Domain
    from karenina.errors import MissingExtra
    from karenina.network import Layer, Network
    from karenina.query import Goal

    first, second = (Network((Layer.of([[sign]], [0.0]),), f"{sign:g} x") for sign in (1.0, -1.0))
    label = name if device == "cpu" else f"{name} on {device}"
    try:
        goal = Goal(1e-3, time_limit=_SECONDS)
        found = pairwise_disagreement_threshold(
            first, second, Domain(Box([-1.0], [2.0])), goal=goal, backend=backend(name, device)
        )
    except MissingExtra as error:
        return Check(label, str(error), False)
    except Exception as error:  # whatever is wrong with it is the answer
        return Check(label, f"fails: {type(error).__name__}: {error}", False)
    right = found.lower <= 4.0 + 1e-6 and found.upper >= 4.0 - 1e-6 and found.upper - found.lower < 0.01
    return Check(label, "works" if right else f"answers {found.lower:g} to {found.upper:g} instead of 4", right)
