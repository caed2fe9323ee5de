"""How the work grows with the number of models: the full table at a tolerance, and the lazy certified selection.

    python benchmarks/scaling.py [--device cuda] [--sizes 16 64 256 1000] [--tolerance 1] [--limit 120] [--json FILE]

Networks of Aurora's size: 64 trained seeds first, then their checkpoints (`checkpoints.py` makes the file), with the L1
distance. Seconds, boxes, what stayed open at the limit, and the exponents of the growth, fitted to what was finished.
The limit is, on a GPU, for all pairs that are measured together; on the CPU, for each pair. Checkpoints of one seed are
near copies of each other, and more models have more of them: growth beyond the square is theirs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from checkpoints import FILE, checkpoint_networks

from karenina import Domain, Engine, Goal, Network, disagreement_table, select
from karenina.engine.asked import near_pairs
from karenina.engine.compiled_search import ALIKE
from karenina.zoo import load

Row = dict[str, Any]
SIZES = {"cpu": [16, 32, 64], "cuda": [16, 64, 256, 1000]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=list(SIZES))
    parser.add_argument("--sizes", nargs="+", type=int, help="how many models; by default what suits the device")
    parser.add_argument("--tolerance", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds")
    parser.add_argument("--file", type=Path, default=FILE, help="what checkpoints.py has made")
    parser.add_argument("--only", choices=["table", "selection"], help="one of both")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    arguments = parser.parse_args()
    sizes = arguments.sizes or SIZES[arguments.device]
    networks, domain = checkpoint_networks(max(sizes), arguments.file), load("aurora_short").domain
    warm_up(networks, domain, arguments.device)
    print(
        "| models | pairs | near | table, s | boxes | open | selection, s | boxes | measurements | exact | certified |"
    )
    print("|" + " --- |" * 11)
    rows = []
    for size in sizes:
        row = {"models": size, "pairs": size * (size - 1) // 2, "near": near(networks[:size])}
        row |= {"device": arguments.device, "tolerance": arguments.tolerance, "limit": arguments.limit}
        rows.append(row)
        for name, measure in (("table", table), ("selection", selection)):
            if arguments.only in (None, name):
                row |= measure(networks[:size], domain, arguments)
                print(f"{size} models: {name} done", file=sys.stderr, flush=True)
                if arguments.json:  # after each: what is measured is not lost
                    arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
        print(line(row), flush=True)
    for what in ("table_seconds", "table_boxes", "selection_seconds", "selection_boxes"):
        done = [row for row in rows if what in row and not row.get("table_open", 0)]
        print(f"{what} grow like models^{exponent(done, what):.2f} ({len(done)} sizes whose tables left no pair open)")


def warm_up(networks: list[Network], domain: Domain, device: str) -> None:
    """Start-up is not what is measured: the CPU's loops, for near copies, and the kernels."""
    copies = pairs_of(networks)[near_pairs(networks, pairs_of(networks), ALIKE)][:1].flatten().tolist()
    for few in (networks[:2], [networks[k] for k in copies]):
        if few:
            disagreement_table(few, domain, "l1", goal=Goal(1e-3, time_limit=3), backend=Engine("cpu"))
    disagreement_table(networks[:12], domain, "l1", goal=Goal(100.0), backend=Engine(device))


def near(networks: list[Network]) -> int:
    """Pairs that are taken for near copies, which the CPU answers."""
    return int(near_pairs(networks, pairs_of(networks), ALIKE).sum())


def pairs_of(networks: list[Network]) -> np.ndarray:
    """Places of two networks, the smaller first: (pairs, 2)."""
    return np.array(list(itertools.combinations(range(len(networks)), 2)))


def table(networks: list[Network], domain: Domain, arguments: argparse.Namespace) -> Row:
    goal, engine = Goal(arguments.tolerance, time_limit=arguments.limit), Engine(arguments.device)
    start = time.perf_counter()
    found = disagreement_table(networks, domain, "l1", goal=goal, backend=engine)
    seconds = time.perf_counter() - start
    pairs = list(found.pairs.values())
    return {
        "table_seconds": seconds,
        "table_boxes": sum(pair.boxes for pair in pairs),
        "table_open": sum(not pair.status.finished for pair in pairs),
    }


def selection(networks: list[Network], domain: Domain, arguments: argparse.Namespace) -> Row:
    chosen: Row = {"tolerance": arguments.tolerance, "time_limit": arguments.limit, "backend": Engine(arguments.device)}
    start = time.perf_counter()
    found = select(networks, domain, "l1", **chosen)
    return {
        "selection_seconds": time.perf_counter() - start,
        "selection_boxes": found.boxes,
        "measurements": found.measurements,
        "exact_pairs": found.exact_pairs,
        "certified": found.certified,
        "iterations": len(found.iterations),
    }


def line(row: Row) -> str:
    about = ["models", "pairs", "near", "table_seconds", "table_boxes", "table_open"]
    columns = [*about, "selection_seconds", "selection_boxes", "measurements", "exact_pairs", "certified"]
    return "| " + " | ".join(cell(row.get(name, "–")) for name in columns) + " |"


def cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def exponent(rows: list[Row], what: str) -> float:
    """The slope of log seconds over log models."""
    models, seconds = ([math.log(row[key]) for row in rows] for key in ("models", what))
    return float(np.polyfit(models, seconds, 1)[0]) if len(rows) > 1 else math.nan


if __name__ == "__main__":
    main()
