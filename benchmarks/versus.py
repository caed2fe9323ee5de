"""karenina against Marabou, HiGHS and Gurobi on the same pairs of trained networks, in one run.

    python benchmarks/versus.py [--policies FOLDER] [--pairs 4] [--limit 60] [--distance l1] [--json FILE]

At the paper's tolerance against Marabou's bisection; exact to 1e-3 against the MILP solvers. A solver that has not
finished at the limit counts as the limit. Ratios are geometric means over the pairs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from populations import SETTINGS, Setting, population

from karenina import (
    Backend,
    Disagreement,
    Engine,
    Goal,
    MissingExtra,
    Network,
    backend,
    pairwise_disagreement_threshold,
)

PEERS = (("marabou", None), ("highs", 1e-3), ("gurobi", 1e-3))  # None: the paper's tolerance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", type=Path, help="a folder of trained policies; without it, those that ship")
    parser.add_argument("--pairs", type=int, default=4, help="pairs a setting")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a pair for each peer")
    parser.add_argument("--distance", default="l1")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    arguments = parser.parse_args()
    rows = [row for setting in SETTINGS for row in measure(setting, arguments)]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    report(rows)


def measure(setting: Setting, arguments: argparse.Namespace) -> list[dict[str, object]]:
    networks = population(setting, arguments.policies, 16)
    pairs = list(itertools.combinations(networks, 2))
    random.Random(1).shuffle(pairs)
    engine = Engine("cpu")
    rows = []
    for first, second in pairs[: arguments.pairs]:
        ask = asker(first, second, setting, arguments.distance)
        ask(engine, 1.0, arguments.limit)  # start-up is not what is measured
        for peer, exact in PEERS:
            tolerance = exact or setting.tolerance
            try:
                theirs = ask(backend(peer), tolerance, arguments.limit)
            except MissingExtra as missing:
                print(f"{peer} left out: {missing}", file=sys.stderr)
                continue
            ours = ask(engine, tolerance, arguments.limit)
            rows.append(row(setting, first, second, peer, tolerance, ours, theirs, arguments.limit))
            print(*rows[-1].values(), sep="  ", file=sys.stderr, flush=True)
    return rows


def asker(
    first: Network, second: Network, setting: Setting, distance: str
) -> Callable[[Backend, float, float], Disagreement]:
    def ask(answerer: Backend, tolerance: float, limit: float) -> Disagreement:
        goal = Goal(tolerance, time_limit=limit)
        return pairwise_disagreement_threshold(first, second, setting.domain, distance, goal=goal, backend=answerer)

    return ask


def row(
    setting: Setting,
    first: Network,
    second: Network,
    peer: str,
    tolerance: float,
    ours: Disagreement,
    theirs: Disagreement,
    limit: float,
) -> dict[str, object]:
    slack = 1e-5 * (1 + abs(ours.upper))
    return {
        "setting": setting.name,
        "pair": f"{first.name}/{second.name}",
        "peer": peer,
        "tolerance": tolerance,
        "ours": ours.seconds,
        "theirs": min(theirs.seconds, limit) if theirs.status.finished else limit,
        "ours_finished": ours.status.finished,
        "theirs_finished": theirs.status.finished,
        "agree": ours.lower <= theirs.upper + slack and theirs.lower <= ours.upper + slack,
        "boxes": ours.boxes,
    }


def report(rows: list[dict[str, object]]) -> None:
    print(f"{os.cpu_count()} cores")
    print("| setting | peer | tolerance | pairs | ours, s | theirs, s | theirs unfinished | ours unfinished | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    keys = dict.fromkeys((r["setting"], r["peer"], r["tolerance"]) for r in rows)
    for key in keys:
        some = [r for r in rows if (r["setting"], r["peer"], r["tolerance"]) == key]
        ours, theirs = ([float(str(r[k])) for r in some] for k in ("ours", "theirs"))
        unfinished = [sum(not r[k] for r in some) for k in ("theirs_finished", "ours_finished")]
        print("|", " | ".join(map(str, (*key, len(some)))), end=" | ")
        print(f"{mean(ours):.3f} | {mean(theirs):.2f} | {unfinished[0]} | {unfinished[1]} |", end=" ")
        print(f"{mean(theirs) / mean(ours):.0f} |")
    for peer, _ in PEERS:
        ratios = [float(str(r["theirs"])) / float(str(r["ours"])) for r in rows if r["peer"] == peer]
        if ratios:
            print(f"geometric mean against {peer}: {mean(ratios):.0f} times faster")
    print(f"all intervals agree: {all(r['agree'] for r in rows)}")


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    main()
