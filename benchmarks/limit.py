"""How far the bounding step is from what the machine could do: its float64 operations a second, and a matrix product's.

    python benchmarks/limit.py [--device cpu] [--seconds 1] [--json FILE]

cpu: one thread. The step is `box.hidden_bounds` and one `tighten_box.evaluate` on a box a quarter as wide as the
domain, for the first two policies of each set, and the same for eight such boxes at a time where networks allow it
(`abreast`), an eighth of which is a box's; operations are those of its products alone (two a multiply-add), counted
from the rows and columns that it does not skip. The matrix product is numpy's, 512 x 512.

cuda: all 120 pairs of each set to 1e-3 by the kernels, with the L1 distance: the whole search, and the kernel `halve`
alone. Operations a box are those that `counting.py` has counted in the very same kernels (`results/operations.json`).
The matrix product is torch's, 8192 x 8192.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from counting import FILE, pairs_of
from populations import SETTINGS, Setting, population

from karenina.distance import L1
from karenina.engine.abreast import bounds_abreast, descend_abreast
from karenina.engine.abreast_room import Abreast, new_abreast
from karenina.engine.asked import Asked
from karenina.engine.box import hidden_bounds
from karenina.engine.cases import Cases
from karenina.engine.compiled_search import goes_abreast
from karenina.engine.fused import FusedSearch, fits_pairs
from karenina.engine.joint import Joint
from karenina.engine.kernels import Kernels, gpu_kernels
from karenina.engine.lanes import WIDE, store
from karenina.engine.lines import compiled
from karenina.engine.packed import Array, Question, Weights
from karenina.engine.packing import pack_question, pack_weights
from karenina.engine.room import Room, new_room
from karenina.engine.tighten_box import evaluate

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, default=1.0, help="of measuring, each")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    arguments = parser.parse_args()
    rows = on_gpu() if arguments.device == "cuda" else on_cpu(arguments.seconds)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def on_cpu(duration: float) -> list[Row]:
    peak = product(duration)
    print(f"matrix product: {peak / 1e9:.1f} GFLOP/s")
    print("| setting | boxes at a time | us a box | operations a box | GFLOP/s | of the product's |")
    print("|" + " --- |" * 6)
    rows: list[Row] = []
    for setting in SETTINGS:
        for boxes, seconds, operations in step(setting, duration):
            speed = operations / seconds
            found = {"setting": setting.name, "boxes": boxes, "seconds": seconds}
            rows.append({**found, "operations": operations, "peak": peak})
            print(f"| {setting.name} | {boxes} | {1e6 * seconds:.1f} | {operations} |", end=" ")
            print(f"{speed / 1e9:.1f} | {speed / peak:.0%} |", flush=True)
    return rows


def on_gpu() -> list[Row]:
    peak, counted = gpu_product(), json.loads(FILE.read_text())
    print(f"{torch.cuda.get_device_name()}: matrix product {peak / 1e12:.1f} TFLOP/s")
    print(
        "| setting | boxes | search, s | halve, s | million boxes/s | operations a box | TFLOP/s | of the product's |"
    )
    print("|" + " --- |" * 8)
    rows: list[Row] = []
    for setting in SETTINGS:
        gpu_search(setting)  # start-up
        boxes, seconds, halving = gpu_search(setting)
        operations, name = counted[setting.name], setting.name
        speed = operations * boxes / halving
        found = {"setting": name, "boxes": boxes, "seconds": seconds, "halve_seconds": halving}
        rows.append({**found, "operations": operations, "peak": peak})
        print(f"| {name} | {boxes:,} | {seconds:.4f} | {halving:.4f} | {1e-6 * boxes / seconds:.1f} |", end=" ")
        print(f"{operations:,.0f} | {speed / 1e12:.2f} | {speed / peak:.1%} |", flush=True)
    return rows


def gpu_product(size: int = 8192, times: int = 10) -> float:
    """Operations a second of a matrix product in float64."""
    a, b = torch.rand(2, size, size, dtype=torch.float64, device="cuda")
    torch.matmul(a, b)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        torch.matmul(a, b)
    torch.cuda.synchronize()
    return times * 2 * size**3 / (time.perf_counter() - start)


class Timed:
    """Kernels that note when `halve` begins and ends."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels, self.marks = kernels, list[tuple[torch.cuda.Event, torch.cuda.Event]]()

    def launch(self, name: str, world: torch.Tensor, *more: int | torch.Tensor) -> None:
        if name != "halve":
            self.kernels.launch(name, world, *more)
            return
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        self.kernels.launch(name, world, *more)
        end.record()
        self.marks.append((begin, end))

    @property
    def seconds(self) -> float:
        torch.cuda.synchronize()
        return float(sum(begin.elapsed_time(end) for begin, end in self.marks)) / 1000


def gpu_search(setting: Setting, limit: float = 20.0) -> tuple[int, float, float]:
    """Boxes, seconds of the search and of `halve` alone."""
    pairs, device = pairs_of(setting), torch.device("cuda")
    shape = fits_pairs(pairs)
    assert shape is not None
    kernels = gpu_kernels(shape, device)
    assert kernels is not None
    timed, search = Timed(kernels), FusedSearch(Asked.of_pairs(pairs), shape, device, 1 << 20)
    torch.cuda.synchronize()
    start = time.perf_counter()
    search.run(timed, start + limit)
    torch.cuda.synchronize()
    return search.boxes, time.perf_counter() - start, timed.seconds


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


def step(setting: Setting, seconds: float) -> Iterator[tuple[int, float, int]]:
    """Boxes at a time, and seconds and operations of one bounding step a box."""
    first, second = population(setting, None, 16)[:2]
    query = L1().queries(first, second, setting.domain)[0][0]
    cpu = torch.device("cpu")
    joint = Joint.of(query.networks, cpu)
    cases, rounding = Cases.of(query, joint, cpu)
    net, ask = pack_weights(joint, rounding), pack_question(cases, False)
    room, none = new_room(net), np.zeros(0)
    middle, quarter = (ask.lower[0] + ask.upper[0]) / 2, (ask.upper[0] - ask.lower[0]) / 8
    room.lower[:], room.upper[:] = middle - quarter, middle + quarter
    yield 1, fastest(lambda: repeat(net, ask, room, none, 1000), seconds) / 1000, operations_of(net, room)
    if goes_abreast(query):
        group = new_abreast(net, ask)
        group.lower[:], group.upper[:] = room.lower[:, None], room.upper[:, None]
        group.objective[:] = ask.objective[0][:, None]
        each = fastest(lambda: repeat_abreast(net, group, 100), seconds) / 100 / WIDE
        yield WIDE, each, operations_of(net, room)


@compiled
def repeat(net: Weights, ask: Question, room: Room, none: Array, times: int) -> None:
    """The step, over and over, without going back to Python."""
    for _ in range(times):
        for neuron in range(len(room.low)):
            room.low[neuron], room.high[neuron] = -np.inf, np.inf
        hidden_bounds(net, room, False)
        evaluate(net, ask, 0, room, room.start, none, False)


@compiled
def repeat_abreast(net: Weights, group: Abreast, times: int) -> None:
    """The same for eight boxes."""
    for _ in range(times):
        for neuron in range(len(group.low)):
            store(group.low, neuron, -np.inf)
            store(group.high, neuron, np.inf)
        bounds_abreast(net, group)
        store(group.found, 0, descend_abreast(net, group))


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
