"""The engine: a query and a goal in, a certified answer out.

Gradient ascent finds an incumbent, branch and bound on linear bounds of the joint network closes the interval:
compiled on the CPU, by kernels on a GPU, in torch where neither can be had. All in float64.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from karenina.engine import compiled
from karenina.engine.asked import Pairs, near_pairs
from karenina.engine.cases import Cases
from karenina.engine.compiled_search import ALIKE, CompiledSearch, near_copies, warm_up
from karenina.engine.fused import answer_pairs, answer_together, fits_pairs
from karenina.engine.incumbent import Incumbent
from karenina.engine.joint import Joint
from karenina.engine.kernels import gpu_kernels
from karenina.engine.paused import Paused
from karenina.engine.search import Search
from karenina.engine.settings import Settings
from karenina.engine.threads import one_torch_thread
from karenina.engine.tighten import Bounder
from karenina.errors import InputError
from karenina.query import Answer, Goal, Query, Status

__all__ = ["Engine"]


class Engine:
    """karenina's own back end. `device` is "auto", "cpu" or "cuda".

    Searches that a coarse goal has stopped are kept, the latest of them as far as memory allows, and go on when the
    same query is asked again with a finer goal.
    """

    def __init__(self, device: str = "auto", settings: Settings | None = None) -> None:
        self.device = _device(device)
        settings = settings or Settings()
        threads = torch.get_num_threads() if settings.threads is None else settings.threads
        self.settings = replace(settings, threads=threads if compiled.available() else 0)
        self._paused = Paused(self.settings.memory)

    @property
    def threads(self) -> int:
        """How many queries may well be asked at the same time."""
        return (self.settings.threads or 1) if self._compiled else 1

    @property
    def _compiled(self) -> bool:
        return bool(self.settings.threads) and self.device.type == "cpu"

    def answer(self, query: Query, goal: Goal | None = None) -> Answer:
        """The maximum of the query, to the goal or within its time limit."""
        if self._compiled:
            warm_up(query, self.settings)
        elif self.answers_all:
            return self.answer_all([(query, goal or Goal())])[0]
        return self.search(query, goal or Goal(), time.perf_counter())

    @property
    def answers_all(self) -> bool:
        """Whether many queries are better asked together: on a GPU."""
        return self.device.type == "cuda"

    def answer_all(self, questions: Sequence[tuple[Query, Goal]]) -> list[Answer]:
        """Many maxima at once; each time limit counts for all of them together.

        Near copies and constraints need what only the compiled search has: the CPU answers those where it can.
        """
        ours = [not (self._on_cpu._compiled and _for_the_cpu(query)) for query, _ in questions]
        here = [question for question, own in zip(questions, ours, strict=True) if own]
        there = [question for question, own in zip(questions, ours, strict=True) if not own]
        start = time.perf_counter()
        with ThreadPoolExecutor(max(1, self._on_cpu.threads)) as pool:
            waiting = [pool.submit(self._in_time, *question, start) for question in there]
            found = iter(answer_together(here, self.device, lambda query, goal: self.search(query, goal, start)))
            rest = (each.result() for each in waiting)
            return [next(found) if own else next(rest) for own in ours]

    def answer_pairs(self, pairs: Pairs) -> list[Answer]:
        """As `answer_all` for pairs of which all the same is asked, without a query for each of them.

        Near copies get their first bounds on the GPU, and what the CPU finds in the time instead where it gets to them.
        """
        shape = fits_pairs(pairs) if self.answers_all else None
        if shape is None or shape.constraints or gpu_kernels(shape, self.device) is None:
            return self.answer_all([(pairs.query(k), goal) for k, goal in enumerate(pairs.goals)])
        near = near_pairs(pairs.networks, pairs.places, ALIKE) & self._on_cpu._compiled
        goals = [_glance(goal) if alike else goal for goal, alike in zip(pairs.goals, near.tolist(), strict=True)]
        start, copies = time.perf_counter(), np.nonzero(near)[0].tolist()
        with ThreadPoolExecutor(1) as beside:
            waiting = beside.submit(self._copies, [(pairs.query(k), pairs.goals[k]) for k in copies], start)
            found = answer_pairs(replace(pairs, goals=goals), shape, self.device)
            for k, answer in zip(copies, waiting.result(), strict=True):
                found[k] = answer or _in_the_end(found[k], pairs.goals[k])
        return [
            self.search(pairs.query(k), pairs.goals[k], start) if answer is None else answer
            for k, answer in enumerate(found)
        ]

    def _in_time(self, query: Query, goal: Goal, start: float) -> Answer:
        """On the CPU, in what is left of a time that counts from `start`, for it has waited for others."""
        left = max(0.0, goal.time_limit - (time.perf_counter() - start))
        return self._on_cpu.answer(query, replace(goal, time_limit=left))

    def _copies(self, questions: Sequence[tuple[Query, Goal]], start: float) -> list[Answer | None]:
        """On the CPU, first bounds of all, then for those still open an equal share of the time; None: no time left."""
        limit, threads = min((goal.time_limit for _, goal in questions), default=0.0), max(1, self._on_cpu.threads)

        def answer(question: tuple[Query, Goal], seconds: float) -> Answer | None:
            query, goal = question
            in_time = time.perf_counter() - start < limit
            return self._on_cpu.answer(query, replace(goal, time_limit=seconds)) if in_time else None

        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(answer, questions, itertools.repeat(0.0 if math.isfinite(limit) else limit)))
            rest = [k for k, each in enumerate(found) if each is not None and not each.status.finished]
            share = max(0.0, limit - (time.perf_counter() - start)) * threads / max(1, len(rest))
            for k, better in zip(rest, pool.map(lambda k: answer(questions[k], share), rest), strict=True):
                found[k] = better or found[k]
        return found

    @cached_property
    def _on_cpu(self) -> Engine:
        return Engine("cpu", self.settings)

    def search(self, query: Query, goal: Goal, start: float) -> Answer:
        """The answer; the time counts from `start`."""
        with torch.no_grad(), one_torch_thread():
            search: Search | CompiledSearch | None = self._paused.take(query, goal) if self._compiled else None
            if search is None:
                joint = Joint.of(query.networks, self.device)
                cases, rounding = Cases.of(query, joint, self.device)
                if not rounding.finite or not math.isfinite(cases.least):
                    return Answer(query.floor, math.inf, Status.OVERFLOW, seconds=time.perf_counter() - start)
                kind = CompiledSearch if self._compiled else Search
                search = kind(Bounder(joint, cases, rounding), Incumbent(query, joint, cases), goal, self.settings)
            search.run(start + goal.time_limit)
            answer = _answer(search, goal, time.perf_counter() - start)
            if isinstance(search, CompiledSearch):
                self._paused.keep(query, goal, search)
            return answer


def _glance(goal: Goal) -> Goal:
    """The first bounds are enough."""
    return Goal(math.inf, ceiling=goal.ceiling, time_limit=goal.time_limit)


def _in_the_end(answer: Answer | None, goal: Goal) -> Answer | None:
    """What a glance has found, as an answer to the goal when the time is over."""
    if answer is None or answer.status is not Status.EXACT or goal.reached(answer.lower, answer.upper):
        return answer
    return replace(answer, status=Status.TIME_LIMIT)


def _for_the_cpu(query: Query) -> bool:
    return near_copies(query) or any(len(case.constraint_offsets) for case in query.cases)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda") and not name.startswith("cuda:"):
        raise InputError(f"unknown device {name!r}: choose auto, cpu or cuda")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise InputError("device cuda was asked for, but torch finds no GPU: choose cpu or auto")
    return torch.device(name)


def _answer(search: Search | CompiledSearch, goal: Goal, seconds: float) -> Answer:
    incumbent, upper = search.incumbent, search.upper
    status, note = _status(search, goal), ""
    lower = incumbent.value
    if incumbent.witness is None:
        if status is Status.INFEASIBLE:
            upper = lower
            note = "no input satisfies the constraints"
        elif search.shared.cases.constrained:
            note = "no input that surely satisfies the constraints was found"
    witness = None if incumbent.witness is None else incumbent.witness.cpu().numpy().astype(np.float64)
    return Answer(lower, max(lower, upper), status, witness, incumbent.case, search.boxes, seconds, note)


def _status(search: Search | CompiledSearch, goal: Goal) -> Status:
    incumbent, upper = search.incumbent, search.upper
    if incumbent.witness is None and search.done and search.closed <= search.shared.cases.least:
        return Status.INFEASIBLE
    if search.decided or (goal.threshold is not None and upper < goal.threshold):
        return Status.DECIDED
    if goal.threshold is None and goal.reached(incumbent.value, upper):
        return Status.EXACT
    return Status.PRECISION if search.done or search.beyond_precision else Status.TIME_LIMIT
