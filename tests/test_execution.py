"""Measuring on many processes: the same answers, also when processes die, and nothing left running."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from measured import DOMAIN, a_network, all_pairs, facts

from karenina.disagreement import Measure, PairTask
from karenina.distance import distance
from karenina.engine import Engine
from karenina.errors import InputError, MissingExtra, WorkStopped
from karenina.execution import Work, cluster, processes
from karenina.execution.process_pool import ATTEMPTS, cores
from karenina.query import Answer, Backend, Goal, Query

NETWORKS = [a_network(seed) for seed in range(5)]
WORK = Work.of(NETWORKS, DOMAIN, distance("l1"), device="cpu")
TASKS = all_pairs(len(NETWORKS), Goal(1e-3))


def answers(measure: Measure, tasks: list[PairTask] = TASKS) -> dict[PairTask, tuple[object, ...]]:
    return {task: facts(found) for task, found in measure(tasks)}


class Deadly:
    """A back end that kills its process the first few times it sees a network of this digest."""

    def __init__(self, digest: str, times: int, folder: Path, _device: str) -> None:
        self.digest, self.times, self.folder, self.engine = digest, times, folder, Engine("cpu")

    def answer(self, query: Query, goal: Goal | None = None) -> Answer:
        deaths = len(list(self.folder.iterdir()))
        if deaths < self.times and query.networks[0].digest() == self.digest:
            (self.folder / f"{deaths}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.engine.answer(query, goal)


class Failing:
    """A back end that cannot answer."""

    def __init__(self, error: type[Exception], told: tuple[str, ...], _device: str) -> None:
        self.error, self.told = error, told

    def answer(self, _query: Query, _goal: Goal | None = None) -> Answer:
        raise self.error(*self.told)


class Sleeping:
    """A back end that says which process it is in, and sleeps."""

    def __init__(self, folder: Path, _device: str) -> None:
        self.folder = folder

    def answer(self, _query: Query, _goal: Goal | None = None) -> Answer:
        (self.folder / str(os.getpid())).touch()
        time.sleep(600)
        raise AssertionError("nobody waits for this")


def no_backend(_device: str) -> Backend:
    raise InputError("there is no such device")


def vanishing(_device: str) -> Backend:
    os._exit(7)


@pytest.mark.parametrize("jobs", [1, 3])
def test_answers_do_not_depend_on_the_number_of_processes(jobs: int) -> None:
    here = answers(WORK.here())
    with processes(WORK, jobs) as measure:
        assert answers(measure) == here
        assert answers(measure, TASKS[:1]) == {TASKS[0]: here[TASKS[0]]}
        assert answers(measure, []) == {}


def test_nothing_starts_before_there_is_work() -> None:
    with processes(replace(WORK, make_backend=no_backend), 2) as measure:
        assert list(measure([])) == []


@pytest.mark.parametrize("deaths", [ATTEMPTS - 1])
def test_the_tasks_of_a_process_that_dies_are_done_by_another(tmp_path: Path, deaths: int) -> None:
    deadly = functools.partial(Deadly, NETWORKS[1].digest(), deaths, tmp_path)
    with processes(replace(WORK, make_backend=deadly), 2) as measure:
        assert answers(measure) == answers(WORK.here())
    assert len(list(tmp_path.iterdir())) == deaths


def test_a_pair_that_kills_every_process_ends_in_one_sentence(tmp_path: Path) -> None:
    deadly = functools.partial(Deadly, NETWORKS[3].digest(), 99, tmp_path)
    got: list[PairTask] = []
    with (
        processes(replace(WORK, make_backend=deadly), 1) as measure,
        pytest.raises(WorkStopped, match=f"{ATTEMPTS} worker processes died while measuring seed_3 and seed_4"),
    ):
        got.extend(task for task, _ in measure(TASKS))
    assert len(got) == len(TASKS) - 1  # the deadly pair is the last


def test_processes_that_cannot_start_end_in_one_sentence() -> None:
    with (
        processes(replace(WORK, make_backend=vanishing), 1) as measure,
        pytest.raises(WorkStopped, match=r"end before they are ready \(exit code 7\)"),
    ):
        list(measure(TASKS))


def test_what_is_wrong_there_is_told_here() -> None:
    with processes(replace(WORK, make_backend=no_backend), 1) as measure, pytest.raises(InputError, match="no such"):
        list(measure(TASKS))


@pytest.mark.parametrize(
    ("error", "told", "seen"),
    [
        (ZeroDivisionError, ("oh",), ZeroDivisionError),
        (MissingExtra, ("ohm", "extra"), InputError),  # it cannot be sent as it is
    ],
)
def test_an_error_of_the_back_end_is_raised_here(
    error: type[Exception], told: tuple[str, ...], seen: type[Exception]
) -> None:
    work = replace(WORK, make_backend=functools.partial(Failing, error, told))
    with processes(work, 1) as measure, pytest.raises(seen, match="oh"):
        list(measure(TASKS))


def gone(pid: int) -> bool:
    """Whether there is no such process any more, or only its remains."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def test_an_answer_nobody_waits_for_does_not_reach_the_next_call() -> None:
    with processes(WORK, 2) as measure:
        started = measure(TASKS)
        next(started)
        del started
        tasks = [replace(task, goal=Goal(1e-4)) for task in TASKS]
        assert answers(measure, tasks) == answers(WORK.here(), tasks)


PARENT = """
import functools, signal, sys
from pathlib import Path
from test_execution import TASKS, WORK, Sleeping, processes, replace
signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background it is ignored
work = replace(WORK, make_backend=functools.partial(Sleeping, Path(sys.argv[1])))
with processes(work, 2) as measure:
    list(measure(TASKS))
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], env=environment, stderr=subprocess.PIPE, text=True
    ) as parent:
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        parent.send_signal(number)
        _, errors = parent.communicate(timeout=60)
    assert errors.count("Traceback") == (1 if number == signal.SIGINT else 0)  # the parent's own
    wait_until(lambda: all(gone(int(path.name)) for path in tmp_path.iterdir()))


def test_the_number_of_processes() -> None:
    assert cores() >= 1
    with pytest.raises(InputError, match="not -1"), processes(WORK, -1):
        pass


def test_a_cluster_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"karenina\[ray\]"), cluster(WORK):
        pass
