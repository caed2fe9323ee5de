"""Trainings in several processes, and trainings that are killed: the policies are those of one quiet run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("numba")

from karenina.loading import load
from karenina.zoo.recipes import recipe
from karenina.zoo.training import train_population
from karenina.zoo.training_folder import TrainingFolder

SEEDS = (1, 2, 3, 4, 5)
CHANGES = {"checkpoints": 4, "checkpoint_steps": 1500, "steps": 256, "batch": 64}
CODE = """
import sys
from karenina.zoo.recipes import recipe
from karenina.zoo.training import train_population
if __name__ == "__main__":
    train_population(recipe("cartpole", {changes}), {seeds}, sys.argv[1], resume=True)
"""


def silent(_: str) -> None: ...


def digests(folder: TrainingFolder) -> list[str]:
    return [load(folder.policy(seed)).digest() for seed in SEEDS]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return digests(
        train_population(recipe("cartpole", CHANGES), SEEDS, tmp_path_factory.mktemp("one"), progress=silent)
    )


@pytest.mark.slow
def test_jobs_change_nothing(expected: list[str], tmp_path: Path) -> None:
    folder = train_population(recipe("cartpole", CHANGES), SEEDS, tmp_path, jobs=2, progress=silent)
    assert digests(folder) == expected


@pytest.mark.slow
def test_a_killed_training_goes_on(expected: list[str], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CODE.format(changes=CHANGES, seeds=SEEDS))
    process = subprocess.Popen([sys.executable, str(script), str(tmp_path)], stderr=subprocess.DEVNULL)
    folder = TrainingFolder(tmp_path / "cartpole", {})
    while process.poll() is None and not folder.state(SEEDS[0]).exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not folder.provenance(SEEDS[-1]).exists()
    resumed = train_population(recipe("cartpole", CHANGES), SEEDS, tmp_path, resume=True, progress=silent)
    assert digests(resumed) == expected
