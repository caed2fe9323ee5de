"""Processes that are killed, interrupted, out of memory, two in one folder, or told a wrong time: nothing lost, nothing
measured twice, nobody left behind.

Here 5 random moments of a selection are killed and one with two worker processes; tests/slow/test_faults_kills.py kills
50 of a selection among shipped policies.
"""

from __future__ import annotations

import ast
import functools
import os
import random
import resource
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from faults import (
    ENVIRONMENT,
    SELECT,
    Nursery,
    carrying,
    ended,
    keys,
    killed_at_random,
    make_population,
    send,
    started,
    timeless,
    wait_until,
)
from measured import DOMAIN, a_network, all_pairs, facts

import karenina
from karenina.cli.interruption import interruptible
from karenina.distance import distance
from karenina.engine import Engine
from karenina.errors import WorkStopped
from karenina.execution import Work, out_of_memory, process_pool, processes, worker
from karenina.execution.memory import OUT_OF_MEMORY
from karenina.query import Answer, Goal, Query
from karenina.store import read_result

OUT = [*SELECT, "--no-cache", "--out"]
KILLS = 5


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_population(tmp_path_factory.mktemp("originals"), 8)


@pytest.fixture(scope="module")
def nursery(originals: Path) -> Iterator[Nursery]:
    """Commands that start at once, in a folder with an undisturbed run."""
    made = Nursery(originals, [*OUT, "undisturbed"])
    yield made
    made.stop()


def undisturbed(nursery: Nursery) -> Path:
    return nursery.folder / "undisturbed"


def recorded(run: Path) -> list[str]:
    return keys(run) if (run / "pairs.jsonl").exists() else []


def same_end(nursery: Nursery, run: Path) -> None:
    """The run is finished, is what it would have been, and nothing was measured twice."""
    assert timeless(read_result(run)) == timeless(read_result(undisturbed(nursery)))
    assert sorted(keys(run)) == sorted(keys(undisturbed(nursery)))
    assert {path.name for path in run.iterdir()} == {"run.json", "pairs.jsonl", "run.lock", "selection.json"}


# --- Killed ----------------------------------------------------------------------------------------------------------


def test_a_run_killed_at_random_moments_ends_as_if_nothing_had_happened(nursery: Nursery) -> None:
    for run in killed_at_random(nursery, OUT, KILLS, random.Random(11)):
        same_end(nursery, run)


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
def test_workers_end_with_a_run_that_is_killed(nursery: Nursery) -> None:
    run, mark = nursery.folder / "workers", uuid.uuid4().hex
    with started([*OUT, "workers", "--jobs", "2"], mark, cwd=nursery.folder) as process:
        wait_until(lambda: bool(recorded(run)) or process.poll() is not None)
        assert len(carrying(mark)) == 3 or process.poll() is not None
        process.kill()
    wait_until(lambda: not carrying(mark))
    nursery.start(["resume", "workers", "--no-cache"])
    assert nursery.code() == 0
    same_end(nursery, run)


# --- Told to stop ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "term")]
)
def test_a_run_told_to_stop_says_how_to_go_on(nursery: Nursery, number: signal.Signals, code: int, word: str) -> None:
    name = number.name
    run = nursery.folder / name
    process = nursery.start([*OUT, name])
    wait_until(lambda: bool(recorded(run)))
    send(process, number)
    found = nursery.code()
    said = (nursery.folder / "stderr.txt").read_text()
    assert "Traceback" not in said
    assert found == code
    assert said.splitlines()[-1].startswith(f"note: {word}")
    assert said.endswith(f"what was measured is kept; to go on, the same command, or karenina resume {name}\n")
    assert len(keys(run)) < len(keys(undisturbed(nursery)))
    nursery.start(["resume", name, "--no-cache"])
    assert nursery.code() == 0
    same_end(nursery, run)


