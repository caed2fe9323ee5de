"""A plain verifier in the style of α,β-CROWN for few inputs, to compare with: the published one does not install here.

Enters: a query without constraints on piecewise-linear networks, a goal. Leaves: an answer. Linear bounds by
back-substitution (CROWN), for many boxes at once in torch, float64, all of torch's threads; the slopes of the
objective's bound optimised by Adam (α-CROWN), with the intermediate bounds of plain CROWN kept; input splits by the
coefficients of the bound times the widths ("sb"); PGD for the first lower bound, the bounds' own corners later.
The settings are that program's defaults, but for the number of Adam's steps in the search and the batch, which are
those that were fastest here. It maximises directly, which spares it the bisection that a program for yes and no would
need. Rounding is not bounded but padded for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from karenina.backends.progress import DEFAULT_GOAL, Progress
from karenina.backends.relu_form import relu_form
from karenina.errors import InputError
from karenina.query import Answer, Goal, Query, Status

__all__ = ["AlphaCrown"]

Tensor = torch.Tensor
RATE, DECAY = 0.1, 0.98  # of Adam
ROOT_STEPS, STEPS = 100, 5  # of Adam, at the root and in the search
RESTARTS, ATTACK = 30, 100  # of PGD
BATCH = 1024  # boxes bounded at once
FEW = 64  # boxes: where fewer are open, more than one input is split
PADDING = 1e-9  # of bounds, relative: far more than rounding, far less than any tolerance
SMALLEST = 1e-2  # coefficients count as at least this where a split is chosen


@dataclass(frozen=True)
class Stack:
    """The networks of a query as ReLU layers, stacked along a first axis; the mask tells ReLU from identity neurons."""

    weights: list[Tensor]  # (networks, out, in)
    biases: list[Tensor]  # (networks, 1, out)
    relu: list[Tensor]  # (networks, 1, out), of the hidden layers

    @classmethod
    def of(cls, query: Query) -> Stack:
        forms = [relu_form([network]) for network in query.networks]
        if len({tuple(layer.weight.shape for layer in form.layers) for form in forms}) > 1:
            forms = [relu_form(query.networks)]
        levels = list(zip(*(form.layers for form in forms), strict=True))
        weights = [np.stack([layer.weight for layer in level]) for level in levels]
        biases = [np.stack([layer.bias for layer in level])[:, None] for level in levels]
        weights.append(np.stack([form.weight for form in forms]))
        biases.append(np.stack([form.bias for form in forms])[:, None])
        masks = [torch.tensor(np.stack([layer.relu for layer in level])[:, None]) for level in levels]
        return cls([torch.tensor(w) for w in weights], [torch.tensor(b) for b in biases], masks)

    def outputs(self, x: Tensor) -> Tensor:
        """(points, outputs of all networks) at (points, inputs)."""
        h = x[None]
        for weight, bias, mask in zip(self.weights, self.biases, self.relu, strict=False):
            z = h @ weight.mT + bias
            h = torch.where(mask, z.clamp(min=0), z)
        return (h @ self.weights[-1].mT + self.biases[-1]).movedim(0, 1).flatten(1)

    def rows(self, objectives: Tensor) -> Tensor:
        """(boxes, all outputs) as (networks, boxes, 1, outputs)."""
        return objectives.reshape(len(objectives), len(self.weights[0]), -1).movedim(1, 0)[:, :, None]


@dataclass
class Boxes:
    """Open boxes, with what their parents leave them."""

    lower: Tensor  # (boxes, inputs)
    upper: Tensor
    case: Tensor  # (boxes,)
    bound: Tensor  # (boxes,) of the objective, from above
    coefficients: Tensor  # (boxes, inputs) of that bound
    slopes: list[Tensor]  # (networks, boxes, neurons) of every hidden layer

    def __len__(self) -> int:
        return len(self.case)

    def chosen(self, which: Tensor) -> Boxes:
        slopes = [each[:, which] for each in self.slopes]
        sides = self.lower[which], self.upper[which]
        return Boxes(*sides, self.case[which], self.bound[which], self.coefficients[which], slopes)

    def joined(self, other: Boxes) -> Boxes:
        def both(name: str) -> Tensor:
            return torch.cat([getattr(self, name), getattr(other, name)])

        slopes = [torch.cat(each, 1) for each in zip(self.slopes, other.slopes, strict=True)]
        return Boxes(both("lower"), both("upper"), both("case"), both("bound"), both("coefficients"), slopes)

    def split(self) -> Boxes:
        """Every box halved along the input that counts most; along several where boxes are few."""
        inputs = self.lower.shape[1]
        times = max(1, min(inputs, int(np.log2(max(2, FEW // len(self))))))
        score = self.coefficients.abs().clamp(min=SMALLEST) * (self.upper - self.lower)
        boxes, axes = self, score.topk(times, 1).indices
        for k in range(times):
            axis = axes[:, k : k + 1]
            middle = (boxes.lower.gather(1, axis) + boxes.upper.gather(1, axis)) / 2
            left, right = boxes.chosen(torch.arange(len(boxes))), boxes.chosen(torch.arange(len(boxes)))
            left.upper.scatter_(1, axis, middle)
            right.lower.scatter_(1, axis, middle)
            boxes, axes = left.joined(right), torch.cat([axes, axes])
        return boxes


Bounds = list[tuple[Tensor, Tensor]]  # (networks, boxes, neurons) from below and from above, of every hidden layer


def back(stack: Stack, bounds: Bounds, rows: Tensor, slopes: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Upper bounds (networks, boxes, rows) of rows @ what the last bounded layer leaves, and the coefficients on x.

    `rows` are (networks, boxes, rows, neurons) over the layer after the bounded ones, before its weights.
    """
    depth = len(bounds)
    total = (rows @ stack.biases[depth][:, :, :, None])[..., 0]
    rows = rows @ stack.weights[depth][:, None]
    for k in reversed(range(depth)):
        low, high = bounds[k]
        mask = stack.relu[k]
        loose = mask & (low < 0) & (high > 0)
        always = torch.where(mask & (high <= 0), 0.0, 1.0)  # the slope where there is no kink
        chord = torch.where(loose, high / (high - low).clamp(min=1e-300), always)
        below = torch.where(loose, slopes[k], always)
        positive, negative = rows.clamp(min=0), rows.clamp(max=0)
        total = total + (positive @ torch.where(loose, -chord * low, 0.0)[..., None])[..., 0]
        rows = positive * chord[:, :, None] + negative * below[:, :, None]
        total = total + (rows @ stack.biases[k][:, :, :, None])[..., 0]
        rows = rows @ stack.weights[k][:, None]
    return total, rows


