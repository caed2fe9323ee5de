"""Whether what the checker accepts is true, by an oracle that knows nothing of trees and bounds.

Enters: certificates, good or corrupted. Leaves: counts of those refused and those accepted, all of which are true: the
networks are evaluated at many inputs, at witnesses exactly, and the engine is asked.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from certificates import chain_from, exact_outputs, fractions, roughly, unpacked
from claimed_selections import Case, assert_true

from karenina.certificate import network_of
from karenina.checker import Refused, check
from karenina.checker.chain import Chain
from karenina.disagreement import pairwise_disagreement_threshold
from karenina.distance import distance
from karenina.domain import Box, Domain
from karenina.query import Goal

Array = npt.NDArray[Any]
Text = dict[str, Any]


class Judge:
    """Checks files, and counts what became of them."""

    def __init__(self, folder: Path) -> None:
        self._path, self.refused, self.harmless = folder / "certificate.zip", Counter[str](), Counter[str]()
        self._rng, self._known = random.Random(0), dict[Any, float]()

    def judge(self, word: str, data: bytes) -> None:
        """Refused it must be, or true; anything else is an error."""
        self._path.write_bytes(data)
        try:
            check(self._path, exactly=1)
        except Refused as error:
            said = str(error)
            self.refused[word] += 1
            if not said or "\n" in said:
                raise AssertionError(f"{said!r} is not a sentence") from error
            return
        self._assert_true(data)
        self.harmless[word] += 1

    @property
    def summary(self) -> str:
        total = self.refused.total() + self.harmless.total()
        kinds = len(self.refused | self.harmless)
        accepted = ", ".join(f"{word} {count}" for word, count in sorted(self.harmless.items()))
        return (
            f"{total} corrupted certificates of {kinds} kinds: {self.refused.total()} refused, "
            f"{self.harmless.total()} still true ({accepted})"
        )

    def _assert_true(self, data: bytes) -> None:
        text, members = unpacked(data)
        chains = [chain_from(_plain(n["layers"]), members[f"networks/{k}"]) for k, n in enumerate(text["networks"])]
        for claim in text["pairs"]:
            pair = chains[int(claim["first"])], chains[int(claim["second"])]
            assert float(claim["upper"]) >= self._attained(pair, text) - 1e-9
            if float(claim["lower"]) > 0:
                assert _witnessed(pair, text, claim) >= Fraction(float(claim["lower"]))
        if text["selection"] is not None:
            names, n = [str(network["name"]) for network in text["networks"]], len(chains)
            lower, upper = ([[0.0] * n for _ in range(n)] for _ in range(2))
            for claim, (i, j) in itertools.product(text["pairs"], itertools.permutations(range(n), 2)):
                if {int(claim["first"]), int(claim["second"])} == {i, j}:
                    lower[i][j], upper[i][j] = float(claim["lower"]), float(claim["upper"])
            assert_true(Case(text["selection"], names, lower, upper), self._rng, 20)

    def _attained(self, pair: tuple[Chain, Chain], text: Text) -> float:
        """A disagreement that there is: the largest of a grid, or what the engine finds."""
        boxes = [tuple(np.array(box[side], dtype=float) for side in ("lower", "upper")) for box in text["domain"]]
        conditions = [(np.array(c["rows"]), np.array(c["offsets"])) for c in text["distance"]["conditions"]]
        name = text["distance"]["name"]
        best = max(_on_grid(pair, lower, upper, name, conditions) for lower, upper in boxes)
        if conditions:
            return best
        key = *(layer.weight.tobytes() for c in pair for layer in c.layers), str(text["domain"]), name
        if key not in self._known:
            domain = Domain([Box(lower, upper) for lower, upper in boxes])
            networks = [network_of(chain) for chain in pair]
            goal = Goal(tolerance=1e-6, time_limit=5.0)
            found = pairwise_disagreement_threshold(networks[0], networks[1], domain, distance(name), goal=goal)
            self._known[key] = found.lower
        return max(best, self._known[key])


def _plain(layers: list[Text]) -> list[Text]:
    """Numbers as numbers, where a mutation has written them as text."""
    return [{**layer, "neurons": int(layer["neurons"]), "inputs": int(layer["inputs"])} for layer in layers]


def _on_grid(
    pair: tuple[Chain, Chain], lower: Array, upper: Array, name: str, conditions: list[tuple[Array, Array]]
) -> float:
    axes = [np.linspace(low, high, 41) for low, high in zip(lower, upper, strict=True)]
    x = np.stack(np.meshgrid(*axes), -1).reshape(-1, len(lower))
    a, b = (roughly(chain, x) for chain in pair)
    gaps = np.abs(a - b)
    if name == "class":
        at, i, j = np.arange(len(a)), a.argmax(1), b.argmax(1)
        return float((a[at, i] - a[at, j] + b[at, j] - b[at, i]).max())
    apart = gaps.max(1) if name == "linf" else gaps.sum(1)
    if not conditions:
        return float(apart.max())
    hold = [((a @ r.T + o >= 1e-9) & (b @ r.T + o >= 1e-9)).all(1) for r, o in conditions]
    return min(float(apart[holds].max(initial=0.0)) for holds in hold)


def _witnessed(pair: tuple[Chain, Chain], text: Text, claim: Text) -> Fraction:
    """What the witnesses attain, exactly."""
    values = []
    conditions = text["distance"]["conditions"]
    for witness in claim["witnesses"]:
        box = text["domain"][int(witness["box"])]
        assert all(lo <= x <= up for lo, x, up in zip(box["lower"], witness["x"], box["upper"], strict=True))
        a, b = (exact_outputs(chain, fractions(np.array(witness["x"]))) for chain in pair)
        if conditions:
            condition = conditions[int(witness["condition"])]
            for y, (row, offset) in itertools.product(
                (a, b), zip(condition["rows"], condition["offsets"], strict=True)
            ):
                assert sum(Fraction(r) * v for r, v in zip(row, y, strict=True)) + Fraction(offset) >= 0
        gaps = [abs(p - q) for p, q in zip(a, b, strict=True)]
        values.append({"linf": max(gaps), "class": _apart(a, b)}.get(text["distance"]["name"], sum(gaps, Fraction(0))))
    if conditions:
        assert len({int(w["box"]) for w in claim["witnesses"]}) == 1
        assert sorted(int(w["condition"]) for w in claim["witnesses"]) == list(range(len(conditions)))
        return min(values)
    return max(values)


def _apart(a: list[Fraction], b: list[Fraction]) -> Fraction:
    i, j = a.index(max(a)), b.index(max(b))
    return a[i] - a[j] + b[j] - b[i]
