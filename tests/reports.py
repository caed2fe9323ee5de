"""What the tests of reports share: small runs, and selections whose tables are planted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measured import a_network
from planted_tables import DOMAIN, Planted, dummies

from karenina import cli
from karenina.report import FinishedRun, Rewards
from karenina.selection import Selection, select

DOMAIN_TEXT = 'names = ["left", "right side"]\n[[box]]\nlower = [-1, -1]\nupper = [1, 2]\n'


def make_run(folder: Path, names: Sequence[str] = (), domain: str = DOMAIN_TEXT) -> Path:
    """A finished run of six random networks in `folder/run`, called seed_0, seed_1, ... or as given."""
    (folder / "models").mkdir(parents=True)
    for seed, name in enumerate(names or [f"seed_{k}" for k in range(6)]):
        a_network(seed).to_onnx(folder / "models" / f"{name}.onnx")
    (folder / "domain.toml").write_text(domain, encoding="utf-8")
    options = ["--device", "cpu", "--no-cache", "--out", str(folder / "run")]
    assert cli.run(["select", str(folder / "models"), "--domain", str(folder / "domain.toml"), *options]) == 0
    return folder / "run"


def groups(sizes: Sequence[int], near: float = 1.0, far: float = 5.0) -> np.ndarray:
    """Disagreements of groups that agree inside; distinct values, so that nothing is a tie."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    base = np.where(owner[:, None] == owner[None, :], near, far)
    upper = np.triu(base * np.random.default_rng(1).uniform(0.8, 1.0, base.shape), 1)
    return np.asarray(upper + upper.T)


def planted_selection(
    values: np.ndarray, names: Sequence[str] | None = None, iterations: int | None = None, *, exact: bool = True
) -> Selection:
    """A selection among models whose disagreements are these; intervals are wide where not exact."""
    measure = Planted(values.tolist(), exact=exact)
    return select(dummies(len(values)), DOMAIN, measure=measure, names=names, iterations=iterations)


def planted_run(values: np.ndarray, names: Sequence[str] | None = None, *, exact: bool = True) -> FinishedRun:
    """The same with its networks (of one input: x, x + 1, x + 2, ...), as if it had been read from a folder."""
    found = planted_selection(values, names, exact=exact)
    networks = dict(zip(found.names, dummies(len(values)), strict=True))
    return FinishedRun(found, DOMAIN, networks)


def some_rewards(names: Sequence[str], good: int) -> Rewards:
    """The first `good` models earn 100, 99, ...; the others less than nothing."""
    earned = {name: float(100 - k if k < good else -k) for k, name in enumerate(names)}
    return Rewards(earned, {name: reward > 50 for name, reward in earned.items()}, "reward", 50.0)
