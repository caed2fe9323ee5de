"""The pairwise disagreement threshold (PDT): how far two networks can ever disagree on a domain.

Enters: two networks, a domain, a distance. Leaves: a `Disagreement`: a certified interval that holds
the threshold, a witness that attains its lower end with both outputs there, a status, the cost.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from karenina.distance import L1, Distance, Linf, distance
from karenina.domain import Box, Domain
from karenina.engine import Engine
from karenina.errors import DomainError, InputError
from karenina.network import Network
from karenina.query import Answer, Backend, Goal, Query, Status

__all__ = ["Disagreement", "middle_of", "pairwise_disagreement_threshold", "questions", "shared_query"]

Array = npt.NDArray[np.float64]
Question = tuple[Query, Goal]
Asking = Generator[Question, Answer, Answer]


@dataclass(frozen=True, eq=False)
class Disagreement:
    """lower <= PDT <= upper; at the witness the networks are `lower` apart (as far as rounding tells)."""

    lower: float
    upper: float
    status: Status
    witness: Array | None  # (inputs,)
    outputs: tuple[Array, Array] | None  # both networks' at the witness
    boxes: int
    seconds: float
    note: str = ""


def pairwise_disagreement_threshold(
    first: Network,
    second: Network,
    domain: Domain,
    distance: str | Distance = "l1",
    *,
    goal: Goal | None = None,
    backend: Backend | None = None,
) -> Disagreement:
    """The paper's PDT of two networks over a domain, as an interval with a witness."""
    backend = backend or Engine()
    asking = questions(first, second, domain, distance, goal or Goal())
    question = next(asking)
    while True:
        try:
            question = asking.send(backend.answer(*question))
        except StopIteration as end:
            found: Disagreement = end.value
            return found


def questions(
    first: Network, second: Network, domain: Domain, distance: str | Distance, goal: Goal
) -> Generator[Question, Answer, Disagreement]:
    """The PDT as a conversation: yields what must be known next, is sent the answer, and returns what follows.

    So whoever has many pairs can answer the next question of all of them at once.
    """
    _check_pair(first, second, domain)
    groups = _distance(distance).queries(first, second, domain)
    start = time.perf_counter()
    answer = yield from _largest(groups, goal, start + goal.time_limit)
    witness = answer.witness
    if witness is None and answer.lower == 0.0 and not any(_constrained(q) for group in groups for q in group):
        witness = middle_of(domain.boxes[0])  # every input attains 0
    outputs = None if witness is None else (first(witness), second(witness))
    seconds = time.perf_counter() - start
    return Disagreement(answer.lower, answer.upper, answer.status, witness, outputs, answer.boxes, seconds, answer.note)


def shared_query(first: Network, second: Network, domain: Domain, chosen: str | Distance) -> Query | None:
    """What is asked of these two, if all other pairs of their sizes are asked the very same, and nothing else."""
    metric = _distance(chosen)
    if type(metric) not in (L1, Linf):
        return None
    _check_pair(first, second, domain)
    ((query,),) = metric.queries(first, second, domain)
    return query if query.networks == (first, second) else None  # not where the distance needs a layer of its own


def middle_of(box: Box) -> Array:
    """The middle of a box, without overflow."""
    return np.clip(box.lower / 2 + box.upper / 2, box.lower, box.upper)


def _distance(chosen: str | Distance) -> Distance:
    return distance(chosen) if isinstance(chosen, str) else chosen


def _check_pair(first: Network, second: Network, domain: Domain) -> None:
    for what in ("input", "output"):
        a, b = getattr(first, f"{what}_size"), getattr(second, f"{what}_size")
        if a != b:
            raise InputError(f"{first.name} has {a} {what}s and {second.name} has {b}: they cannot be compared")
    if domain.size != first.input_size:
        raise DomainError(f"the domain has {domain.size} inputs but {first.name} takes {first.input_size}")


def _constrained(query: Query) -> bool:
    return any(len(case.constraint_offsets) for case in query.cases)


def _largest(groups: Sequence[Sequence[Query]], goal: Goal, deadline: float) -> Asking:
    """The maximum over groups: each needs to be known only as far as it exceeds those before."""
    best: Answer | None = None
    for group in groups:
        floor = best.lower if best else -math.inf
        found = yield from _least([replace(q, floor=max(q.floor, floor)) for q in group], goal, deadline)
        best = found if best is None else _combine(best, found, max, goal)
    if best is None:
        raise InputError("a distance must ask at least one query")
    return best


def _least(group: Sequence[Query], goal: Goal, deadline: float) -> Asking:
    """The minimum over a group's queries: each may stop once it surely exceeds another."""
    best: Answer | None = None
    for query in group:
        ceiling = min(goal.ceiling, best.upper) if best else goal.ceiling
        limit = max(0.0, deadline - time.perf_counter())
        found = yield query, replace(goal, time_limit=limit, ceiling=ceiling)
        best = found if best is None else _combine(best, found, min, goal)
    assert best is not None
    return best


def _combine(a: Answer, b: Answer, pick: Callable[[float, float], float], goal: Goal) -> Answer:
    """The maximum or minimum of two answers, with the witness of the one it picks."""
    lower, upper = pick(a.lower, b.lower), pick(a.upper, b.upper)
    chosen = a if (a.lower == lower and (a.witness is not None or b.lower != lower)) else b
    unfinished = [x.status for x in (a, b) if not x.status.finished]
    status = unfinished[0] if unfinished else Status.DECIDED  # both were stopped by a threshold or a ceiling
    if goal.reached(lower, upper):
        status = Status.INFEASIBLE if a.status is b.status is Status.INFEASIBLE else Status.EXACT
    telling = [x.note for x in (a, b) if x.note and (x is chosen or x.status is Status.INFEASIBLE)]
    note = "; ".join(dict.fromkeys(telling))
    return Answer(lower, upper, status, chosen.witness, chosen.case, a.boxes + b.boxes, a.seconds + b.seconds, note)