def concrete(rows: Tensor, box: Boxes) -> Tensor:
    """The largest value of rows (..., boxes, rows, inputs) @ x over the boxes."""
    middle, radius = (box.lower + box.upper) / 2, (box.upper - box.lower) / 2
    return (rows @ middle[:, :, None] + rows.abs() @ radius[:, :, None])[..., 0]


def nearer(low: Tensor, high: Tensor) -> Tensor:
    """CROWN's own choice: the line of slope 0 or 1 that leaves the smaller area."""
    return (high > -low).to(low.dtype)


def intermediate(stack: Stack, box: Boxes) -> Bounds:
    """Bounds of all hidden neurons by CROWN."""
    bounds: Bounds = []
    for k in range(len(stack.relu)):
        networks, width = stack.weights[k].shape[:2]
        both = torch.cat([torch.eye(width, dtype=torch.float64), -torch.eye(width, dtype=torch.float64)])
        rows = both.expand(networks, len(box), -1, -1)
        total, rows = back(stack, bounds, rows, [nearer(*each) for each in bounds])
        high = total + concrete(rows, box)
        bounds.append((-high[..., width:], high[..., :width]))
    return bounds


def objective_bound(
    stack: Stack, bounds: Bounds, rows: Tensor, offset: Tensor, slopes: Sequence[Tensor], box: Boxes
) -> tuple[Tensor, Tensor]:
    """(boxes,) upper bounds of the objectives, and their coefficients (boxes, inputs)."""
    total, rows = back(stack, bounds, rows, slopes)
    rows = rows.sum(0)  # the networks read the same input
    return total.sum(0)[:, 0] + concrete(rows, box)[:, 0] + offset, rows[:, 0]


