"""Many queries at once on a GPU, by kernels that are compiled at run time (`fused.cu`) for the networks at hand.

Enters: queries on networks of one architecture, one goal. Leaves: an answer for each. All boxes of all queries are on
one stack in the GPU's memory; a generation takes the top of it, and several generations run before anything comes back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Protocol

import numpy as np
import torch

from karenina.engine.joint import Joint, architecture, ending_affine
from karenina.engine.packing import kind_of
from karenina.engine.rounding import UNIT, Rounding
from karenina.network import Layer, Network
from karenina.query import Answer, Goal, Query, Status

__all__ = ["FusedSearch", "Kernels", "Shape", "answer_together", "fits", "gpu_kernels"]

Tensor = torch.Tensor
Dimensions = tuple[int, int, int]
WARPS = 4  # a block
WIDEST = 128  # neurons of a layer, beyond which a lane's registers do not hold a row
BOXES = ("climb", "plant", "halve")  # kernels that take a warp for a box
ITEMS = ("find_winners", "crown_winners", "find_highest")  # kernels that take a thread for an item
GENERATIONS = 8  # between two looks at the clock
STARTS, ASCENT, STEPS = 16, 10, 3
NOBODY = 2**31 - 1
MOST_SLOTS = 1 << 23
MOST_AT_ONCE = 1 << 16  # nodes of a generation


class Kernels(Protocol):
    """The compiled kernels of one shape."""

    def launch(self, name: str, world: Tensor, *more: int | Tensor) -> None:
        """Run a kernel over all there is."""


@dataclass(frozen=True)
class Shape:
    """What kernels are compiled for."""

    sizes: tuple[int, ...]  # inputs, hidden layers, outputs of one network
    stack: int
    constraints: int

    @property
    def single(self) -> int:
        return sum(self.sizes[1:-1])

    @property
    def weights(self) -> int:
        return sum(a * b for a, b in zip(self.sizes, self.sizes[1:], strict=False))

    def source(self) -> str:
        """The kernels' text with all sizes in front."""
        defined = {
            "INPUTS": self.sizes[0],
            "OUTPUTS": self.sizes[-1],
            "HIDDEN": len(self.sizes) - 2,
            "SIZES": "{" + ", ".join(map(str, self.sizes)) + "}",
            "STACK": self.stack,
            "SINGLE": self.single,
            "WEIGHTS": self.weights,
            "WIDEST": max(self.sizes),
            "CONSTRAINTS": self.constraints,
            "STEPS": STEPS,
            "STARTS": STARTS,
            "ASCENT": ASCENT,
        }
        head = "".join(f"#define {name} {value}\n" for name, value in defined.items())
        return head + resources.files("karenina.engine").joinpath("fused.cu").read_text(encoding="utf-8")

    @property
    def room(self) -> int:
        """Bytes of shared memory for one box."""
        inputs, outputs, neurons = self.sizes[0], self.sizes[-1], self.stack * self.single
        rows = 2 * self.stack * max(self.sizes) + self.stack * outputs + 3 * (self.constraints + 1) + 4 * self.stack
        return 8 * (8 * inputs + 20 * neurons + rows)


class _Kernel(Protocol):
    """What torch makes of a kernel's text."""

    def __call__(self, *, grid: Dimensions, block: Dimensions, args: list[int | Tensor], shared_mem: int) -> None: ...

    def set_shared_memory_config(self, shared_mem_bytes: int) -> None: ...


