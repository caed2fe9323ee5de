"""Ray clusters for the tests that need one: in a process of its own, whose parts can be taken away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

__all__ = ["RAY_MARKS", "Nodes", "nodes"]

RAY_MARKS = [
    pytest.mark.slow,
    # Ray leaves files, sockets and processes to the garbage collector, and warns of its own plans.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]
# What other tests did with Ray in this process does not matter there.
_PROGRAM = """
import sys
from ray.cluster_utils import Cluster
nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
nodes.add_node(num_cpus=1)
last = nodes.add_node(num_cpus=1)
nodes.wait_for_nodes()
print(nodes.address, flush=True)
for line in sys.stdin:
    nodes.remove_node(last if line == "node\\n" else nodes.head_node, allow_graceful=False)
    print("gone", flush=True)
nodes.shutdown()
"""
_ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


@dataclass(frozen=True, eq=False)
class Nodes:
    """A head without processor cores and two nodes with one each."""

    process: subprocess.Popen[str]
    address: str

    def lose(self, what: str) -> None:
        """Take the "node" that came last away, or the "head"."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "gone\n"


@contextmanager
def nodes() -> Iterator[Nodes]:
    """A cluster, which ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        env=_ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield Nodes(process, process.stdout.readline().strip())
        process.communicate()  # its input ends, and so does the cluster
