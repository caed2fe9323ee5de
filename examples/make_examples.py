"""Make the networks of this folder: `python examples/make_examples.py`, some seconds on one core.

The toy network is the paper's Fig. 1. The three `product_*.onnx` networks learn a * b from the same samples of
[-1, 1] x [-1, 1], each from another random start.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from karenina.network import IDENTITY, RELU, Layer, Network

FOLDER = Path(__file__).parent
STEPS = 4000


def toy() -> Network:
    """The paper's Fig. 1: [1, 2] gives 20."""
    return Network((Layer.of([[1, 4], [-3, 2]], [1, -2], RELU), Layer.of([[2, -1]], [0])), "toy")


def product(seed: int) -> tuple[Network, float]:
    """A 2-16-8-1 network that has learnt a * b, and its mean squared error on fresh samples."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    samples = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        x = 2 * torch.rand(256, 2, generator=samples) - 1
        loss = (model(x).squeeze(1) - x.prod(dim=1)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    linear = [module for module in model if isinstance(module, nn.Linear)]
    layers = (Layer.of(m.weight, m.bias, RELU if m is not linear[-1] else IDENTITY) for m in linear)
    return Network(tuple(layers), f"product_{seed}"), loss.item()


def main() -> None:
    """Write the files."""
    torch.set_num_threads(1)
    toy().to_onnx(FOLDER / "toy.onnx")
    for letter, seed in zip("abc", (1, 2, 3), strict=True):
        network, loss = product(seed)
        network.to_onnx(FOLDER / f"product_{letter}.onnx")
        print(f"product_{letter}.onnx: mean squared error {loss:.1e}")


if __name__ == "__main__":
    main()