class AlphaCrown:
    """The back end."""

    def __init__(self, steps: int = STEPS, batch: int = BATCH) -> None:
        self.steps, self.batch = steps, batch

    def answer(self, query: Query, goal: Goal = DEFAULT_GOAL) -> Answer:
        if any(len(case.constraint_offsets) for case in query.cases):
            raise InputError("this baseline takes no constraints")
        progress = Progress(query, goal)
        with torch.no_grad():
            self._search(Search(query, progress), progress)
        return progress.answer(Status.TIME_LIMIT)

    def _search(self, search: Search, progress: Progress) -> None:
        search.attack()
        boxes = search.left(search.bounded(search.root(), ROOT_STEPS))
        search.tell(boxes)
        while len(boxes) and progress.seconds_left > 0:
            order = boxes.bound.argsort(descending=True)
            half = max(1, self.batch // 2)
            taken, rest = boxes.chosen(order[:half]), boxes.chosen(order[half:])
            children = search.bounded(taken.split(), self.steps)
            search.offer(children)
            boxes = search.left(rest.joined(children))
            search.tell(boxes)


class Search:
    """One query's numbers."""

    def __init__(self, query: Query, progress: Progress) -> None:
        self.query, self.progress, self.stack = query, progress, Stack.of(query)
        self.objectives = torch.tensor(np.stack([case.objective for case in query.cases]))
        self.offsets = torch.tensor([float(case.offset) for case in query.cases], dtype=torch.float64)
        self.closed = torch.full((len(query.cases),), -torch.inf, dtype=torch.float64)  # what was closed lies below

    @property
    def target(self) -> float:
        """What lies below is of no interest."""
        wide = self.progress.lower + self.progress.goal.gap(self.progress.lower)
        return wide - 2 * PADDING * (1 + abs(wide))

    def root(self) -> Boxes:
        """The cases' own boxes."""
        lower, upper = (
            torch.tensor(np.stack([getattr(case.box, side) for case in self.query.cases]))
            for side in ("lower", "upper")
        )
        unknown = torch.full((len(lower),), torch.inf, dtype=torch.float64)
        return Boxes(lower, upper, torch.arange(len(lower)), unknown, torch.zeros_like(lower), [])

    def bounded(self, box: Boxes, steps: int) -> Boxes:
        """The boxes with bounds of their own: CROWN's, and for those still open, slopes optimised by Adam."""
        bounds = intermediate(self.stack, box)
        if not box.slopes:
            box.slopes = [nearer(*each) for each in bounds]
        rows, offset = self.stack.rows(self.objectives[box.case]), self.offsets[box.case]
        bound, coefficients = objective_bound(self.stack, bounds, rows, offset, box.slopes, box)
        box.bound, box.coefficients = torch.minimum(box.bound, bound), coefficients
        self.progress.boxes += len(box)
        still = (box.bound > self.target).nonzero()[:, 0]
        if steps and len(still):
            some = box.chosen(still)
            self._optimise(some, [(low[:, still], high[:, still]) for low, high in bounds], steps)
            box.bound[still], box.coefficients[still] = some.bound, some.coefficients
            for slopes, better in zip(box.slopes, some.slopes, strict=True):
                slopes[:, still] = better
        return box

    def _optimise(self, box: Boxes, bounds: Bounds, steps: int) -> None:
        """Adam on the slopes, the best bound of each box kept."""
        rows, offset = self.stack.rows(self.objectives[box.case]), self.offsets[box.case]
        slopes = [each.clone().requires_grad_() for each in box.slopes]
        adam = torch.optim.Adam(slopes, RATE)
        for step in range(steps + 1):
            with torch.enable_grad():
                bound, coefficients = objective_bound(self.stack, bounds, rows, offset, slopes, box)
                if step < steps:
                    adam.zero_grad()
                    torch.autograd.backward(bound.sum())
            better = bound < box.bound
            box.bound = torch.where(better, bound, box.bound)
            box.coefficients = torch.where(better[:, None], coefficients, box.coefficients)
            box.slopes = [torch.where(better[:, None], new, old) for new, old in zip(slopes, box.slopes, strict=True)]
            if step == steps or not bool((box.bound > self.target).any()) or self.progress.seconds_left <= 0:
                break
            adam.step()
            adam.param_groups[0]["lr"] *= DECAY
            for each in slopes:
                each.clamp_(0, 1)

    def attack(self) -> None:
        """PGD from random inputs, for every case."""
        generator = torch.Generator().manual_seed(0)
        for k, case in enumerate(self.query.cases):
            lower, upper = torch.tensor(case.box.lower), torch.tensor(case.box.upper)
            x = lower + (upper - lower) * torch.rand(RESTARTS, len(lower), generator=generator, dtype=torch.float64)
            step = (upper - lower) / 4
            for _ in range(ATTACK):
                with torch.enable_grad():
                    x.requires_grad_()
                    (slope,) = torch.autograd.grad((self.stack.outputs(x) @ self.objectives[k]).sum(), x)
                x = (x.detach() + step * slope.sign()).clamp(lower, upper)
                step = step * 0.96
            self.progress.offer(k, x[(self.stack.outputs(x) @ self.objectives[k]).argmax()].numpy())

    def offer(self, box: Boxes) -> None:
        """The corners where the linear bounds are largest, as inputs."""
        x = torch.where(box.coefficients > 0, box.upper, box.lower)
        values = (self.stack.outputs(x) * self.objectives[box.case]).sum(1) + self.offsets[box.case]
        best = int(values.argmax())
        if float(values[best]) > self.progress.lower:
            self.progress.offer(int(box.case[best]), x[best].numpy())

    def left(self, box: Boxes) -> Boxes:
        """The boxes that stay open; the bounds of the others are remembered."""
        stays = box.bound > self.target
        self.closed.scatter_reduce_(0, box.case[~stays], box.bound[~stays], "amax")
        return box.chosen(stays.nonzero()[:, 0])

    def tell(self, box: Boxes) -> None:
        """The cases' upper bounds, from what is open and what was closed."""
        highest = self.closed.clone().scatter_reduce_(0, box.case, box.bound, "amax")
        for k, upper in enumerate(highest.tolist()):
            self.progress.tighten(k, upper + PADDING * (1 + abs(upper)))
