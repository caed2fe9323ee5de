"""Tanh [64, 64] policies, as Stable-Baselines3 makes them: time to a gap of 1 %, and the interval after a time limit.

    python benchmarks/tanh.py [--device cpu] [--parts small large] [--times 1 4 15 60] [--pairs 2] [--scales 1 2]
        [--json FILE]

`small`: up to 8 inputs, time until upper - lower <= 1 % of lower, beside the prototype's time to the same gap.
Pendulum, CartPole and Acrobot are the policies that ship, on a box of the states of rollouts (CartPole: of its domain)
and on one twice as wide; the prototype's policies and boxes were other ones of the same kind. The 8 inputs of
LunarLander, and all of `large` (11, 17 and 24 inputs: Hopper, HalfCheetah, BipedalWalker), are stand-ins, since those
simulators are not part of the set-up: networks that start as PPO's do and are fitted to saturating controllers on
normally distributed states, two seeds a pair, on the box of the states seen. All their inputs matter alike, so they are
harder than those policies: no ratio to the prototype is given for them. `large`: the interval after each of the times,
every time a new search. The linf distance: all outputs and both signs together.
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

from karenina import Box, Domain, Engine, Goal, Network, from_torch, pairwise_disagreement_threshold
from karenina.zoo import load

Row = dict[str, Any]
GAP = 0.01
STATES = 5000  # of the stand-ins, to learn from and to draw the box around
SPREAD, OWN = 0.5, 1.0  # of the states; of each seed's own controller beside the one that all share
PENDULUM = Box([-1, -1, -8], [1, 1, 8])
CARTPOLE = Box([-0.6, -4, -0.21, -2.5], [0.6, 4, 0.21, 2.5])
ACROBOT = Box([-1, -1, -1, -1, -12.57, -28.28], [1, 1, 1, 1, 12.57, 28.28])


@dataclass(frozen=True)
class Task:
    """Policies of one kind, and what the prototype needed: seconds to 1 % at x1 and x2, from and to."""

    name: str
    inputs: int
    outputs: int
    box: Box | None = None  # None: a stand-in
    prototype: tuple[tuple[float, float], tuple[float, float]] | None = None

    def pairs(self, count: int) -> Iterator[tuple[Network, Network, Box]]:
        """Pairs of policies, and the box of what they see."""
        if self.box is not None:
            networks = list(load(self.name).networks.values())
            for first, second in itertools.islice(zip(networks[::2], networks[1::2], strict=True), count):
                yield first, second, self.box
            return
        for k in range(count):
            (first, lower, upper), (second, *_) = (stand_in(self.inputs, self.outputs, k, seed) for seed in (1, 2))
            yield first, second, Box(lower, upper)


SMALL = (
    Task("pendulum", 3, 1, PENDULUM, ((0.1, 0.2), (0.1, 0.2))),
    Task("cartpole_discrete", 4, 2, CARTPOLE, ((0.1, 0.2), (0.1, 0.2))),
    Task("acrobot", 6, 3, ACROBOT, ((0.5, 2.3), (2.0, 6.0))),
    Task("8 inputs", 8, 2),
)
LARGE = (Task("11 inputs", 11, 3), Task("17 inputs", 17, 6), Task("24 inputs", 24, 4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--parts", nargs="+", default=["small", "large"], choices=["small", "large"])
    parser.add_argument("--times", nargs="+", type=float, default=[1, 4, 15, 60], help="seconds, of the large ones")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a pair, of the small ones")
    parser.add_argument("--pairs", type=int, default=2, help="of each small kind; of a large one there is one")
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


def stand_in(inputs: int, outputs: int, problem: int, seed: int) -> tuple[Network, Any, Any]:
    """A network for a problem, and the least and greatest states it has seen; another seed is another training."""
    rng = np.random.default_rng(problem)
    shared = rng.normal(size=(2, outputs, inputs))
    states = torch.tensor(SPREAD * rng.normal(size=(STATES, inputs)), dtype=torch.float32)
    own = np.random.default_rng((problem, seed)).normal(size=(2, outputs, inputs))
    gains = torch.tensor((shared + OWN * own) / math.sqrt(inputs), dtype=torch.float32)
    target = torch.tanh(2 * states @ gains[0].T) + 0.3 * torch.sin(2 * states @ gains[1].T)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(*_layers([inputs, 64, 64, outputs]))
    optimiser = torch.optim.Adam(model.parameters(), 3e-4, eps=1e-5)
    for _ in range(20):
        for some in torch.split(torch.randperm(STATES), 64):
            loss = (model(states[some]) - target[some]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    lower, upper = (side.double().numpy() for side in (states.amin(0), states.amax(0)))
    return from_torch(model, name=f"{inputs}-{problem}-{seed}"), lower, upper


def _layers(sizes: list[int]) -> Iterator[torch.nn.Module]:
    """As Stable-Baselines3 starts an actor: orthogonal weights, small ones last, no bias."""
    for k, (a, b) in enumerate(itertools.pairwise(sizes)):
        layer = torch.nn.Linear(a, b)
        torch.nn.init.orthogonal_(layer.weight, math.sqrt(2) if k < len(sizes) - 2 else 0.01)
        torch.nn.init.zeros_(layer.bias)
        yield layer
        if k < len(sizes) - 2:
            yield torch.nn.Tanh()


if __name__ == "__main__":
    main()
