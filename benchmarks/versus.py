"""karenina against Marabou, HiGHS, Gurobi and an α-CROWN-style baseline on the same trained pairs, in one run.

    python benchmarks/versus.py [--policies FOLDER] [--pairs 5] [--limit 40] [--settings aurora_short] [--peers marabou]
        [--distance l1] [--json FILE] [--plot FILE]

At the paper's tolerance against Marabou's bisection; exact to 1e-3 against the MILP solvers; at both against the
baseline (`peers/alpha_crown.py`). A solver that has not finished at the limit counts as the limit. Ratios are geometric
means over the pairs. The plot is `cactus.py`'s: how many instances each has solved after how long.
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
from typing import Any

from cactus import draw
from peers.alpha_crown import AlphaCrown
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

Row = dict[str, Any]
PAPER = None  # the paper's tolerance, a setting's own
PEERS = (("marabou", PAPER), ("highs", 1e-3), ("gurobi", 1e-3), ("alpha-crown", PAPER), ("alpha-crown", 1e-3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", type=Path, help="a folder of trained policies; without it, those that ship")
    parser.add_argument("--pairs", type=int, default=5, help="pairs a setting")
    parser.add_argument("--limit", type=float, default=40.0, help="seconds a pair for each peer")
    parser.add_argument("--settings", nargs="+", default=[setting.name for setting in SETTINGS])
    parser.add_argument("--peers", nargs="+", default=list(dict.fromkeys(peer for peer, _ in PEERS)))
    parser.add_argument("--distance", default="l1")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    parser.add_argument("--plot", type=Path, help="draw the cactus plot here (.svg or .png); needs matplotlib")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for setting in SETTINGS:
        if setting.name in arguments.settings:
            rows += measure(setting, arguments)
            if arguments.json:  # after each setting: what is measured is not lost
                arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    report(rows)
    if arguments.plot:
        draw(rows, arguments.plot)


def measure(setting: Setting, arguments: argparse.Namespace) -> list[Row]:
    networks = population(setting, arguments.policies, 16)
    pairs = list(itertools.combinations(networks, 2))
    random.Random(1).shuffle(pairs)
    engine = Engine("cpu")
    rows = []
    for first, second in pairs[: arguments.pairs]:
        ask = asker(first, second, setting, arguments.distance)
        ask(engine, 1.0, arguments.limit)  # start-up is not what is measured
        for peer, exact in PEERS:
            if peer not in arguments.peers:
                continue
            tolerance = exact or setting.tolerance
            try:
                theirs = ask(peer_of(peer), tolerance, arguments.limit)
            except MissingExtra as missing:
                print(f"{peer} left out: {missing}", file=sys.stderr)
                continue
            ours = ask(engine, tolerance, arguments.limit)
            rows.append(row(setting, first, second, peer, tolerance, ours, theirs, arguments.limit))
            print(*rows[-1].values(), sep="  ", file=sys.stderr, flush=True)
    return rows


def peer_of(name: str) -> Backend:
    return AlphaCrown() if name == "alpha-crown" else backend(name)


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
) -> Row:
    slack = 1e-5 * (1 + abs(ours.upper))
    return {
        "setting": setting.name,
        "pair": f"{first.name}/{second.name}",
        "peer": peer,
        "tolerance": tolerance,
        "limit": limit,
        "ours": ours.seconds,
        "theirs": min(theirs.seconds, limit) if theirs.status.finished else limit,
        "ours_finished": ours.status.finished,
        "theirs_finished": theirs.status.finished,
        "agree": ours.lower <= theirs.upper + slack and theirs.lower <= ours.upper + slack,
        "boxes": ours.boxes,
    }


def report(rows: list[Row]) -> None:
    print(f"{os.cpu_count()} cores")
    print("| setting | peer | tolerance | pairs | ours, s | theirs, s | theirs unfinished | ours unfinished | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    keys = dict.fromkeys((r["setting"], r["peer"], r["tolerance"]) for r in rows)
    for key in keys:
        some = [r for r in rows if (r["setting"], r["peer"], r["tolerance"]) == key]
        ours, theirs = ([r[k] for r in some] for k in ("ours", "theirs"))
        unfinished = [sum(not r[k] for r in some) for k in ("theirs_finished", "ours_finished")]
        print("|", " | ".join(map(str, (*key, len(some)))), end=" | ")
        print(f"{mean(ours):.3f} | {mean(theirs):.2f} | {unfinished[0]} | {unfinished[1]} |", end=" ")
        print(f"{mean(theirs) / mean(ours):.0f} |")
    for peer in dict.fromkeys(peer for peer, _ in PEERS):
        ratios = [r["theirs"] / r["ours"] for r in rows if r["peer"] == peer]
        if ratios:
            print(f"geometric mean against {peer}: {mean(ratios):.0f} times faster")
    print(f"all intervals agree: {all(r['agree'] for r in rows)}")


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    main()
