"""Seconds of training a policy: the population's PPO, all seeds at once, against Stable-Baselines3's, on one core.

    python benchmarks/trainers.py [--settings cartpole aurora_short] [--seeds 16] [--steps 20000] [--devices cpu cuda]
        [--json FILE]

Both train by the same recipe on the same simulator, with a reduced budget: one checkpoint of --steps steps, rounded up
to whole updates. Stable-Baselines3 trains one seed, as its time is the same for each. A first training of each
compiles and is not counted. One thread each. Seconds are the processor's, so that a busy machine does not decide; with
the updates on a GPU they are the clock's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from karenina.zoo.recipes import Recipe, recipe
from karenina.zoo.training import train_population


@dataclass(frozen=True)
class Row:
    """Seconds a seed of both trainers."""

    setting: str
    device: str
    seeds: int
    steps: int  # of a seed
    population: float
    sb3: float

    @property
    def ratio(self) -> float:
        return self.sb3 / self.population


def main() -> None:
    arguments = parse()
    rows = []
    for setting in arguments.settings:
        reduced = recipe(setting, {"checkpoints": 1, "checkpoint_steps": arguments.steps})
        sb3 = seconds(reduced, 1, "sb3", "cpu")
        for device in arguments.devices:
            population = seconds(reduced, arguments.seeds, "population", device)
            steps = reduced.iterations * reduced.settings.samples
            rows.append(Row(setting, device, arguments.seeds, steps, population, sb3))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    report(rows)


def seconds(training: Recipe, count: int, trainer: str, device: str) -> float:
    """Of training, for each seed."""
    single = recipe(training.benchmark, {"checkpoints": 1, "checkpoint_steps": 1})
    with tempfile.TemporaryDirectory() as folder:
        train_population(single, [1], Path(folder) / "first", trainer=trainer, device=device, progress=lambda _: None)
        seeds = range(1, count + 1)
        clock = time.process_time if device == "cpu" else time.perf_counter
        started = clock()
        train_population(training, seeds, folder, trainer=trainer, device=device, progress=lambda _: None)
        return (clock() - started) / count


def report(rows: Sequence[Row]) -> None:
    print("| setting | device | seeds together | steps a seed | population, s a seed | SB3, s a seed | ratio |")
    print("|", " | ".join(["---"] * 7), "|")
    for row in rows:
        times = f"{row.population:.2f}", f"{row.sb3:.2f}", f"{row.ratio:.1f}"
        print("|", " | ".join((row.setting, row.device, str(row.seeds), f"{row.steps:,}", *times)), "|")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--settings", nargs="+", default=["cartpole", "aurora_short"])
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--devices", nargs="+", default=["cpu"], choices=["cpu", "cuda"])
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
