"""Measures that remember. Enters: a `Measure`, a run's journal, a cache. Leaves: a `Measure` that answers from the
record what is on record, asks the first for the rest, and records each answer the moment it arrives.

When models are added to a run, decisions may ask for pairs to another goal than before. With a ladder of goals, the
coarsest first, a finer answer serves a coarser question as well, so it is not measured again. A question to the
finest goal is answered by nothing but an answer to it, because a tie is decided by these. Of several answers the
run's own come before the cache's and the coarsest that will do before finer ones: so a run that is replayed from its
record finds, question by question, what it found the first time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from karenina.disagreement import Disagreement, Measure, PairTask
from karenina.query import Goal
from karenina.store.cache import Cache
from karenina.store.identity import Context
from karenina.store.journal import Journal
from karenina.store.records import Record

__all__ = ["recorded", "reordered"]

Answers = Iterator[tuple[PairTask, Disagreement]]


def recorded(
    measure: Measure,
    digests: Sequence[str],
    context: Context,
    journal: Journal,
    cache: Cache | None = None,
    ladder: Sequence[Goal] = (),
) -> Measure:
    """The measure with a memory; `digests` are those of the networks it measures, in its order."""

    def known(task: PairTask) -> Record | None:
        pair, goals = (context, digests[task.first], digests[task.second]), [task.goal, *_finer(task.goal, ladder)]
        record = next(filter(None, (journal.find(*pair, goal) for goal in goals)), None)
        if record is None and cache is not None:
            record = next(filter(None, (cache.find(*pair, goal) for goal in goals)), None)
            if record is not None:
                journal.append(record)  # the run is whole without the cache
        return record

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


def _finer(goal: Goal, ladder: Sequence[Goal]) -> Sequence[Goal]:
    """The goals of the ladder below this one."""
    return ladder[ladder.index(goal) + 1 :] if goal in ladder else ()


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
