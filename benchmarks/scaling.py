"""How the work grows with the number of models: the full table at a tolerance, and the lazy certified selection.

    python benchmarks/scaling.py [--device cpu] [--counts 16 32 64 94] [--tolerance 1] [--json FILE]

Aurora's trained policies, short and long training together, with the L1 distance; seconds, and the exponent of the
growth fitted to them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch

from karenina import Engine, Goal, Network, disagreement_table, select
from karenina.zoo import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--counts", nargs="+", type=int, default=[16, 32, 64, 94])
    parser.add_argument("--tolerance", type=float, default=1.0)
    parser.add_argument("--json", type=Path, help="write all measurements here")
    arguments = parser.parse_args()
    networks = aurora()
    measure(networks[:3], arguments.tolerance, arguments.device)  # start-up is not what is measured
    print(f"{'models':>6} {'pairs':>6} {'table, s':>9} {'boxes':>10} {'lazy selection, s':>18}")
    rows = []
    for count in arguments.counts:
        rows.append(measure(networks[:count], arguments.tolerance, arguments.device))
        print("{models:6} {pairs:6} {table:9.3f} {boxes:10} {selection:18.3f}".format(**rows[-1]), flush=True)
    for what in ("table", "selection"):
        print(f"{what}: seconds grow like models^{exponent(rows, what):.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def aurora() -> list[Network]:
    """All policies of both kinds that passed, in turn."""
    short, long = (list(load(name, everything=True).networks.values()) for name in ("aurora_short", "aurora_long"))
    kinds = [(network, "short") for network in short] + [(network, "long") for network in long]
    order = np.random.default_rng(0).permutation(len(kinds))
    return [kinds[i][0].named(f"{kinds[i][1]}-{kinds[i][0].name}") for i in order]


def measure(networks: list[Network], tolerance: float, device: str) -> dict[str, float]:
    domain = load("aurora_short").domain
    start = time.perf_counter()
    table = disagreement_table(networks, domain, "l1", goal=Goal(tolerance), backend=Engine(device))
    between = time.perf_counter()
    select(networks, domain, "l1", tolerance=tolerance, backend=Engine(device))
    pairs = [(i, j) for i in range(len(networks)) for j in range(i)]
    return {
        "models": len(networks),
        "pairs": len(pairs),
        "table": between - start,
        "boxes": sum(table.disagreement(i, j).boxes for i, j in pairs),
        "selection": time.perf_counter() - between,
    }


def exponent(rows: list[dict[str, float]], what: str) -> float:
    """The slope of log seconds over log models."""
    models, seconds = ([math.log(row[key]) for row in rows] for key in ("models", what))
    return float(np.polyfit(models, seconds, 1)[0]) if len(rows) > 1 else math.nan


if __name__ == "__main__":
    main()
