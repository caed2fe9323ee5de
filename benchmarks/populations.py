"""Trained networks of the paper's shapes, for the benchmarks: the policies that ship, or those of a folder.

A folder holds `cartpole/`, `mountaincar/` and `aurora_short/`, each with ONNX policies.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from karenina import Box, Domain, Network, load
from karenina.zoo import load as load_population


@dataclass(frozen=True)
class Setting:
    """A benchmark of the paper: its domain (one platform of Cartpole's two), its tolerance."""

    name: str
    domain: Domain
    tolerance: float


SETTINGS = (
    Setting("cartpole", Domain(Box([2.4, -2.18, -0.23, -1.3], [10, 2.66, 0.23, 1.22])), 1.0),
    Setting("mountaincar", Domain(Box([-2.4, -0.4], [0.9, 0.134])), 0.5),
    Setting("aurora_short", Domain(Box([-0.007, 1, 0.7] * 10, [0.007, 1.04, 8] * 10)), 1.0),
)


def population(setting: Setting, folder: Path | None, count: int) -> list[Network]:
    """The first networks of a setting, from the folder or as they ship."""
    if folder is None:
        return list(load_population(setting.name, everything=count > 16).networks.values())[:count]
    return [load(path) for path in sorted((folder / setting.name).glob("*.onnx"))[:count]]
