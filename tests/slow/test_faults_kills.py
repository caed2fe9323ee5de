"""Kill -9 at 50 random moments of a selection among shipped policies, and at 8 more with two worker processes."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from faults import Nursery, carrying, keys, killed_at_random, started, timeless, wait_until
from test_faults_processes import TASKS, WORK, Greedy

import karenina
from karenina.errors import WorkStopped
from karenina.execution import processes
from karenina.execution.process_pool import ATTEMPTS
from karenina.store import read_result

pytestmark = pytest.mark.slow

POLICIES = Path(karenina.__file__).parent / "zoo" / "policies" / "mountaincar"
OPTIONS = ["--domain", str(POLICIES / "domain.toml"), "--device", "cpu", "--tolerance", "0.01", "--no-cache", "--json"]
SELECT = ["select", str(POLICIES), *OPTIONS, "--out"]
FILES = {"run.json", "pairs.jsonl", "run.lock", "selection.json"}


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    made = Nursery(tmp_path_factory.mktemp("kills"), [*SELECT, "undisturbed"])
    yield made
    made.stop()


def same_end(nursery: Nursery, run: Path) -> None:
    undisturbed = nursery.folder / "undisturbed"
    assert timeless(read_result(run)) == timeless(read_result(undisturbed))
    assert sorted(keys(run)) == sorted(keys(undisturbed))  # nothing lost, nothing measured twice
    assert {path.name for path in run.iterdir()} == FILES


def test_fifty_kills(nursery: Nursery) -> None:
    for run in killed_at_random(nursery, SELECT, 50, random.Random(50)):
        same_end(nursery, run)


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
def test_kills_with_worker_processes_leave_nobody_behind(nursery: Nursery) -> None:
    rng, killed, runs = random.Random(8), 0, 0
    while killed < 8:
        runs += 1
        name, finished = f"workers_{runs}", False
        while not finished:
            mark = uuid.uuid4().hex
            command = [*SELECT, name, "--jobs", "2"]
            with started(command, mark, subprocess.DEVNULL, cwd=nursery.folder) as process:
                wait = rng.uniform(0, 12) if killed < 8 else 600.0
                begun = time.monotonic()
                while process.poll() is None and time.monotonic() - begun < wait:
                    time.sleep(0.02)
                process.kill()
                process.communicate()
            assert process.returncode in (0, -signal.SIGKILL)
            wait_until(lambda mark=mark: not carrying(mark))  # type: ignore[misc]
            killed, finished = killed + (process.returncode != 0), process.returncode == 0
        same_end(nursery, nursery.folder / name)
    print(f"{killed} kills in {runs} runs with two workers")


@pytest.mark.skipif(not Path("/proc").exists(), reason="what is used is read in /proc")
def test_a_pair_that_no_worker_has_memory_for_ends_in_one_sentence(tmp_path: Path) -> None:
    work = replace(WORK, make_backend=functools.partial(Greedy, tmp_path, 999))
    words = f"{ATTEMPTS} worker processes died while measuring seed_0 and seed_1, the last: out of memory"
    with processes(work, 1) as measure, pytest.raises(WorkStopped, match=words):
        list(measure(TASKS))
    assert len(list(tmp_path.iterdir())) == ATTEMPTS


HARD = """
import numpy as np
from karenina.network import RELU, Layer, Network
for seed in range(3):
    rng, sizes = np.random.default_rng(seed), [8, 64, 64, 64]
    layers = [Layer.of(1.5 * rng.normal(size=(b, a)) / a**0.5, 0.1 * rng.normal(size=b), RELU)
              for a, b in zip(sizes, sizes[1:])]
    Network((*layers, Layer.of(rng.normal(size=(1, 64)), [0.0])), f"s{seed}").to_onnx(f"models/s{seed}.onnx")
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_in_the_middle_of_long_pairs_stops_when_told(
    tmp_path: Path, number: signal.Signals, code: int, jobs: str
) -> None:
    """Two threads, or two processes, each in a search of hours."""
    (tmp_path / "models").mkdir()
    subprocess.run([sys.executable, "-c", HARD], cwd=tmp_path, check=True)
    (tmp_path / "domain.toml").write_text(f"[[box]]\nlower = {[-1] * 8}\nupper = {[1] * 8}\n")
    mark = uuid.uuid4().hex
    options = ["--domain", "domain.toml", "--device", "cpu", "--no-cache", "--tolerance", "1e-6", "--out", "run"]
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "KARENINA_MARK": mark}
    with subprocess.Popen(
        [sys.executable, "-c", "from karenina.cli import main; main()", "select", "models", *options, "--jobs", jobs],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        wait_until(lambda: (tmp_path / "run" / "pairs.jsonl").exists() and len(keys(tmp_path / "run")) >= 3, 300)
        time.sleep(1)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    assert process.returncode == code
    assert "what was measured is kept; to go on, the same command, or karenina resume run" in said
    assert "Traceback" not in said
    wait_until(lambda: not carrying(mark))
