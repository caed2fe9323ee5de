"""How many float64 operations the GPU's kernels spend on a box: counted, by kernels of numbers that count.

    python benchmarks/counting.py [--pairs 3] [--json benchmarks/results/operations.json]

Enters: a trained set. Leaves: additions and multiplications a box (a fused multiply-add is two; comparisons, divisions
and elementary functions are none). `fused.cu` is compiled as plain C++ with a class in the place of `double` and
searches some pairs to 1e-3, the climb for witnesses included. Needs a C++ compiler, no GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from populations import SETTINGS, Setting, population

from karenina.distance import L1
from karenina.engine.asked import Asked, Pairs
from karenina.engine.fused import FusedSearch, fits_pairs
from karenina.engine.kernels import Shape
from karenina.query import Goal

__all__ = ["FILE", "operations_a_box", "pairs_of"]

FILE = Path(__file__).parent / "results" / "operations.json"
NUMBERS = """
#include <cmath>
static long long operations = 0;
extern "C" long long operations_done() { return operations; }
struct Number {
    double v;
    Number() = default;
    Number(double x) : v(x) {}
    explicit operator int() const { return (int)v; }
    Number operator-() const { return -v; }
    Number& operator+=(Number b) { operations++; v += b.v; return *this; }
    Number& operator-=(Number b) { operations++; v -= b.v; return *this; }
    Number& operator*=(Number b) { operations++; v *= b.v; return *this; }
};
static inline Number operator+(Number a, Number b) { operations++; return a.v + b.v; }
static inline Number operator-(Number a, Number b) { operations++; return a.v - b.v; }
static inline Number operator*(Number a, Number b) { operations++; return a.v * b.v; }
static inline Number operator/(Number a, Number b) { return a.v / b.v; }
#define COMPARE(op) static inline bool operator op(Number a, Number b) { return a.v op b.v; }
COMPARE(<) COMPARE(>) COMPARE(<=) COMPARE(>=) COMPARE(==) COMPARE(!=)
#define ONE(name) static inline Number name(Number a) { return std::name(a.v); }
ONE(fabs) ONE(sqrt) ONE(tanh) ONE(exp) ONE(log) ONE(log1p) ONE(expm1) ONE(atanh)
static inline Number fmin(Number a, Number b) { return std::fmin(a.v, b.v); }
static inline Number fmax(Number a, Number b) { return std::fmax(a.v, b.v); }
static inline bool isfinite(Number a) { return std::isfinite(a.v); }
static inline bool isnan(Number a) { return std::isnan(a.v); }
#define double Number
"""


class Counting:
    """The kernels for a warp of one lane, whose numbers count."""

    def __init__(self, shape: Shape, folder: Path) -> None:
        source, library = folder / "fused.cpp", folder / "fused.so"
        source.write_text(NUMBERS + shape.source())
        options = ["-O1", "-DHOST", "-fPIC", "-shared", "-Wno-unknown-pragmas"]
        subprocess.run(["g++", *options, "-o", str(library), str(source)], check=True)
        self._library = ctypes.CDLL(str(library))
        self._library.operations_done.restype = ctypes.c_longlong

    @property
    def operations(self) -> int:
        return int(self._library.operations_done())

    def launch(self, name: str, world: torch.Tensor, *more: int | torch.Tensor) -> None:
        arguments = [
            ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else ctypes.c_int(a) for a in (world, *more)
        ]
        getattr(self._library, name)(*arguments)


def pairs_of(setting: Setting, count: int | None = None) -> Pairs:
    """All pairs of a trained set, or the first of them spread over it, to 1e-3."""
    networks = population(setting, None, 16)
    places = np.array(list(itertools.combinations(range(len(networks)), 2)))
    if count is not None:
        places = places[:: max(1, len(places) // count)][:count]
    ((query,),) = L1().queries(networks[0], networks[1], setting.domain)
    return Pairs(networks, places, [Goal(1e-3)] * len(places), query.cases, query.floor)


def operations_a_box(setting: Setting, count: int) -> float:
    """Of a search through some pairs."""
    pairs = pairs_of(setting, count)
    shape = fits_pairs(pairs)
    assert shape is not None
    with tempfile.TemporaryDirectory() as folder:
        kernels = Counting(shape, Path(folder))
        search = FusedSearch(Asked.of_pairs(pairs), shape, torch.device("cpu"), 100_000)
        search.run(kernels, time.perf_counter() + 120)
        return kernels.operations / search.boxes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", type=Path, default=FILE)
    arguments = parser.parse_args()
    found = {setting.name: operations_a_box(setting, arguments.pairs) for setting in SETTINGS}
    for name, operations in found.items():
        print(f"{name}: {operations:,.0f} operations a box")
    arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
