"""Faults on a Ray cluster, for real: workers that are killed or out of memory, a node and the head lost in the middle
of a selection. The answers are those of this process, or there is one sentence."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from faults import keys, started, timeless, wait_until
from measured import DOMAIN, a_network, all_pairs, facts
from ray_nodes import RAY_MARKS, nodes

import karenina
from karenina.distance import distance
from karenina.engine import Engine
from karenina.errors import WorkStopped
from karenina.execution import Work, cluster
from karenina.execution.ray_cluster import RETRIES
from karenina.query import Answer, Goal, Query

ray = pytest.importorskip("ray")

pytestmark = RAY_MARKS

NETWORKS = [a_network(seed) for seed in range(6)]
WORK = Work.of(NETWORKS, DOMAIN, distance("l1"), device="cpu")
TASKS = all_pairs(len(NETWORKS), Goal(1e-4))
KILL, MEMORY = "kill", "memory"


class Faulty:
    """A back end that fails the first few times: kills its process, or is out of memory as torch says it."""

    def __init__(self, fault: str, times: int, folder: Path, _device: str) -> None:
        self.fault, self.times, self.folder, self.engine = fault, times, folder, Engine("cpu")

    def answer(self, query: Query, goal: Goal | None = None) -> Answer:
        before = len(list(self.folder.iterdir()))
        if before < self.times:
            (self.folder / f"{before}_{os.getpid()}").touch()
            if self.fault == KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        return self.engine.answer(query, goal)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of a head without processor cores and a node with two."""
    from ray import cloudpickle
    from ray.cluster_utils import Cluster

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the nodes do not have this file
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        nodes.add_node(num_cpus=2)
        nodes.wait_for_nodes()
        yield nodes.address
        ray.shutdown()
        nodes.shutdown()


@pytest.mark.parametrize("fault", [KILL, MEMORY])
def test_what_a_worker_could_not_do_is_done_by_another(address: str, tmp_path: Path, fault: str) -> None:
    work = replace(WORK, make_backend=partial(Faulty, fault, 2, tmp_path))
    with cluster(work, address) as measure:
        there = {task: facts(found) for task, found in measure(TASKS)}
    assert there == {task: facts(found) for task, found in WORK.here()(TASKS)}
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (KILL, f"the cluster lost a batch of pairs {RETRIES + 1} times"),
        (MEMORY, f"a batch of pairs was {RETRIES + 1} times more than the memory of a node could hold"),
    ],
)
def test_what_no_worker_can_do_ends_in_one_sentence(address: str, tmp_path: Path, fault: str, words: str) -> None:
    work = replace(WORK, make_backend=partial(Faulty, fault, 999, tmp_path))
    with cluster(work, address) as measure, pytest.raises(WorkStopped, match=words):
        list(measure(TASKS[:1]))
    assert len(list(tmp_path.iterdir())) == RETRIES + 1


# --- Nodes, from the command line ------------------------------------------------------------------------------------

POLICIES = Path(karenina.__file__).parent / "zoo" / "policies"


def selection(name: str) -> list[str]:
    """Of a population, every pair to 1e-3."""
    what = ["select", str(POLICIES / name), "--domain", str(POLICIES / name / "domain.toml"), "--out", "run"]
    return [*what, *["--tolerance", "0.001", "--exact", "--device", "cpu", "--json", "--no-cache"]]


def selected(folder: Path, *arguments: str) -> dict[str, Any]:
    with started([*arguments], cwd=folder) as process:
        out, said = process.communicate()
    assert process.returncode == 0, said
    return timeless(json.loads(out))


def recorded(run: Path) -> int:
    return len(keys(run)) if (run / "pairs.jsonl").exists() else 0


def test_a_node_lost_in_the_middle_of_a_selection(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    select = selection("mountaincar")
    with nodes() as there:
        with started([*select, "--ray", there.address], cwd=tmp_path) as process:
            wait_until(lambda: recorded(tmp_path / "run") > 5, 300)
            there.lose("node")
            out, said = process.communicate()
        assert process.returncode == 0, said
        assert all(line.startswith("iteration ") for line in said.splitlines()), said
    assert timeless(json.loads(out)) == selected(tmp_path / "here", *select)
    assert sorted(keys(tmp_path / "run")) == sorted(keys(tmp_path / "here" / "run"))


def test_the_head_lost_in_the_middle_of_a_selection(tmp_path: Path) -> None:
    """The run stops, and goes on without the cluster. Aurora, since it takes some seconds to notice."""
    (tmp_path / "here").mkdir()
    select = selection("aurora_short")
    with nodes() as there:
        with started([*select, "--ray", there.address], cwd=tmp_path) as process:
            wait_until(lambda: recorded(tmp_path / "run") > 5, 300)
            there.lose("head")
            out, said = process.communicate()
        assert (process.returncode, out) == (1, ""), said
        assert "error: the head of the cluster is lost: what is measured is kept, start a cluster and resume" in said
    before = recorded(tmp_path / "run")
    assert selected(tmp_path, "resume", "run", "--json", "--no-cache") == selected(tmp_path / "here", *select)
    after = keys(tmp_path / "run")
    assert len(after) > before
    assert len(set(after)) == len(after)  # nothing was measured twice; which pairs were measured coarsely may differ
