"""The whole disagreement table of each trained population: seconds, boxes, boxes a second, by tolerance.

    python benchmarks/table.py [--device cpu] [--tolerances 1 0.1 1e-2 1e-3 1e-6] [--repeat 1] [--json FILE]

All pairs of the named 16 policies of each set, with the paper's distance and domain (both platforms of Cartpole), from
one Python call; the best of some repetitions after a smaller table to warm up. On the CPU as many threads as torch has.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch

from karenina import Engine, Goal, disagreement_table
from karenina.zoo import load

SETS = (("cartpole", "c-distance"), ("mountaincar", "c-distance"), ("aurora_short", "l1"), ("aurora_long", "l1"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", nargs="+", default=["cuda"] if torch.cuda.is_available() else ["cpu"])
    parser.add_argument("--tolerances", nargs="+", type=float, default=[1, 0.1, 1e-2, 1e-3, 1e-6])
    parser.add_argument("--sets", nargs="+", default=[name for name, _ in SETS])
    parser.add_argument("--repeat", type=int, help="by default 3 times on a GPU, once on the CPU")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    arguments = parser.parse_args()
    rows = []
    for device in arguments.device:
        repeat = arguments.repeat or (3 if device == "cuda" else 1)
        where = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} cores"
        print(f"{where}, {os.cpu_count()} processors in all")
        print("| set | distance | tolerance | seconds | boxes | boxes/s | open |")
        print("|" + " --- |" * 7)
        for name, distance in SETS:
            if name in arguments.sets:
                for tolerance in arguments.tolerances:
                    rows.append(measure(name, distance, tolerance, device, repeat))
                    print(line(rows[-1]), flush=True)
                    if arguments.json:
                        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure(name: str, distance: str, tolerance: float, device: str, repeat: int) -> dict[str, Any]:
    """The fastest of some runs of the same call."""
    population = load(name)
    networks = list(population.networks.values())
    seconds, table = float("inf"), None
    few = networks[:3]
    disagreement_table(few, population.domain, distance, goal=Goal(tolerance), backend=Engine(device))  # start-up
    for _ in range(repeat):
        engine = Engine(device)
        start = time.perf_counter()
        table = disagreement_table(networks, population.domain, distance, goal=Goal(tolerance), backend=engine)
        seconds = min(seconds, time.perf_counter() - start)
    assert table is not None
    found = [table.disagreement(i, j) for i in range(len(networks)) for j in range(i)]
    return {
        "set": name,
        "distance": distance,
        "tolerance": tolerance,
        "device": device,
        "pairs": len(found),
        "seconds": seconds,
        "boxes": sum(each.boxes for each in found),
        "open": sum(not each.status.finished for each in found),
        "widest": max(each.upper - each.lower for each in found),
    }


def line(row: dict[str, Any]) -> str:
    speed = row["boxes"] / row["seconds"]
    about = f"| {row['set']} | {row['distance']} | {row['tolerance']:g} |"
    return f"{about} {row['seconds']:.4f} | {row['boxes']:,} | {speed:,.0f} | {row['open']} |"


if __name__ == "__main__":
    main()
