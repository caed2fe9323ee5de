"""Measuring on a Ray cluster, for real: several nodes on this machine, one of them lost in the middle of the work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from measured import DOMAIN, a_network, all_pairs, facts
from ray_nodes import RAY_MARKS

from karenina.distance import distance
from karenina.errors import InputError, WorkStopped
from karenina.execution import Work, cluster
from karenina.query import Answer, Goal, Query

ray = pytest.importorskip("ray")

pytestmark = RAY_MARKS

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


def test_nodes_with_and_without_gpus_work_together(nodes: Any) -> None:
    """Ray is told of a GPU that is not there: what asks for it must run on that node, and finds the processor."""
    nodes.add_node(num_cpus=1, num_gpus=1)
    nodes.wait_for_nodes()
    work = replace(WORK, device="auto")
    with cluster(work, nodes.address, gpus=0.5) as measure:
        assert [(lane.device, lane.places) for lane in measure._lanes()] == [("auto", 2), ("cpu", 3)]  # type: ignore[attr-defined]
        assert {task: facts(found) for task, found in measure(TASKS)} == {
            task: facts(found) for task, found in WORK.here()(TASKS)
        }


def test_a_cluster_without_processors_is_told(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina.execution.ray_cluster._PATIENCE", 1.0)
    nodes.remove_node(nodes.second, allow_graceful=False)
    nodes.remove_node(nodes.third, allow_graceful=False)
    with cluster(WORK, nodes.address) as measure, pytest.raises(WorkStopped, match="no processor cores left"):
        list(measure(TASKS))


class Failing:
    """A back end that cannot answer."""

    def __init__(self, error: Exception, _device: str) -> None:
        self.error = error

    def answer(self, _query: Query, _goal: Goal | None = None) -> Answer:
        raise self.error


def test_an_error_on_a_node_is_raised_here(nodes: Any) -> None:
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the nodes do not have this file
    for error, seen in ((InputError("not so"), InputError), (ValueError("not so"), ValueError)):
        work = replace(WORK, make_backend=partial(Failing, error))
        with cluster(work, nodes.address) as measure, pytest.raises(seen, match="not so"):
            list(measure(TASKS))


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
