"""What certificates cost: to measure, to prove and to check all pairs of each trained population.

    python benchmarks/certify.py [--sets mountaincar ...] [--tolerance 1e-3] [--jobs 2] [--json FILE]

All pairs of the named 16 policies of each set, with the paper's distance and domain. `measure` is the engine's table,
`prove` makes the certificate (the checker's arithmetic included: nothing is written that it would refuse), `check` is
what `karenina check` does, with two nodes of each pair in exact arithmetic.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from table import SETS

from karenina import Engine, Goal, disagreement_table
from karenina.certificate import Source, Subject, write_certificate
from karenina.checker import check
from karenina.distance import distance
from karenina.zoo import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=[name for name, _ in SETS])
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write all measurements here")
    arguments = parser.parse_args()
    rows = []
    print("| set | pairs | measure, s | prove, s | check, s | nodes | MB | widest proven |")
    print("|" + " --- |" * 8)
    for name, how in SETS:
        if name in arguments.sets:
            rows.append(measure(name, how, arguments.tolerance, arguments.models, arguments.jobs))
            print(line(rows[-1]), flush=True)
            if arguments.json:  # after each set: what is measured is not lost
                arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure(name: str, how: str, tolerance: float, models: int, jobs: int) -> dict[str, Any]:
    """One population."""
    population, apart = load(name), distance(how)
    networks = list(population.networks.values())[:models]
    warm = disagreement_table(networks[:2], population.domain, apart, goal=Goal(tolerance), backend=Engine("cpu"))
    start = time.perf_counter()
    table = disagreement_table(networks, population.domain, apart, goal=Goal(tolerance), backend=Engine("cpu"))
    measured = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        sources = [_source(network, Path(folder)) for network in networks]
        place = Path(folder) / "certificate.zip"
        two = Subject(networks[:2], sources[:2], population.domain, apart)
        write_certificate(place, two, warm.pairs)  # compiles, if need be
        begin = time.perf_counter()
        write_certificate(place, Subject(networks, sources, population.domain, apart), table.pairs, jobs=jobs)
        proven = time.perf_counter()
        proved = check(place, jobs=jobs)
        checked = time.perf_counter()
        size = place.stat().st_size
    return {
        "set": name,
        "distance": how,
        "tolerance": tolerance,
        "pairs": len(table.pairs),
        "jobs": jobs,
        "measure": measured - start,
        "prove": proven - begin,
        "check": checked - proven,
        "nodes": proved.nodes,
        "bounded": proved.bounded,
        "bytes": size,
        "widest": max(claim.upper - claim.lower for claim in proved.certificate.claims),
    }


def _source(network: Any, folder: Path) -> Source:
    file = folder / f"{network.name}.onnx"
    network.to_onnx(file)
    return Source(file)


def line(row: dict[str, Any]) -> str:
    times = " | ".join(f"{row[what]:.1f}" for what in ("measure", "prove", "check"))
    size = f"{row['nodes']:,} | {row['bytes'] / 1e6:.2f}"
    return f"| {row['set']} | {row['pairs']} | {times} | {size} | {row['widest']:.3g} |"


if __name__ == "__main__":
    main()
