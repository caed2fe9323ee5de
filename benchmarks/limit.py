"""How far the bounding step is from what the machine could do: its float64 operations a second, and a matrix product's.

    python benchmarks/limit.py [--seconds 1] [--json FILE]

One thread. The step is `box.hidden_bounds` and one `tighten_box.evaluate` on a box a quarter as wide as the domain, for
the first two policies of each set; operations are those of its products alone (two a multiply-add), counted from the
rows and columns that it does not skip. The matrix product is numpy's, 512 x 512.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from populations import SETTINGS, Setting, population

from karenina.distance import L1
from karenina.engine.box import hidden_bounds
from karenina.engine.cases import Cases
from karenina.engine.joint import Joint
from karenina.engine.lines import compiled
from karenina.engine.packed import Array, Question, Weights
from karenina.engine.packing import pack_question, pack_weights
from karenina.engine.room import Room, new_room
from karenina.engine.tighten_box import evaluate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of measuring, each")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    arguments = parser.parse_args()
    peak = product(arguments.seconds)
    print(f"matrix product: {peak / 1e9:.1f} GFLOP/s")
    print("| setting | us a box | operations a box | GFLOP/s | of the product's |")
    print("| --- | --- | --- | --- | --- |")
    rows = []
    for setting in SETTINGS:
        seconds, operations = step(setting, arguments.seconds)
        speed = operations / seconds
        rows.append({"setting": setting.name, "seconds": seconds, "operations": operations, "peak": peak})
        print(f"| {setting.name} | {1e6 * seconds:.1f} | {operations} | {speed / 1e9:.1f} | {speed / peak:.0%} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def product(seconds: float, size: int = 512) -> float:
    """Operations a second of a matrix product."""
    a, b = np.random.default_rng(0).random((2, size, size))
    return 2 * size**3 / fastest(lambda: a @ b, seconds)


def fastest(work: object, seconds: float) -> float:
    assert callable(work)
    work()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def step(setting: Setting, seconds: float) -> tuple[float, int]:
    """Seconds and operations of one bounding step."""
    first, second = population(setting, None, 16)[:2]
    query = L1().queries(first, second, setting.domain)[0][0]
    cpu = torch.device("cpu")
    joint = Joint.of(query.networks, cpu)
    cases, rounding = Cases.of(query, joint, cpu)
    net, ask = pack_weights(joint, rounding), pack_question(cases, False)
    room, none = new_room(net), np.zeros(0)
    middle, quarter = (ask.lower[0] + ask.upper[0]) / 2, (ask.upper[0] - ask.lower[0]) / 8
    room.lower[:], room.upper[:] = middle - quarter, middle + quarter

    return fastest(lambda: repeat(net, ask, room, none, 1000), seconds) / 1000, operations_of(net, room)


@compiled
def repeat(net: Weights, ask: Question, room: Room, none: Array, times: int) -> None:
    """The step, over and over, without going back to Python."""
    for _ in range(times):
        for neuron in range(len(room.low)):
            room.low[neuron], room.high[neuron] = -np.inf, np.inf
        hidden_bounds(net, room, False)
        evaluate(net, ask, 0, room, room.start, none, False)


def operations_of(net: Weights, room: Room) -> int:
    """Two for every product of a row that is carried through a layer with a weight that is not skipped."""
    total, stack = 0, len(net.weights)
    for k in range(len(net.sizes) - 1):
        inner, width = int(net.sizes[k]), int(net.sizes[k + 1])
        total += 2 * stack * inner * width  # evaluate
        if k == 0:
            total += 4 * stack * inner * width  # centre and radius
    for k in range(1, len(net.sizes) - 2):
        for s in range(stack):
            for j in range(k):
                first = stack * int(net.bias_at[j]) + s * int(net.sizes[j + 1])
                part = slice(first, first + int(net.sizes[j + 1]))
                active = int(((room.fixed[0, part] != 0) | (room.fixed[2, part] != 0)).sum())
                total += 2 * 2 * int(net.sizes[k + 1]) * active * int(net.sizes[j])
    return total


if __name__ == "__main__":
    main()
