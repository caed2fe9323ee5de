"""Measuring on a Ray cluster, for real: several nodes on this machine, one of them lost in the middle of the work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from measured import DOMAIN, a_network, all_pairs, facts

from karenina.distance import distance
from karenina.errors import InputError
from karenina.execution import Work, cluster
from karenina.query import Goal

ray = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.slow,
    # Ray leaves files, sockets and processes to the garbage collector, and warns of its own plans.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]

NETWORKS = [a_network(seed) for seed in range(12)]
WORK = Work.of(NETWORKS, DOMAIN, distance("l1"), device="cpu")
TASKS = all_pairs(len(NETWORKS), Goal(1e-4))


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of a head without processor cores and two nodes with one each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    started.second = started.add_node(num_cpus=1)
    started.third = started.add_node(num_cpus=1)
    started.wait_for_nodes()
    yield started
    ray.shutdown()
    started.shutdown()


def test_a_node_lost_in_the_middle_loses_nothing(nodes: Any) -> None:
    here = {task: facts(found) for task, found in WORK.here()(TASKS)}
    there = {}
    with cluster(WORK, nodes.address) as measure:
        for count, (task, found) in enumerate(measure(TASKS)):
            assert task not in there
            there[task] = facts(found)
            if count == len(TASKS) // 4:
                nodes.remove_node(nodes.third, allow_graceful=False)
        assert there == here
        again = {task: facts(found) for task, found in measure(TASKS)}
    assert again == here


def test_a_cluster_started_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with cluster(WORK) as measure:
        assert {task: facts(found) for task, found in measure(TASKS)} == {
            task: facts(found) for task, found in WORK.here()(TASKS)
        }
    assert not ray.is_initialized()


def test_where_there_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with pytest.raises(InputError, match="no Ray cluster to join at auto"), cluster(WORK, "auto"):
        pass
