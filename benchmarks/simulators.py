"""Steps a second of the zoo's simulators on one core, against gymnasium's own environments in the same run.

    python benchmarks/simulators.py [--episodes 1024] [--seconds 1] [--repeat 3] [--json FILE]

Both play random actions drawn beforehand, and begin a new episode when one has ended. Gymnasium's is what
`gymnasium.make` gives, stepped in a loop, and where gymnasium has a vector environment of its own (CartPole), that too,
with as many episodes as ours. Seconds are the processor's, one thread, so that a busy machine does not decide; the
best of the repeats counts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import gymnasium
import numpy as np
import torch

from karenina.zoo.environments.autoreset import Autoreset
from karenina.zoo.environments.simulator import simulator

# Ours -> gymnasium's own of the same physics. Aurora is none of gymnasium's.
PEERS = {
    "cartpole": "CartPole-v1",
    "cartpole_discrete": "CartPole-v1",
    "mountaincar": "MountainCarContinuous-v0",
    "pendulum": "Pendulum-v1",
    "acrobot": "Acrobot-v1",
    "aurora": None,
}
DRAWN = 64  # different actions, used in turn


@dataclass(frozen=True)
class Row:
    """Steps a second of one environment."""

    environment: str
    ours: float
    peer: str | None
    theirs: float | None
    their_vector: float | None

    @property
    def ratios(self) -> tuple[str, str]:
        single = "-" if self.theirs is None else f"{self.ours / self.theirs:.0f}"
        return single, "-" if self.their_vector is None else f"{self.ours / self.their_vector:.1f}"


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)
    rows = [measured(name, peer, arguments) for name, peer in PEERS.items()]
    if arguments.json:
        facts = {"episodes": arguments.episodes, "seconds": arguments.seconds, "repeat": arguments.repeat}
        arguments.json.write_text(json.dumps({**facts, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    report(rows)


def measured(name: str, peer: str | None, arguments: argparse.Namespace) -> Row:
    def best(steps: Callable[[float], float]) -> float:
        steps(0.5)  # compiles, and fills caches
        return max(steps(arguments.seconds) for _ in range(arguments.repeat))

    ours = best(our_steps(name, arguments.episodes))
    theirs = best(their_steps(peer)) if peer else None
    vector = best(their_vector_steps(peer, arguments.episodes)) if peer == "CartPole-v1" else None
    return Row(name, ours, peer, theirs, vector)


def our_steps(name: str, count: int) -> Callable[[float], float]:
    """Steps a second of our simulator, finished episodes followed by new ones."""
    made = simulator(name, count=count)
    episodes = Autoreset(made, seed=0)
    generator = np.random.default_rng(0)
    shape = (DRAWN, count, made.action_size)
    drawn = generator.integers(made.choices, size=shape) if made.choices else generator.uniform(-1, 1, shape)
    actions = drawn.astype(np.float64)

    def steps(seconds: float) -> float:
        episodes.begin(0)
        started, done = time.process_time(), 0
        while time.process_time() - started < seconds:
            finished = made.step(actions[done % DRAWN]).finished
            done += 1
            if finished.any():
                episodes.restart(finished)
        return done * count / (time.process_time() - started)

    return steps


def their_steps(identifier: str) -> Callable[[float], float]:
    """Steps a second of gymnasium's environment in a loop."""
    environment = gymnasium.make(identifier)
    environment.action_space.seed(0)
    actions = [environment.action_space.sample() for _ in range(DRAWN)]

    def steps(seconds: float) -> float:
        environment.reset(seed=0)
        started, done = time.process_time(), 0
        while time.process_time() - started < seconds:
            _, _, terminated, truncated, _ = environment.step(actions[done % DRAWN])
            done += 1
            if terminated or truncated:
                environment.reset()
        return done / (time.process_time() - started)

    return steps


def their_vector_steps(identifier: str, count: int) -> Callable[[float], float]:
    """Steps a second of gymnasium's own vector environment."""
    environments = gymnasium.make_vec(identifier, count, vectorization_mode="vector_entry_point")
    environments.action_space.seed(0)
    actions = [environments.action_space.sample() for _ in range(DRAWN)]

    def steps(seconds: float) -> float:
        environments.reset(seed=0)
        started, done = time.process_time(), 0
        while time.process_time() - started < seconds:
            environments.step(actions[done % DRAWN])
            done += 1
        return done * count / (time.process_time() - started)

    return steps


def report(rows: list[Row]) -> None:
    print("| environment | steps a second, ours | gymnasium's | gymnasium's own vector | ratio | ratio to the vector |")
    print("|", " | ".join(["---"] * 6), "|")
    for row in rows:
        counts = ("-" if count is None else f"{count:,.0f}" for count in (row.ours, row.theirs, row.their_vector))
        print("|", " | ".join((row.environment, *counts, *row.ratios)), "|")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
