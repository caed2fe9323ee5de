"""Tanh [64, 64] policies, as Stable-Baselines3 makes them: time to a gap of 1 %, and the interval after a time limit.

    python benchmarks/tanh.py [--device cpu] [--parts small large] [--times 1 4 15 60] [--pairs 2] [--scales 1 2]
        [--json FILE]

`small`: up to 8 inputs, time until upper - lower <= 1 % of lower, beside the prototype's time to the same gap. `large`:
Hopper, HalfCheetah and BipedalWalker with 11, 17 and 24 inputs, the interval after each of the times, every time a new
search. Pendulum, CartPole and Acrobot are the policies that ship, on a box of the states of rollouts (CartPole: of its
domain) and on one twice as wide; `gym_policies.py` has trained two seeds of each other kind, and the box is that of the
states they meet. The prototype's policies and boxes were other ones of the same kinds. The linf distance: all outputs
and both signs together.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gym_policies import FOLDER, SEEDS

from karenina import Box, Domain, Engine, Goal, Network, pairwise_disagreement_threshold
from karenina.network import Activation, Layer
from karenina.zoo import load

Row = dict[str, Any]
GAP = 0.01
PENDULUM = Box([-1, -1, -8], [1, 1, 8])
CARTPOLE = Box([-0.6, -4, -0.21, -2.5], [0.6, 4, 0.21, 2.5])
ACROBOT = Box([-1, -1, -1, -1, -12.57, -28.28], [1, 1, 1, 1, 12.57, 28.28])


@dataclass(frozen=True)
class Task:
    """Policies of one kind, and what the prototype needed: seconds to 1 % at x1 and x2, from and to."""

    name: str
    inputs: int
    outputs: int
    box: Box | None = None  # None: of `gym_policies.py`
    prototype: tuple[tuple[float, float], tuple[float, float]] | None = None

    def pairs(self, count: int) -> Iterator[tuple[Network, Network, Box]]:
        """Pairs of policies, and the box of what they see."""
        if self.box is not None:
            networks = list(load(self.name).networks.values())
            for first, second in itertools.islice(zip(networks[::2], networks[1::2], strict=True), count):
                yield first, second, self.box
            return
        if count:
            yield trained(self.name)


SMALL = (
    Task("pendulum", 3, 1, PENDULUM, ((0.1, 0.2), (0.1, 0.2))),
    Task("cartpole_discrete", 4, 2, CARTPOLE, ((0.1, 0.2), (0.1, 0.2))),
    Task("acrobot", 6, 3, ACROBOT, ((0.5, 2.3), (2.0, 6.0))),
    Task("lunarlander", 8, 2, prototype=((2.0, 3.5), (15.0, 25.0))),
)
LARGE = (Task("hopper", 11, 3), Task("halfcheetah", 17, 6), Task("bipedalwalker", 24, 4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--parts", nargs="+", default=["small", "large"], choices=["small", "large"])
    parser.add_argument("--times", nargs="+", type=float, default=[1, 4, 15, 60], help="seconds, of the large ones")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a pair, of the small ones")
    parser.add_argument("--pairs", type=int, default=2, help="of each kind that ships; of the others there is one")
    parser.add_argument("--scales", nargs="+", type=float, default=[1, 2], help="widths of the box")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    arguments = parser.parse_args()
    parts = {"small": (SMALL, small), "large": (LARGE, large)}
    rows: list[Row] = []
    for part in arguments.parts:
        tasks, measure = parts[part]
        print(HEADS[part] + "\n|" + " --- |" * (HEADS[part].count("|") - 1))
        for task, scale in itertools.product(tasks, arguments.scales):
            for row in measure(task, scale, arguments):
                rows.append({"part": part, "device": arguments.device, "scale": scale, **row})
                if arguments.json:
                    arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


HEADS = {
    "small": "| policies | inputs/outputs | box | root gap | ours to 1 %, s | unfinished | prototype, s | ratio |",
    "large": "| policies | inputs/outputs | box | seconds | lower | upper | gap | boxes |",
}


def ask(pair: tuple[Network, Network, Box], scale: float, goal: Goal, device: str) -> Row:
    """The interval, the gap, seconds from the call to the answer, boxes."""
    first, second, box = pair
    middle, radius = (box.lower + box.upper) / 2, (box.upper - box.lower) / 2
    domain = Domain(Box(middle - scale * radius, middle + scale * radius))
    start = time.perf_counter()
    found = pairwise_disagreement_threshold(first, second, domain, "linf", goal=goal, backend=Engine(device))
    seconds, gap = time.perf_counter() - start, (found.upper - found.lower) / max(found.lower, 1e-300)
    known = {"lower": found.lower, "upper": found.upper, "gap": gap, "boxes": found.boxes}
    return {**known, "seconds": seconds, "finished": found.status.finished}


def small(task: Task, scale: float, arguments: argparse.Namespace) -> list[Row]:
    """Every pair to the gap; ratios are to the middle (geometrically) of the prototype's range."""
    rows = []
    for number, pair in enumerate(task.pairs(arguments.pairs)):
        root = ask(pair, scale, Goal(1e300), arguments.device)  # start-up, too
        found = ask(pair, scale, Goal(0.0, GAP, time_limit=arguments.limit), arguments.device)
        rows.append({"policies": task.name, "pair": number, "root_gap": root["gap"], **found})
    roots, seconds = ([row[key] for row in rows] for key in ("root_gap", "seconds"))
    cells = f"| {task.name} | {task.inputs}/{task.outputs} | x{scale:g} | {mean(roots):.0%} | {mean(seconds):.3f} |"
    print(cells, sum(not row["finished"] for row in rows), end=" ")
    if task.prototype is None or scale not in (1, 2):
        print("| – | – |", flush=True)
        return rows
    low, high = task.prototype[int(scale) - 1]
    print(f"| {low:g} to {high:g} | {math.sqrt(low * high) / mean(seconds):.1f} |", flush=True)
    return [{**row, "prototype": [low, high]} for row in rows]


def large(task: Task, scale: float, arguments: argparse.Namespace) -> list[Row]:
    """One pair, a search for each time."""
    rows = []
    (pair,) = task.pairs(1)
    ask(pair, scale, Goal(1e300), arguments.device)  # start-up
    for limit in (0.0, *arguments.times):
        found = ask(pair, scale, Goal(0.0, GAP, time_limit=limit), arguments.device)
        rows.append({"policies": task.name, "limit": limit, **found})
        interval = "{seconds:.1f} | {lower:.4g} | {upper:.4g} | {gap:.1%} | {boxes:,}".format(**found)
        print(f"| {task.name} | {task.inputs}/{task.outputs} | x{scale:g} | {interval} |", flush=True)
    return rows


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(math.log(max(value, 1e-300)) for value in values) / len(values))


def trained(name: str) -> tuple[Network, Network, Box]:
    """The two policies of `gym_policies.py`, and the box of what they meet."""
    with np.load(FOLDER / f"{name}.npz") as arrays:
        networks = []
        for seed in SEEDS:
            weights = [arrays[f"{seed}.{k}.weight"] for k in range(3)]
            biases = [arrays[f"{seed}.{k}.bias"] for k in range(3)]
            kinds = Activation("tanh"), Activation("tanh"), Activation("identity")
            networks.append(Network(tuple(map(Layer.of, weights, biases, kinds)), f"{name}_{seed}"))
        lower, upper = (arrays[side].astype(np.float64) for side in ("lower", "upper"))
    return networks[0], networks[1], Box(lower, upper)


if __name__ == "__main__":
    main()
