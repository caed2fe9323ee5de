"""Measures that remember. Enters: a `Measure`, a run's journal, a cache. Leaves: a `Measure` that answers from the
record what is on record, asks the first for the rest, and records each answer the moment it arrives.

When models are added to a run, decisions may ask for pairs at another tolerance than before. A finer answer serves
a coarser question as well, so it is not measured again. A question to the finest tolerance is answered by nothing but
an answer to it, because a tie is decided by these; and the coarsest answer that will do is taken, so that a run that
is replayed from its record finds, question by question, what it found the first time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from karenina.disagreement import Disagreement, Measure, PairTask
from karenina.query import Goal
from karenina.selection.plan import COARSEST, RATIO
from karenina.store.cache import Cache
from karenina.store.identity import Context
from karenina.store.journal import Journal
from karenina.store.records import Record

__all__ = ["finer_goals", "recorded", "reordered"]

Answers = Iterator[tuple[PairTask, Disagreement]]


def recorded(
    measure: Measure,
    digests: Sequence[str],
    context: Context,
    journal: Journal,
    cache: Cache | None = None,
    finest: float = math.inf,
) -> Measure:
    """The measure with a memory; `digests` are those of the networks it measures, in its order.

    `finest` is the tolerance below which nothing is asked; if it is given, finer answers serve coarser questions.
    """

    def known(task: PairTask) -> Record | None:
        pair = context, digests[task.first], digests[task.second]
        for goal in (task.goal, *finer_goals(task.goal, finest)):
            record = journal.find(*pair, goal)
            if record is None and cache is not None:
                record = cache.find(*pair, goal)
                if record is not None:
                    journal.append(record)  # the run is whole without the cache
            if record is not None:
                return record
        return None

    def keep(task: PairTask, found: Disagreement) -> None:
        record = Record(context, digests[task.first], digests[task.second], task.goal, found)
        journal.append(record)
        if cache is not None:
            cache.append(record)

    def answers(tasks: Sequence[PairTask]) -> Answers:
        missing = []
        for task in tasks:
            record = known(task)
            if record is None:
                missing.append(task)
            else:
                yield task, record.found
        for task, found in measure(missing) if missing else ():
            keep(task, found)
            yield task, found
        journal.sync()

    return answers


def finer_goals(goal: Goal, finest: float) -> Iterator[Goal]:
    """The goals of the ladder (`karenina.selection.plan`) below this one, the coarsest first."""
    if not finest < goal.tolerance:
        return
    if goal.tolerance >= COARSEST:  # asked of every pair at the start: rather one look than twenty
        yield replace(goal, tolerance=finest)
        return
    for step in range(round(math.log(goal.tolerance / finest, RATIO)) - 1, -1, -1):
        yield replace(goal, tolerance=finest * RATIO**step)


def reordered(measure: Measure, order: Sequence[int]) -> Measure:
    """A measure of networks n, from one of [n[order[0]], n[order[1]], ...]; outputs come in the order asked for."""
    place = {network: k for k, network in enumerate(order)}

    def answers(tasks: Sequence[PairTask]) -> Answers:
        asked: dict[PairTask, PairTask] = {}
        for task in tasks:
            first, second = sorted((place[task.first], place[task.second]))
            asked[PairTask(first, second, task.goal)] = task
        for inner, found in measure(list(asked)):
            task = asked[inner]
            yield task, found if place[task.first] < place[task.second] else _turned(found)

    return answers


def _turned(found: Disagreement) -> Disagreement:
    """The same disagreement, the second network named first."""
    return found if found.outputs is None else replace(found, outputs=(found.outputs[1], found.outputs[0]))
