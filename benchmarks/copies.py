"""Did compression change my model? A network against its float16, int8, pruned and noisy copies, exact to 1e-3.

    python benchmarks/copies.py [--limit 10] [--json FILE]

The first policy of each set with the L1 distance on the paper's domain (one platform of Cartpole): the interval after
at most the limit, boxes, milliseconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from populations import SETTINGS, Setting, population

from karenina import Engine, Goal, Network, pairwise_disagreement_threshold
from karenina.network import Layer

Tensor = torch.Tensor


def float16(weights: Tensor) -> Tensor:
    return weights.half().double()


def int8(weights: Tensor) -> Tensor:
    """One scale a tensor."""
    scale = weights.abs().max() / 127
    return (weights / scale).round() * scale


def pruned(weights: Tensor) -> Tensor:
    """Without the smallest twentieth."""
    return torch.where(weights.abs() < weights.abs().flatten().quantile(0.05), 0.0, weights)


def noisy(share: float) -> Callable[[Tensor], Tensor]:
    """Every weight off by about this share of itself."""
    generator = torch.Generator().manual_seed(0)
    return lambda w: w * (1 + share * torch.randn(w.shape, generator=generator, dtype=torch.float64))


COPIES = {"float16": float16, "int8": int8, "pruned 5 %": pruned, "noise 1 %": noisy(0.01), "noise 5 %": noisy(0.05)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds a pair")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    arguments = parser.parse_args()
    print("| setting | copy | lower | upper | boxes | ms | status |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for setting in SETTINGS:
        for name, change in COPIES.items():
            rows.append(measure(setting, name, change, arguments.limit))
            print(
                "| {setting} | {copy} | {lower:.4f} | {upper:.4f} | {boxes} | {ms:.0f} | {status} |".format(**rows[-1])
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure(setting: Setting, name: str, change: Callable[[Tensor], Tensor], limit: float) -> dict[str, Any]:
    network = population(setting, None, 16)[0]
    layers = [Layer(change(layer.weight), change(layer.bias), layer.activations) for layer in network.layers]
    copy, engine = Network(tuple(layers), "copy"), Engine("cpu")
    pairwise_disagreement_threshold(network, copy, setting.domain, goal=Goal(1e9), backend=engine)  # start-up
    start = time.perf_counter()
    goal = Goal(1e-3, time_limit=limit)
    found = pairwise_disagreement_threshold(network, copy, setting.domain, goal=goal, backend=engine)
    cost = {"boxes": found.boxes, "ms": 1000 * (time.perf_counter() - start), "status": str(found.status)}
    return {"setting": setting.name, "copy": name, "lower": found.lower, "upper": found.upper, **cost}


if __name__ == "__main__":
    main()
