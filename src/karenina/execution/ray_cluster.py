"""Measuring on a Ray cluster. Enters: `Work` and the address of a cluster. Leaves: a `Measure`.

The networks go into the object store once; a task is a batch of pairs. Batches of a worker or a machine that is
lost, or that has too little memory, are run again elsewhere, by Ray; answers are passed on as batches complete. The
driver alone touches the disk. Where nodes have GPUs, some of the batches ask for a share of one; the others run on
processor cores.
"""

from __future__ import annotations

import functools
import logging
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from karenina.disagreement import Disagreement, Measure, PairTask
from karenina.errors import InputError, KareninaError, MissingExtra, WorkStopped
from karenina.execution.memory import out_of_memory
from karenina.execution.work import Work

__all__ = ["cluster", "measure_batch"]

Answers = list[tuple[PairTask, Disagreement]]

RETRIES = 5  # of a batch whose worker or node is lost, or out of memory
_LARGEST_BATCH = 16
_PATIENCE = 10.0  # seconds without a batch, after which to look whether anybody is left
_AHEAD = 2  # batches for every place that can run one


@contextmanager
def cluster(work: Work, address: str | None = None, gpus: float = 0.25) -> Iterator[Measure]:
    """A measure on the Ray cluster at the address, or on one started here; `gpus` is the share a batch gets."""
    ray = _ray()
    ours = not ray.is_initialized()
    if ours:
        _start(ray, address)
    try:
        with _hushed(ray) if ours else nullcontext():
            yield _Cluster(ray, work, gpus)
    finally:
        if ours:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "ray") from error
    return ray


def _start(ray: Any, address: str | None) -> None:
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address in (None, "local"):
            ray.init(address="local", include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, ImportError, RuntimeError, ValueError, OSError) as error:
        raise InputError(f"there is no Ray cluster to join at {address or 'this machine'}: {error}") from error


@contextmanager
def _hushed(ray: Any) -> Iterator[None]:
    """Ray tells on stdout of every worker it lost, whatever it is asked for; stdout is for results."""
    module = ray._private.worker
    before = getattr(module, "print_to_stdstream", None)
    if before is None:  # another version of Ray
        yield
        return
    module.print_to_stdstream = lambda *_arguments, **_options: None
    try:
        yield
    finally:
        module.print_to_stdstream = before


@dataclass
class _Lane:
    """Batches with the same needs: the places of the cluster that can run one at a time."""

    device: str
    needs: dict[str, float]
    places: int
    running: dict[Any, Sequence[PairTask]] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return _AHEAD * self.places - len(self.running)


class _Cluster:
    """The measure: keeps every lane supplied with batches."""

    def __init__(self, ray: Any, work: Work, gpus: float) -> None:
        self._ray, self._work, self._gpus = ray, work, gpus
        self._shared: Any = None
        self._remote = ray.remote(measure_batch)

    def __call__(self, tasks: Sequence[PairTask]) -> Iterator[tuple[PairTask, Disagreement]]:
        self._shared = self._shared or self._ray.put(self._work)
        waiting = deque(tasks)
        lanes = self._lanes()
        size = max(1, min(_LARGEST_BATCH, len(waiting) // (4 * sum(lane.places for lane in lanes))))
        try:
            while waiting or any(lane.running for lane in lanes):
                for lane in lanes:
                    self._supply(lane, waiting, size)
                yield from self._collect(lanes)
        finally:
            for lane in lanes:
                for reference in lane.running:
                    self._ray.cancel(reference, force=True)

    def _lanes(self) -> list[_Lane]:
        """What the cluster can run at the moment: nodes come and go between rounds."""
        have, device = self._ray.cluster_resources(), self._work.device
        cores = _Lane(device, {"num_cpus": 1}, max(1, int(have.get("CPU", 1))))
        if device == "cpu" or self._gpus <= 0 or not have.get("GPU"):
            return [cores]
        needs = {"num_cpus": 1, "num_gpus": self._gpus}
        graphics = _Lane(device, needs, max(1, int(have["GPU"] / self._gpus)))
        return [graphics] if device == "cuda" else [graphics, replace(cores, device="cpu")]

    def _supply(self, lane: _Lane, waiting: deque[PairTask], size: int) -> None:
        while waiting and lane.free > 0:
            batch = [waiting.popleft() for _ in range(min(size, len(waiting)))]
            remote = self._remote.options(max_retries=RETRIES, retry_exceptions=[MemoryError], **lane.needs)
            lane.running[remote.remote([self._shared], batch, lane.device)] = batch

    def _collect(self, lanes: Sequence[_Lane]) -> Iterator[tuple[PairTask, Disagreement]]:
        """Wait for a batch; its answers."""
        running = [reference for lane in lanes for reference in lane.running]
        done, _ = self._ray.wait(running, num_returns=1, timeout=_PATIENCE)
        if not done:
            self._look_around()
        for reference in done:
            answers = self._answers(reference)
            for lane in lanes:
                lane.running.pop(reference, None)
            yield from answers

    def _look_around(self) -> None:
        """Whether anybody is left: Ray itself would wait for nodes for ever, and end this process without its head."""
        kept = "what is measured is kept"
        if not _reachable(self._ray.get_runtime_context().gcs_address):
            raise WorkStopped(f"the head of the cluster is lost: {kept}, start a cluster and resume")
        if self._ray.cluster_resources().get("CPU", 0) < 1:
            raise WorkStopped(f"the cluster has no processor cores left: {kept}, start nodes and resume")

    def _answers(self, reference: Any) -> Answers:
        errors = self._ray.exceptions
        try:
            answers: Answers = self._ray.get(reference)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, MemoryError):
                told = f"a batch of pairs was {RETRIES + 1} times more than the memory of a node could hold"
                raise WorkStopped(f"{told}: what was measured before is kept") from error
            raise (cause if isinstance(cause, KareninaError) else error) from error
        except errors.RayError as error:
            reason = str(error).strip().split("\n")[0]
            raise WorkStopped(f"the cluster lost a batch of pairs {RETRIES + 1} times: {reason}") from error
        return answers


def _reachable(address: str) -> bool:
    """Whether anybody listens there; tried twice, as a head may be busy."""
    host, _, port = address.rpartition(":")
    for _ in range(2):
        with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE):
            return True
    return False


def measure_batch(shared: Sequence[Any], batch: Sequence[PairTask], device: str) -> Answers:
    """On a node: measure the pairs. `shared` holds a reference to the work, not yet fetched."""
    try:
        return list(_measure(shared[0], device)(batch))
    except Exception as error:
        if not out_of_memory(error):
            raise
        _measure.cache_clear()
        raise MemoryError(str(error)) from None  # which Ray is told to try again


@functools.lru_cache(maxsize=1)
def _measure(reference: Any, device: str) -> Measure:
    """What a worker keeps from batch to batch: the networks, and its back end."""
    import torch

    torch.set_num_threads(1)  # a node runs a batch on every core
    work: Work = _ray().get(reference)
    return work.here(device)
