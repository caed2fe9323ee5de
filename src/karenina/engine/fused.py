"""Many queries at once on a GPU, by kernels that are compiled at run time for the networks at hand (`kernels`).

Enters: queries on networks of one architecture, one goal. Leaves: an answer for each. All boxes of all queries are on
one stack in the GPU's memory; a generation takes the top of it, and several generations run before anything comes back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from karenina.engine.asked import Asked, Pairs
from karenina.engine.joint import Joint, architecture, ending_affine
from karenina.engine.kernels import STARTS, Kernels, Shape, gpu_kernels
from karenina.engine.packing import kind_of
from karenina.engine.rounding import LEAST, UNIT, Rounding
from karenina.network import Layer, Network
from karenina.query import Answer, Goal, Query, Status

__all__ = ["FusedSearch", "answer_pairs", "answer_together", "fits", "fits_pairs"]

Tensor = torch.Tensor
Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
GENERATIONS = 8  # between two looks at the clock, at most
EVERY = 1 << 14  # generations between two looks, times the weights of a query's networks
NOBODY = 2**31 - 1
FEW = 16  # queries whose intervals shrink together until the time is over
FEW_CASES = 64  # that may have all the room there is
LEAST_SLOTS, MOST_SLOTS = 1 << 21, 1 << 23
MOST_AT_ONCE = 1 << 16  # nodes of a generation
DEEP_AT_ONCE = 1 << 14  # where room is short: so many are worked off, and all that comes of them, before the next
_STATUS = (Status.INFEASIBLE, Status.DECIDED, Status.EXACT, Status.PRECISION, Status.TIME_LIMIT)
_INFEASIBLE = 0


def answer_together(
    questions: Sequence[tuple[Query, Goal]], device: torch.device, alone: Callable[[Query, Goal], Answer]
) -> list[Answer]:
    """Answers in the order of the questions: those that kernels can search together, the others `alone`."""
    answers: list[Answer | None] = [None] * len(questions)
    groups: dict[tuple[Shape, object], list[int]] = {}
    for place, (query, goal) in enumerate(questions):
        shape = fits(query, goal)
        if shape is not None and gpu_kernels(shape, device) is not None:
            key = shape, (architecture(_chain(query.networks[0])), goal.time_limit)
            groups.setdefault(key, []).append(place)
    for (shape, _), places in groups.items():
        chosen = [questions[place] for place in places]
        for place, answer in zip(places, _search(chosen, shape, device), strict=True):
            answers[place] = answer
    return [alone(*q) if answer is None else answer for q, answer in zip(questions, answers, strict=True)]


def _search(questions: Sequence[tuple[Query, Goal]], shape: Shape, device: torch.device) -> list[Answer | None]:
    """Answers by kernels; None where they leave it to others."""
    queries, goals = [query for query, _ in questions], [goal for _, goal in questions]
    deadline = time.perf_counter() + max(goal.time_limit for goal in goals)

    def asked(start: int, end: int) -> Asked:
        return Asked.of(queries[start:end], goals[start:end], shape.constraints)

    cases = [len(query.cases) for query in queries]
    return _in_parts(asked, np.cumsum([0, *cases]), shape, device, deadline)


def fits_pairs(pairs: Pairs) -> Shape | None:
    """The shape of pairs that kernels can answer together; None if there are others among them."""
    if len({architecture(_chain(network)) for network in pairs.networks}) > 1 or not len(pairs):
        return None
    if len({goal.time_limit for goal in pairs.goals}) > 1 or any(goal.threshold is not None for goal in pairs.goals):
        return None
    return fits(pairs.query(0), pairs.goals[0])


def answer_pairs(pairs: Pairs, shape: Shape, device: torch.device) -> list[Answer | None]:
    """Answers for pairs that fit, in their order; None where kernels leave it to others."""
    deadline = time.perf_counter() + max((goal.time_limit for goal in pairs.goals), default=0.0)

    def asked(start: int, end: int) -> Asked:
        return Asked.of_pairs(pairs.some(np.arange(start, end)))

    return _in_parts(asked, len(pairs.cases) * np.arange(len(pairs) + 1), shape, device, deadline)


def _in_parts(
    asked: Callable[[int, int], Asked],
    cases_before: npt.NDArray[np.int64],
    shape: Shape,
    device: torch.device,
    deadline: float,
) -> list[Answer | None]:
    """All queries in one search, or in several where memory is short; a search by itself always does its first bounds.

    None where kernels leave it to others: no room, no finite bounds, a witness on an edge.
    """
    answers: list[Answer | None] = []
    count = len(cases_before) - 1
    with _on(device):
        kernels = gpu_kernels(shape, device)
        assert kernels is not None
        while len(answers) < count:
            start, end = len(answers), count
            while (slots := _slots(shape, cases := int(cases_before[end] - cases_before[start]))) < 2 * cases:
                end = start + (end - start) // 2
                if end == start:
                    break
            answers += [None] if end == start else _searched(asked(start, end), kernels, shape, device, slots, deadline)
    return answers


def _searched(
    asked: Asked, kernels: Kernels, shape: Shape, device: torch.device, slots: int, deadline: float
) -> list[Answer | None]:
    start = time.perf_counter()
    search = FusedSearch(asked, shape, device, slots)
    if not search.rounding.finite or not np.isfinite(search.least).all():
        return [None] * len(asked)
    search.run(kernels, deadline)
    answers = search.answers(time.perf_counter() - start)
    return [answer if _complete(search, answer) else None for answer in answers]


def _on(device: torch.device) -> AbstractContextManager[object]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _complete(search: FusedSearch, answer: Answer) -> bool:
    """Whether nobody else could say more: not so where memory ended the search, or no witness was found."""
    if search.exhausted and not answer.status.finished:
        return False
    return answer.witness is not None or answer.status.finished or not search.shape.constraints


def _slots(shape: Shape, cases: int) -> int:
    """Nodes to make room for: plenty, but no more than a third of the memory that is free."""
    node = 8 * (2 * shape.sizes[0] + 3 * shape.stack * shape.single + shape.constraints + 4)
    item, case = 8 * (shape.sizes[0] + 3), 8 * (3 * shape.sizes[0] + shape.stack * shape.sizes[-1] + 4)
    free, _ = torch.cuda.mem_get_info()
    left = free // 2 - cases * (STARTS * item + case)
    wanted = MOST_SLOTS if cases <= FEW_CASES else max(LEAST_SLOTS, 32 * cases)
    return max(0, min(MOST_SLOTS, wanted, left // node, free // 3 // node))


def fits(query: Query, goal: Goal) -> Shape | None:
    """The shape of a query that kernels can answer; None for any other."""
    chains = [_chain(network) for network in query.networks]
    if goal.threshold is not None or len({architecture(chain) for chain in chains}) > 1:
        return None
    sizes = (query.networks[0].input_size, *(len(layer.bias) for layer in chains[0]))
    smooth = any(not activation.piecewise_linear for layer in chains[0] for activation, _ in layer.activations)
    return Shape(sizes, len(chains), max(len(case.constraint_offsets) for case in query.cases), smooth)


@lru_cache(maxsize=4096)
def _chain(network: Network) -> tuple[Layer, ...]:
    return ending_affine(network).layers


class FusedSearch:
    """Queries of one shape and activations, searched together."""

    def __init__(self, asked: Asked, shape: Shape, device: torch.device, slots: int) -> None:
        self.asked, self.shape, self.device, self.slots = asked, shape, device, slots
        self.exhausted = False  # whether there was no room to go on
        self._forgot = False  # whether nodes were given up
        assert len(asked.owner) < slots
        self._tensors: list[Tensor] = []  # in the order of the kernels' structures; keeps them alive
        self._networks()
        self._questions()
        self._nodes()
        self._progress()
        self.world = torch.tensor([t.data_ptr() for t in self._tensors], dtype=torch.int64).to(device)

    def _add(self, *tensors: Tensor) -> None:
        self._tensors += [t.to(self.device).contiguous() for t in tensors]

    def _networks(self) -> None:
        chains = [_chain(network) for network in self.asked.networks]
        levels = list(zip(*chains, strict=True))
        weights = tuple(torch.stack([layer.weight for layer in level]) for level in levels)
        biases = tuple(torch.stack([layer.bias for layer in level])[:, None] for level in levels)
        self.joint = Joint(weights, biases, chains[0][:-1])
        lower, upper = self.asked.lower.min(0), self.asked.upper.max(0)
        self.rounding = Rounding.of_each(self.joint, torch.tensor(lower), torch.tensor(upper), self.shape.stack)
        kinds = [kind_of(a) for layer in chains[0][:-1] for a, count in layer.activations for _ in range(count)]
        self._add(
            torch.cat([w.flatten(1) for w in weights], 1),
            torch.cat([w.mT.flatten(1) for w in weights], 1),
            torch.cat([b.flatten(1) for b in biases], 1),
            torch.cat([e.flatten(1) for e in self.rounding.hidden], 1),
            torch.tensor(kinds, dtype=torch.float64),
        )

    def _questions(self) -> None:
        asked, count, kind = self.asked, len(self.asked), self.asked.kind
        owner, pairs, objective, offset = asked.owner, asked.places, asked.objective[kind], asked.offset[kind]
        rows, row_offset = asked.rows[kind], asked.row_offset[kind]
        outputs = self.shape.sizes[-1]
        gamma = 4 * (objective.shape[1] + self.shape.constraints + 4) * UNIT
        magnitude = self.rounding.magnitude.reshape(-1, outputs).numpy()[pairs[owner]].reshape(objective.shape)
        each = 2 * self.rounding.outputs.reshape(-1, outputs).numpy()[pairs[owner]].reshape(objective.shape)
        each = each + gamma * magnitude
        tiny = self.rounding.underflow
        error = (np.abs(objective) * each).sum(1) + gamma * np.abs(offset) + tiny
        row_error = (np.abs(rows) * each[:, None]).sum(2) + gamma * np.abs(row_offset) + tiny
        least = offset - (np.abs(objective) * magnitude).sum(1) - 2 * error
        self.least = np.full(count, np.inf)
        np.minimum.at(self.least, owner, np.nextafter(least - 1e-280, -np.inf))
        gap = np.zeros(count)
        np.maximum.at(gap, owner, 4 * error)
        tolerance, relative, ceiling = asked.wanted.T
        plan = np.stack([tolerance, relative, gap, ceiling, self.least], 1)
        self._query = torch.tensor(owner, dtype=torch.int32, device=self.device)
        self._add(self._query, torch.tensor(pairs, dtype=torch.int32))
        least_width = 16 * np.maximum(UNIT * np.maximum(np.abs(asked.lower), np.abs(asked.upper)), LEAST)
        repeated = torch.from_numpy(kind).to(self.device)  # on the device: boxes are what is large
        self._add(*(torch.tensor(side).to(self.device)[repeated] for side in (asked.lower, asked.upper, least_width)))
        arrays = (objective, offset, error, rows, row_offset, row_error, plan)
        self._add(*(torch.tensor(array, dtype=torch.float64) for array in arrays))

    def _floats(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float64, device=self.device)

    def _integers(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.int32, device=self.device)

    def _nodes(self) -> None:
        slots, shape = self.slots, self.shape
        self._bound, self._case = self._floats(slots), self._integers(slots)
        self._tensors += [
            self._bound,
            self._case,
            self._integers(slots),
            self._floats(slots, 2, shape.sizes[0]),
            self._floats(slots, 3, shape.stack * shape.single),
            self._floats(slots, shape.constraints),
        ]

    def _progress(self) -> None:
        queries, cases, inputs = len(self.asked), len(self.asked.owner), self.shape.sizes[0]
        self.most = min(self.slots // 2, MOST_AT_ONCE)  # nodes of a generation
        items = max(2 * self.most, STARTS * cases)
        self.best = self._floats(queries).copy_(torch.tensor(self.asked.floor))
        self.closed, self.highest = (self._floats(queries).fill_(-math.inf) for _ in range(2))
        self.witness, self.witness_case = self._floats(queries, inputs), self._integers(queries).fill_(-1)
        self._stack = self._integers(self.slots)
        self._spare = torch.arange(self.slots - 1, -1, -1, dtype=torch.int32, device=self.device)
        self.state = self._integers(6).copy_(torch.tensor([0, self.slots, 0, STARTS * cases, 0, 0]))
        self._tensors += [
            self.best,
            self.best.clone(),
            self.closed,
            self.witness,
            self.witness_case,
            self._integers(queries).fill_(NOBODY),
            self._floats(items),
            self._integers(items),
            self._floats(items, inputs),
            self._integers(items),
            self._integers(items),
            self._stack,
            self._spare,
            self.state,
        ]

    def run(self, kernels: Kernels, deadline: float) -> None:
        """Search until nothing is open, or the time or the memory is used up.

        Few queries with a time limit are searched best-first, depth-first while room is short, and give up what is
        lowest where hardly any is left; else one is finished after the other, which is faster, and the search ends
        where there is no room.
        """
        cases, queries = len(self.asked.owner), len(self.asked)
        starts = torch.tensor(np.random.default_rng(0).random((STARTS, self.shape.sizes[0]))).to(self.device)
        kernels.launch("climb", self.world, starts, cases)
        self._crown(kernels, queries)
        self.state[3] = cases
        kernels.launch("plant", self.world, cases)
        self._crown(kernels, queries)
        kernels.launch("sort_out", self.world, self.most)
        generations = max(1, min(GENERATIONS, EVERY // (self.shape.stack * self.shape.weights)))
        best_first, deep = math.isfinite(deadline) and queries <= FEW, False
        while True:
            for _ in range(generations):
                kernels.launch("halve", self.world)
                self._crown(kernels, queries)
                kernels.launch("sort_out", self.world, min(self.most, DEEP_AT_ONCE) if deep else self.most)
            still_open, spare, taken, *_ = self.state.tolist()
            if not still_open or time.perf_counter() >= deadline:
                break
            if best_first:
                deep = spare <= self.slots // (2 if deep else 4)
                if not deep or spare <= self.slots // 8:
                    self._highest_on_top(still_open)
                if spare <= self.slots // 8:
                    self._forget(still_open, spare)
            elif not taken:
                self.exhausted = True
                break
        kernels.launch("find_highest", self.world, self.highest)

    def _highest_on_top(self, still_open: int) -> None:
        """The nodes that exceed their queries' best values by most come next."""
        nodes = self._stack[:still_open].long()
        excess = self._bound[nodes] - self.best[self._query[self._case[nodes].long()].long()]
        self._stack[:still_open] = nodes[excess.argsort(stable=True)].int()

    def _forget(self, still_open: int, spare: int) -> None:
        """Give the lowest nodes up, so that half of the room is free; what they may attain counts as closed."""
        keep = self.slots // 2
        gone, taken = still_open - keep, min(keep, self.most)
        nodes = self._stack[:gone].long()
        self.closed.scatter_reduce_(0, self._query[self._case[nodes].long()].long(), self._bound[nodes], "amax")
        self._spare[spare : spare + gone] = self._stack[:gone]
        self._stack[:keep] = self._stack[gone:still_open].clone()
        self.state[:4] = torch.tensor([keep, spare + gone, taken, 2 * taken], dtype=torch.int32)
        self._forgot = True

    def _crown(self, kernels: Kernels, queries: int) -> None:
        kernels.launch("find_winners", self.world)
        kernels.launch("crown_winners", self.world, queries)

    @property
    def boxes(self) -> int:
        """Bounded so far, for all queries."""
        low, high = self.state[4:].tolist()
        return int(low + (high << 24))

    def answers(self, seconds: float) -> list[Answer]:
        """What is known of each query."""
        best, closed, highest = (t.cpu().numpy() for t in (self.best, self.closed, self.highest))
        case_of = self.witness_case.cpu().numpy()
        first = np.searchsorted(self.asked.owner, np.arange(len(self.asked)))
        boxes, share = self.boxes // len(self.asked), seconds / len(self.asked)
        upper = np.maximum(best, np.maximum(closed, highest))
        done = np.logical_and(highest == -math.inf, not self._forgot)  # what was given up has not been searched
        seen, status = case_of >= 0, self._statuses(best, upper, closed, done, case_of >= 0)
        unseen = "no input that surely satisfies the constraints was found" if self.shape.constraints else ""
        found = []
        # Half a million rows: Python's own numbers are made all at once, and witnesses are views of one array.
        rows = (best, upper, status, seen, case_of - first)
        for low, high, code, known, where, x in zip(*(r.tolist() for r in rows), self._witnesses(), strict=True):
            if code == _INFEASIBLE:
                high, note = low, "no input satisfies the constraints"
            else:
                note = "" if known else unseen
            witness, case = (x, where) if known else (None, None)
            found.append(Answer(low, high, _STATUS[code], witness, case, boxes, share, note))
        return found

    def _witnesses(self) -> npt.NDArray[np.float64]:
        return np.array(self.witness.cpu().numpy())  # (queries, inputs): a copy even where this is the CPU

    def _statuses(self, lower: Array, upper: Array, closed: Array, done: Flags, seen: Flags) -> npt.NDArray[np.int64]:
        """How each search ended, as places in _STATUS; what stands first below counts."""
        tolerance, relative, ceiling = self.asked.wanted.T
        gap = np.maximum(tolerance, relative * np.where(np.isfinite(lower), np.abs(lower), 0.0))
        infeasible = ~seen & done & (closed <= self.least)
        conditions = [infeasible, lower >= ceiling, upper - lower <= gap, done]
        return np.select(conditions, [_INFEASIBLE, 1, 2, 3], 4)