BUSY = """
import os, sys, threading, time
from pathlib import Path
import karenina.cli.interruption as interruption
interruption.PATIENCE = 0.1
Path("run.json").touch()
with interruption.interruptible(Path()):
    thread = threading.Thread(target=time.sleep, args=(600,))
    thread.start()
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(600)
    finally:
        thread.join()  # as a pool of threads does when it is left
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_threads_that_are_busy_are_not_waited_for(tmp_path: Path, number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BUSY, str(int(number))],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + number
    assert "what was measured is kept" in done.stderr
    assert "Traceback" not in done.stderr


def test_signals_are_as_they_were_afterwards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.raises(KeyboardInterrupt), interruptible(tmp_path):
        signal.raise_signal(signal.SIGINT)
    assert {number: signal.getsignal(number) for number in before} == before
    assert "interrupted before anything was measured" in capsys.readouterr().err
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as nohup and a shell's background do
    try:
        with interruptible(tmp_path):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, ignored)


# --- Two at once -----------------------------------------------------------------------------------------------------


def test_the_second_run_in_a_folder_is_refused_and_the_first_unharmed(
    nursery: Nursery, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(nursery.folder)
    process = nursery.start([*OUT, "shared"])
    wait_until(lambda: (nursery.folder / "shared" / "pairs.jsonl").exists())
    send(process, signal.SIGSTOP)  # it holds the folder for as long as we look
    for command in ([*OUT, "shared"], ["resume", "shared"]):
        told = ended(capsys, command).one_sentence()
        assert told.startswith(f"error: shared is in use by process {process} on ")
        assert told.endswith(": wait until it is done, or choose another --out")
    send(process, signal.SIGCONT)
    assert nursery.code() == 0
    same_end(nursery, nursery.folder / "shared")


def test_the_lock_of_a_dead_process_is_taken_over(
    here: Path, capsys: pytest.CaptureFixture[str], nursery: Nursery
) -> None:
    (here / "run").mkdir()
    (here / "run" / "run.lock").write_text("process 1 on another machine")  # which lives, but holds nothing
    assert ended(capsys, [*OUT, "run"]).code == 0
    assert sorted(keys(here / "run")) == sorted(keys(undisturbed(nursery)))


# --- Out of memory ---------------------------------------------------------------------------------------------------

NETWORKS = [a_network(seed) for seed in range(4)]
WORK = Work.of(NETWORKS, DOMAIN, distance("l1"), device="cpu")
TASKS = all_pairs(len(NETWORKS), Goal(1e-3))


class Greedy:
    """A back end that wants more memory than it gets, the first few times."""

    def __init__(self, folder: Path, times: int, _device: str) -> None:
        self.folder, self.times, self.engine = folder, times, Engine("cpu")

    def answer(self, query: Query, goal: Goal | None = None) -> Answer:
        before = len(list(self.folder.iterdir()))
        if before < self.times:
            (self.folder / str(before)).touch()
            import torch

            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, used + 2**26))
            torch.zeros(2**28)
        return self.engine.answer(query, goal)


@pytest.mark.skipif(not Path("/proc").exists(), reason="what is used is read in /proc")
def test_a_worker_that_is_out_of_memory_is_replaced(tmp_path: Path) -> None:
    work = replace(WORK, make_backend=functools.partial(Greedy, tmp_path, 1))
    with processes(work, 1) as measure:
        found = {task: facts(answer) for task, answer in measure(TASKS)}
    assert found == {task: facts(answer) for task, answer in WORK.here()(TASKS)}
    assert len(list(tmp_path.iterdir())) == 1


TORCH = "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to ..."


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError(TORCH), RuntimeError("CUDA out of memory."), OSError(12, "Cannot allocate memory")],
)
def test_what_out_of_memory_looks_like(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    assert out_of_memory(error)
    worker._told(error)
    assert codes == [OUT_OF_MEMORY]
    assert not any(map(out_of_memory, (RuntimeError("shapes differ"), OSError(28, "No space left"), ValueError())))


def test_a_process_that_cannot_be_started_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, count = process_pool._started, [0]

    def started_once(connection: int) -> subprocess.Popen[bytes]:
        count[0] += 1
        if count[0] != 1:
            raise OSError(11, "Resource temporarily unavailable")
        return begin(connection)

    monkeypatch.setattr(process_pool, "_started", started_once)
    with processes(WORK, 3) as measure:
        assert len(list(measure(TASKS))) == len(TASKS)
    with (
        processes(WORK, 3) as measure,
        pytest.raises(WorkStopped, match=r"no worker process can be started \(Resource temporarily unavailable\)"),
    ):
        list(measure(TASKS))


def test_a_run_that_is_out_of_memory_says_so_and_can_go_on(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, nursery: Nursery
) -> None:
    answer, left = Engine.answer, [5]

    def greedy(self: Engine, query: Query, goal: Goal | None = None) -> Answer:
        left[0] -= 1
        if left[0] < 0:
            raise MemoryError
        return answer(self, query, goal)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "answer", greedy)
        found = ended(capsys, [*OUT, "run"])
    assert found.code == 1
    assert "there is not enough memory to go on: what was measured is kept" in found.one_sentence()
    assert 0 < len(keys(here / "run")) <= 5
    assert ended(capsys, ["resume", "run", "--json", "--no-cache"]).code == 0
    assert sorted(keys(here / "run")) == sorted(keys(undisturbed(nursery)))


# --- The clock -------------------------------------------------------------------------------------------------------


def test_a_clock_set_back_changes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*SELECT, "--no-cache", "--timeout-per-pair", "600", "--out"]
    before, now = ended(capsys, [*arguments, "before"]).result, [2e9]

    def back() -> float:
        now[0] -= 3600
        return now[0]

    monkeypatch.setattr(time, "time", back)
    monkeypatch.setattr(time, "time_ns", lambda: int(back() * 1e9))
    assert ended(capsys, [*arguments, "run"]).result == before
    os.utime(here / "run" / "run.json", (0, 0))
    os.utime(here / "run" / "pairs.jsonl", (4e9, 4e9))  # from the future
    assert ended(capsys, ["resume", "run", "--json", "--no-cache"]).result == before


CLOCKS = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "today"), ("datetime", "utcnow")}
SOURCE = Path(karenina.__file__).parent


def test_nothing_that_measures_looks_at_the_clock_on_the_wall() -> None:
    """Time limits count what `perf_counter` and `monotonic` say, and no file's age is asked for."""
    looked = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and (
                node.attr.startswith("st_mtime")
                or (isinstance(node.value, ast.Name) and (node.value.id, node.attr) in CLOCKS)
            ):
                looked.add(path.relative_to(SOURCE).parts[0])
    assert looked <= {"zoo"}  # training notes when it began