class _Gpu:
    """Kernels on the current GPU."""

    def __init__(self, shape: Shape) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._processors = properties.multi_processor_count
        most = getattr(properties, "shared_memory_per_block_optin", 48 << 10)
        self._warps = max(1, min(WARPS, most // shape.room))
        self._shared = self._warps * shape.room
        self._source = shape.source()
        self._compiled = {name: self._kernel(name) for name in (*BOXES, *ITEMS, "sort_out")}

    def launch(self, name: str, world: Tensor, *more: int | Tensor) -> None:
        kernel = self._compiled[name]
        if name == "sort_out":
            grid, block, shared = 1, 1024, 0
        elif name in BOXES:
            grid, block, shared = 8 * self._processors, 32 * self._warps, self._shared
        else:
            grid, block, shared = 4 * self._processors, 256, 0
        kernel(grid=(grid, 1, 1), block=(block, 1, 1), args=[world, *more], shared_mem=shared)

    def _kernel(self, name: str) -> _Kernel:
        kernel: _Kernel = torch.cuda._compile_kernel(self._source, name)
        if name in BOXES:
            kernel.set_shared_memory_config(self._shared)
        return kernel


@lru_cache(maxsize=16)
def gpu_kernels(shape: Shape, device: torch.device) -> Kernels | None:
    """Kernels for a shape, or None where they cannot be made: no compiler, or no room for such networks."""
    if device.type != "cuda" or not hasattr(torch.cuda, "_compile_kernel"):
        return None
    with torch.cuda.device(device):
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        if shape.room > getattr(properties, "shared_memory_per_block_optin", 0) or max(shape.sizes) > WIDEST:
            return None
        try:
            return _Gpu(shape)
        except Exception:  # no NVRTC, or one that refuses: plain torch is there
            return None


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
    """Answers by kernels; None where they leave it to others: no room, no finite bounds, a witness on an edge."""
    start = time.perf_counter()
    queries, goals = [query for query, _ in questions], [goal for _, goal in questions]
    cases = sum(len(query.cases) for query in queries)
    with torch.cuda.device(device):
        kernels, slots = gpu_kernels(shape, device), _slots(shape, cases)
        if slots < 2 * cases:
            half = len(questions) // 2
            if not half:
                return [None]
            return _search(questions[:half], shape, device) + _search(questions[half:], shape, device)
        assert kernels is not None
        search = FusedSearch(queries, goals, shape, device, slots)
        if not search.rounding.finite or not np.isfinite(search.least).all():
            return [None] * len(questions)
        search.run(kernels, start + max(goal.time_limit for goal in goals))
        answers = search.answers(time.perf_counter() - start)
    return [answer if _complete(search, answer) else None for answer in answers]


def _complete(search: FusedSearch, answer: Answer) -> bool:
    """Whether nobody else could say more: not so where memory ended the search, or no witness was found."""
    if search.exhausted and not answer.status.finished:
        return False
    return answer.witness is not None or answer.status.finished or not search.shape.constraints


def _slots(shape: Shape, cases: int) -> int:
    """Nodes to make room for: plenty, but no more than a third of the memory that is free."""
    node = 8 * (2 * shape.sizes[0] + 3 * shape.stack * shape.single + shape.constraints + 4)
    free, _ = torch.cuda.mem_get_info()
    return min(MOST_SLOTS, max(1 << 18, 32 * cases), free // 3 // node)


def fits(query: Query, goal: Goal) -> Shape | None:
    """The shape of a query that kernels can answer; None for any other."""
    chains = [_chain(network) for network in query.networks]
    if goal.threshold is not None or len({architecture(chain) for chain in chains}) > 1:
        return None
    sizes = (query.networks[0].input_size, *(len(layer.bias) for layer in chains[0]))
    return Shape(sizes, len(chains), max(len(case.constraint_offsets) for case in query.cases))


@lru_cache(maxsize=4096)
def _chain(network: Network) -> tuple[Layer, ...]:
    return ending_affine(network).layers


class FusedSearch:
    """Queries of one shape and activations, searched together."""

    def __init__(
        self, queries: Sequence[Query], goals: Sequence[Goal], shape: Shape, device: torch.device, slots: int
    ) -> None:
        self.queries, self.goals, self.shape, self.device = queries, goals, shape, device
        self.slots = slots
        self.exhausted = False  # whether there was no room to go on
        assert sum(len(query.cases) for query in queries) < slots
        self._tensors: list[Tensor] = []  # in the order of the kernels' structures; keeps them alive
        self._networks()
        self._questions()
        self._nodes()
        self._progress()
        self.world = torch.tensor([t.data_ptr() for t in self._tensors], dtype=torch.int64).to(device)

    def _add(self, *tensors: Tensor) -> None:
        self._tensors += [t.to(self.device).contiguous() for t in tensors]

    def _networks(self) -> None:
        distinct = {network: None for query in self.queries for network in query.networks}
        self.places = {network: place for place, network in enumerate(distinct)}
        chains = [_chain(network) for network in distinct]
        levels = list(zip(*chains, strict=True))
        weights = tuple(torch.stack([layer.weight for layer in level]) for level in levels)
        biases = tuple(torch.stack([layer.bias for layer in level])[:, None] for level in levels)
        self.joint = Joint(weights, biases, chains[0][:-1])
        boxes = [case.box for query in self.queries for case in query.cases]
        lower, upper = np.min([b.lower for b in boxes], axis=0), np.max([b.upper for b in boxes], axis=0)
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
        cases = [case for query in self.queries for case in query.cases]
        owner = np.repeat(np.arange(len(self.queries)), [len(query.cases) for query in self.queries])
        pairs = np.array([[self.places[network] for network in query.networks] for query in self.queries])
        lower, upper = np.stack([c.box.lower for c in cases]), np.stack([c.box.upper for c in cases])
        objective, offset = np.stack([c.objective for c in cases]), np.array([c.offset for c in cases], dtype=float)
        rows = np.zeros((len(cases), self.shape.constraints, objective.shape[1]))
        row_offset = np.zeros(rows.shape[:2])
        for place, case in enumerate(cases):
            count = len(case.constraint_offsets)
            rows[place, :count], row_offset[place, :count] = case.constraints if count else 0.0, case.constraint_offsets
        outputs = self.shape.sizes[-1]
        gamma = 4 * (objective.shape[1] + self.shape.constraints + 4) * UNIT
        magnitude = self.rounding.magnitude.reshape(-1, outputs).numpy()[pairs[owner]].reshape(objective.shape)
        each = 2 * self.rounding.outputs.reshape(-1, outputs).numpy()[pairs[owner]].reshape(objective.shape)
        each = each + gamma * magnitude
        error = (np.abs(objective) * each).sum(1) + gamma * np.abs(offset)
        row_error = (np.abs(rows) * each[:, None]).sum(2) + gamma * np.abs(row_offset)
        least = offset - (np.abs(objective) * magnitude).sum(1) - 2 * error
        self.least = np.full(len(self.queries), np.inf)
        np.minimum.at(self.least, owner, np.nextafter(least - 1e-280, -np.inf))
        gap = np.zeros(len(self.queries))
        np.maximum.at(gap, owner, 4 * error)
        plan = [
            (goal.tolerance, goal.relative_tolerance, gap[q], goal.ceiling, self.least[q])
            for q, goal in enumerate(self.goals)
        ]
        self.cases, self.owner = cases, owner
        self._add(torch.tensor(owner, dtype=torch.int32), torch.tensor(pairs, dtype=torch.int32))
        least_width = 16 * UNIT * np.maximum(np.abs(lower), np.abs(upper))
        arrays = (lower, upper, least_width, objective, offset, error, rows, row_offset, row_error, np.array(plan))
        self._add(*(torch.tensor(array, dtype=torch.float64) for array in arrays))

    def _floats(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float64, device=self.device)

    def _integers(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.int32, device=self.device)

    def _nodes(self) -> None:
        slots, shape = self.slots, self.shape
        self._tensors += [
            self._floats(slots),
            self._integers(slots),
            self._integers(slots),
            self._floats(slots, 2, shape.sizes[0]),
            self._floats(slots, 3, shape.stack * shape.single),
            self._floats(slots, shape.constraints),
        ]

    def _progress(self) -> None:
        queries, inputs = len(self.queries), self.shape.sizes[0]
        self.most = min(self.slots // 2, MOST_AT_ONCE)  # nodes of a generation
        items = max(2 * self.most, STARTS * len(self.cases))
        self.best = self._floats(queries).copy_(torch.tensor([query.floor for query in self.queries]))
        self.closed, self.highest = (self._floats(queries).fill_(-math.inf) for _ in range(2))
        self.witness, self.witness_case = self._floats(queries, inputs), self._integers(queries).fill_(-1)
        self.state = self._integers(5).copy_(torch.tensor([0, self.slots, 0, STARTS * len(self.cases), 0]))
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
            self._integers(self.slots),
            torch.arange(self.slots - 1, -1, -1, dtype=torch.int32, device=self.device),
            self.state,
        ]

    def run(self, kernels: Kernels, deadline: float) -> None:
        """Search until nothing is open, or the time or the memory is used up."""
        cases, queries = len(self.cases), len(self.queries)
        starts = torch.tensor(np.random.default_rng(0).random((STARTS, self.shape.sizes[0]))).to(self.device)
        kernels.launch("climb", self.world, starts, cases)
        self._crown(kernels, queries)
        self.state[3] = cases
        kernels.launch("plant", self.world, cases)
        self._crown(kernels, queries)
        kernels.launch("sort_out", self.world, self.most)
        while True:
            for _ in range(GENERATIONS):
                kernels.launch("halve", self.world)
                self._crown(kernels, queries)
                kernels.launch("sort_out", self.world, self.most)
            still_open, _, taken, *_ = self.state.tolist()
            self.exhausted = bool(still_open and not taken)
            if not taken or time.perf_counter() >= deadline:
                break
        kernels.launch("find_highest", self.world, self.highest)

    def _crown(self, kernels: Kernels, queries: int) -> None:
        kernels.launch("find_winners", self.world)
        kernels.launch("crown_winners", self.world, queries)

    def answers(self, seconds: float) -> list[Answer]:
        """What is known of each query."""
        best, closed, highest = (t.cpu().numpy() for t in (self.best, self.closed, self.highest))
        witness, case_of = self.witness.cpu().numpy(), self.witness_case.cpu().numpy()
        first = np.searchsorted(self.owner, np.arange(len(self.queries)))
        boxes = int(self.state[4]) // len(self.queries)
        found = []
        for q, goal in enumerate(self.goals):
            lower, upper = float(best[q]), max(float(best[q]), float(closed[q]), float(highest[q]))
            seen = case_of[q] >= 0
            status, note = self._status(q, goal, lower, upper, seen, highest[q] == -math.inf)
            if status is Status.INFEASIBLE:
                upper, note = lower, "no input satisfies the constraints"
            elif not seen and self.shape.constraints:
                note = "no input that surely satisfies the constraints was found"
            where = int(case_of[q] - first[q]) if seen else None
            x = witness[q].copy() if seen else None
            found.append(Answer(lower, upper, status, x, where, boxes, seconds / len(self.queries), note))
        return found

    def _status(self, q: int, goal: Goal, lower: float, upper: float, seen: bool, done: bool) -> tuple[Status, str]:
        if not seen and done and float(self.closed[q]) <= self.least[q]:
            return Status.INFEASIBLE, ""
        if lower >= goal.ceiling:
            return Status.DECIDED, ""
        if goal.reached(lower, upper):
            return Status.EXACT, ""
        return (Status.PRECISION if done else Status.TIME_LIMIT), ""
