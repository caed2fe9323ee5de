"""How much work laziness saves: selection as it is against selection from a full table, on the same networks.

    python benchmarks/laziness.py [--policies FOLDER] [--settings cartpole] [--sizes 16 64 256] [--criterion percentile]
        [--distance l1] [--tolerance 1e-3] [--full 64] [--sample 400] [--json FILE]

Without --settings and --sizes, all rows of the README in one run: Cartpole with 16, 64 and 256 networks, Mountain Car
and Aurora with 16. Up to --full networks the table is measured, and both ways must remove the same; beyond, the cost of
the table is estimated from a sample of its pairs. Beyond the policies that there are, copies with noise on the weights
are added, a tenth of each layer's spread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from populations import SETTINGS, Setting, population

from karenina import (
    Engine,
    Goal,
    Network,
    PairTask,
    Selection,
    SelectionSettings,
    measure_here,
    pairwise_disagreement_threshold,
    select,
)
from karenina.network import Layer

NOISE = 0.1
SIZES = {"cartpole": [16, 64, 256], "mountaincar": [16], "aurora_short": [16]}


@dataclass(frozen=True)
class Row:
    """The work of both ways for one population; times are sums over measurements."""

    setting: str
    criterion: str
    networks: int
    pairs: int
    iterations: int
    certified: bool
    lazy_measurements: int
    lazy_exact_pairs: int
    lazy_boxes: int
    lazy_seconds: float
    exact_boxes: float
    exact_seconds: float
    sampled: int  # pairs the cost of the table was estimated from; 0: it was measured
    same_removals: bool | None

    @property
    def ratios(self) -> tuple[float, float, float]:
        """How many times more the full table takes: pairs to the tolerance, boxes, seconds."""
        return (
            self.pairs / max(1, self.lazy_exact_pairs),
            self.exact_boxes / self.lazy_boxes,
            self.exact_seconds / self.lazy_seconds,
        )


def main() -> None:
    arguments = parse()
    rows: list[Row] = []
    for setting in SETTINGS:
        if setting.name not in arguments.settings:
            continue
        sizes = arguments.sizes or SIZES[setting.name]
        networks = enlarged(population(setting, arguments.policies, max(sizes)), max(sizes))
        warm_up(networks, setting)
        for size in sizes:
            rows.append(compare(networks[:size], setting, arguments))
            print(asdict(rows[-1]), file=sys.stderr, flush=True)
            if arguments.json:  # after each: what is measured is not lost
                arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    report(rows)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", type=Path, help="a folder of trained policies; without it, those that ship")
    parser.add_argument("--settings", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--sizes", type=int, nargs="+", help="networks; by default each setting's own")
    parser.add_argument("--criterion", default="percentile")
    parser.add_argument("--distance", default="l1")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--full", type=int, default=64, help="networks up to which the full table is measured")
    parser.add_argument("--sample", type=int, default=400, help="pairs its cost is estimated from beyond")
    parser.add_argument("--json", type=Path, help="write all measurements here")
    return parser.parse_args()


def enlarged(networks: list[Network], count: int) -> list[Network]:
    """The networks, and as many noisy copies as it takes to have `count`."""
    copies = (noisy(networks[i % len(networks)], i) for i in range(count - len(networks)))
    return [*networks, *copies]


def noisy(network: Network, seed: int) -> Network:
    generator = torch.Generator().manual_seed(seed)
    layers = []
    for layer in network.layers:
        noise = torch.randn(layer.weight.shape, generator=generator, dtype=torch.float64)
        weight = layer.weight + NOISE * layer.weight.std() * noise
        layers.append(Layer.of(weight.numpy(), layer.bias.numpy(), layer.activations))
    return Network(tuple(layers), f"{network.name}+{seed}")


def warm_up(networks: list[Network], setting: Setting) -> None:
    """Start-up is not what is measured."""
    first, second = networks[:2]
    pairwise_disagreement_threshold(first, second, setting.domain, goal=Goal(0.1), backend=Engine("cpu"))


def compare(networks: list[Network], setting: Setting, arguments: argparse.Namespace) -> Row:
    chosen = SelectionSettings(criterion=arguments.criterion, tolerance=arguments.tolerance)
    lazy = select(networks, setting.domain, arguments.distance, settings=chosen, backend=Engine("cpu"))
    engine = Engine("cpu")  # another one: it must not go on where the first has stopped
    if len(networks) <= arguments.full:
        full = select(networks, setting.domain, arguments.distance, settings=chosen, backend=engine, exact=True)
        boxes, seconds, same = float(full.boxes), spent(full), full.removed == lazy.removed
        sampled = 0
    else:
        boxes, seconds, sampled = estimate(networks, setting, chosen.goal, arguments, engine)
        same = None
    return Row(
        setting.name,
        arguments.criterion,
        len(networks),
        len(networks) * (len(networks) - 1) // 2,
        len(lazy.iterations),
        lazy.certified,
        lazy.measurements,
        lazy.exact_pairs,
        lazy.boxes,
        spent(lazy),
        boxes,
        seconds,
        sampled,
        same,
    )


def spent(selection: Selection) -> float:
    return sum(pair.seconds for pair in selection.table.pairs.values())


def estimate(
    networks: list[Network], setting: Setting, goal: Goal, arguments: argparse.Namespace, engine: Engine
) -> tuple[float, float, int]:
    """Boxes and seconds of the full table, from a sample of its pairs."""
    pairs = list(itertools.combinations(range(len(networks)), 2))
    sample = random.Random(1).sample(pairs, min(arguments.sample, len(pairs)))
    measure = measure_here(networks, setting.domain, arguments.distance, engine)
    found = [answer for _, answer in measure([PairTask(i, j, goal) for i, j in sample])]
    scale = len(pairs) / len(sample)
    return scale * sum(pair.boxes for pair in found), scale * sum(pair.seconds for pair in found), len(sample)


def report(rows: list[Row]) -> None:
    titles = ("setting", "criterion", "networks", "pairs", "lazily to the tolerance", "ratio", "boxes", "seconds")
    print("|", " | ".join((*titles, "certified", "same removals")), "|")
    print("|", " | ".join(["---"] * (len(titles) + 2)), "|")
    for row in rows:
        pairs, boxes, seconds = row.ratios
        about = "about " if row.sampled else ""
        same = {True: "yes", False: "NO", None: "not measured"}[row.same_removals]
        ratios = f"{pairs:.0f}", f"{about}{boxes:.1f}", f"{about}{seconds:.1f}"
        counts = row.setting, row.criterion, row.networks, row.pairs, row.lazy_exact_pairs
        print("|", " | ".join(map(str, (*counts, *ratios, row.certified, same))), "|")


if __name__ == "__main__":
    main()
