"""Measuring many pairs: what a measurement of pairs is, and the one that does it here, in this process.

Enters: `PairTask`s, each two places in a list of networks and a goal. Leaves: each task once with its
`Disagreement`, in any order. Whatever can do that is a `Measure`: this process, many processes, a cluster, a store
of earlier answers. An answer must depend on the pair and the goal alone, not on who gives it or when.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from karenina.disagreement.pairwise import (
    Disagreement,
    middle_of,
    pairwise_disagreement_threshold,
    questions,
    shared_query,
)
from karenina.distance import Distance
from karenina.domain import Domain
from karenina.engine import Engine, Pairs
from karenina.errors import InputError
from karenina.network import Network
from karenina.query import Backend, Goal, Query

__all__ = ["Measure", "PairTask", "check_population", "measure_here"]

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
MANY = 64  # tasks from which on what they share is worth finding


@dataclass(frozen=True)
class PairTask:
    """Measure the networks at two places of the list, first < second, to the goal."""

    first: int
    second: int
    goal: Goal

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.second:
            raise InputError(f"a pair is two places, the smaller first, not {self.first} and {self.second}")


class Measure(Protocol):
    """Whoever measures pairs."""

    def __call__(self, tasks: Sequence[PairTask]) -> Iterator[tuple[PairTask, Disagreement]]:
        """Every task once with its answer, in any order."""


def measure_here(
    networks: Sequence[Network], domain: Domain, distance: str | Distance = "l1", backend: Backend | None = None
) -> Measure:
    """A measure that asks the back end, in this process: all tasks at once, or several if the back end has threads."""
    answerer = backend or Engine()
    if isinstance(answerer, Engine) and answerer.answers_all:
        return functools.partial(_in_rounds, networks, domain, distance, answerer)
    threads = answerer.threads if isinstance(answerer, Engine) else 1

    def answer(task: PairTask) -> tuple[PairTask, Disagreement]:
        first, second = networks[task.first], networks[task.second]
        found = pairwise_disagreement_threshold(first, second, domain, distance, goal=task.goal, backend=answerer)
        return task, found

    def measure(tasks: Sequence[PairTask]) -> Iterator[tuple[PairTask, Disagreement]]:
        if threads == 1 or len(tasks) == 1:
            yield from map(answer, tasks)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="pairs") as pool:
            waiting = [pool.submit(answer, task) for task in tasks]
            try:
                for each in as_completed(waiting):
                    yield each.result()
            finally:  # whoever stops listening, or an error, need not wait for the rest
                for each in waiting:
                    each.cancel()

    return measure


def _in_rounds(
    networks: Sequence[Network], domain: Domain, distance: str | Distance, engine: Engine, tasks: Sequence[PairTask]
) -> Iterator[tuple[PairTask, Disagreement]]:
    """The next question of every task is answered together with those of all others."""
    if len(tasks) >= MANY and len({task.goal.time_limit for task in tasks}) == 1:
        asked = shared_query(networks[tasks[0].first], networks[tasks[0].second], domain, distance)
        if asked is not None:
            yield from _together(networks, asked, engine, tasks)
            return
    asking = [questions(networks[t.first], networks[t.second], domain, distance, t.goal) for t in tasks]
    waiting = {place: next(each) for place, each in enumerate(asking)}
    while waiting:
        answers = engine.answer_all(list(waiting.values()))
        for place, answer in zip(list(waiting), answers, strict=True):
            try:
                waiting[place] = asking[place].send(answer)
            except StopIteration as end:
                del waiting[place]
                yield tasks[place], end.value


def _together(
    networks: Sequence[Network], asked: Query, engine: Engine, tasks: Sequence[PairTask]
) -> Iterator[tuple[PairTask, Disagreement]]:
    """Tasks that all ask the same of their pairs, each in one question: no query is built for each of them.

    A thousand networks make half a million tasks, and Python's part of each must stay at a few microseconds.
    """
    places = np.array([(task.first, task.second) for task in tasks])
    used, compact = np.unique(places, return_inverse=True)
    some = [networks[place] for place in used.tolist()]
    compact = compact.reshape(-1, 2)
    answers = engine.answer_pairs(Pairs(some, compact, [task.goal for task in tasks], asked.cases, asked.floor))
    middle = middle_of(asked.cases[0].box)
    points = [middle if answer.witness is None else answer.witness for answer in answers]
    witness = np.concatenate(points).reshape(len(points), -1)  # (pairs, inputs); faster than stacking
    outputs = _outputs_of_both(some, compact, witness)
    for task, a, x, y in zip(tasks, answers, witness, outputs, strict=True):
        attained = a.witness is not None or a.lower == 0.0  # every input attains 0
        point, both = (x, (y[0], y[1])) if attained else (None, None)
        yield task, Disagreement(a.lower, a.upper, a.status, point, both, a.boxes, a.seconds, a.note)


def _outputs_of_both(networks: Sequence[Network], places: Integers, x: Array) -> Array:
    """(pairs, 2, outputs) of each pair's networks at its point; every network is called once for all its points."""
    found = np.empty((*places.shape, networks[0].output_size))
    order = np.argsort(places, axis=None, kind="stable")
    ends = np.cumsum(np.bincount(places.ravel(), minlength=len(networks)))
    for network, own in zip(networks, np.split(order, ends[:-1]), strict=True):
        found.reshape(-1, networks[0].output_size)[own] = network(x[own // 2])
    return found


def check_population(networks: Sequence[Network], domain: Domain, names: Sequence[str] | None = None) -> list[str]:
    """The names of the networks, after refusing those that cannot be compared with each other on the domain."""
    _refuse_files(networks, domain)
    names = [network.name for network in networks] if names is None else list(names)
    if len(names) != len(networks):
        raise InputError(f"there are {len(networks)} networks but {len(names)} names")
    if len(networks) < 2:
        raise InputError(f"disagreement needs at least two networks, not {len(networks)}")
    _refuse_equal_names(names)
    _refuse_other_sizes(networks, names)
    _refuse_equal_contents(networks, names)
    domain.require_size(networks[0].named(names[0]))
    return names


def _refuse_files(networks: Sequence[object], domain: object) -> None:
    """Whoever has files must read them first."""
    for network in networks:
        if not isinstance(network, Network):
            raise InputError(f"a network is needed, not {network!r}: karenina.load reads one from a file")
    if not isinstance(domain, Domain):
        raise InputError(f"a domain is needed, not {domain!r}: karenina.load_domain reads one from a file")


def _refuse_equal_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"two networks are named {name!r}: give each its own name")
        seen.add(name)


def _refuse_other_sizes(networks: Sequence[Network], names: Sequence[str]) -> None:
    for what in ("input", "output"):
        sizes = [int(getattr(network, f"{what}_size")) for network in networks]
        for name, size in zip(names, sizes, strict=True):
            if size != sizes[0]:
                raise InputError(f"{names[0]} has {sizes[0]} {what}s and {name} has {size}: they cannot be compared")


def _refuse_equal_contents(networks: Sequence[Network], names: Sequence[str]) -> None:
    owner: dict[str, str] = {}
    for network, name in zip(networks, names, strict=True):
        same = owner.setdefault(network.digest(), name)
        if same != name:
            raise InputError(f"{same} and {name} hold the same network: leave one of them out")
