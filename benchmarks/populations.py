"""Trained networks of the paper's shapes, for the benchmarks: from a folder, or trained here on the spot.

A folder holds `cartpole/`, `mountaincar/` and `aurora_short/`, each with ONNX policies. Without one, networks of
the same shapes are fitted to a smooth control law, a seed each: real training, if not reinforcement learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from karenina import Box, Domain, Network, from_torch, load


@dataclass(frozen=True)
class Setting:
    """A benchmark of the paper: its network's shape, its domain, its tolerance."""

    name: str
    sizes: tuple[int, ...]
    domain: Domain
    tolerance: float


SETTINGS = (
    Setting("cartpole", (4, 32, 16, 1), Domain(Box([2.4, -2.18, -0.23, -1.3], [10, 2.66, 0.23, 1.22])), 1.0),
    Setting("mountaincar", (2, 64, 16, 1), Domain(Box([-2.4, -0.4], [0.9, 0.134])), 0.5),
    Setting("aurora_short", (30, 32, 16, 1), Domain(Box([-0.007, 1, 0.7] * 10, [0.007, 1.04, 8] * 10)), 1.0),
)


def population(setting: Setting, folder: Path | None, count: int) -> list[Network]:
    """The first networks of a setting, from the folder or fitted here."""
    if folder is None:
        return [_fitted(setting, seed) for seed in range(count)]
    return [load(path) for path in sorted((folder / setting.name).glob("*.onnx"))[:count]]


def _fitted(setting: Setting, seed: int, steps: int = 1500) -> Network:
    """A network fitted to 10 tanh(sum of sines) on the inner half of the domain."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    layers: list[torch.nn.Module] = []
    for a, b in zip(setting.sizes, setting.sizes[1:], strict=False):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    box = setting.domain.boxes[0]
    middle = torch.tensor((box.lower + box.upper) / 2, dtype=torch.float32)
    half = torch.tensor((box.upper - box.lower) / 4, dtype=torch.float32)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        unit = 2 * torch.rand(256, len(middle), generator=generator) - 1
        target = 10 * torch.tanh(torch.sin(2 * unit).sum(1, keepdim=True) / len(middle) ** 0.5)
        loss = (model(middle + half * unit) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return from_torch(model, name=f"{setting.name}-{seed}")
