"""Branch and bound in torch: the best nodes of all cases, a batch at a time, until the goal is reached.

On a GPU, and where nothing can be compiled; the reference for the compiled search.

Enters: a compiled query (`Bounder`), a goal, and an incumbent. Leaves: lower and upper bounds of the
maximum, at any time. Every node is bounded, its slopes are tightened, its corner is tried as a
witness, its box is clipped to where it can still matter, and what stays open is split.
"""

from __future__ import annotations

import math
import time

import torch

from karenina.engine.bounds import Hidden, hidden_bounds
from karenina.engine.branching import choose_split, clip_box, split
from karenina.engine.cuts import tighten_by_cuts
from karenina.engine.incumbent import Incumbent, ascend, random_starts
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes, Pool, by_layer, flat, smooth
from karenina.engine.rounding import LEAST, UNIT
from karenina.engine.settings import Settings
from karenina.engine.tighten import Bounder, Tight, evaluate, tighten
from karenina.query import Goal

__all__ = ["Search"]

Tensor = torch.Tensor
FEW = 16  # nodes so few that a step is all overhead


class Search:
    """One query's search: the incumbent and `upper` hold the maximum between them at every moment."""

    def __init__(self, shared: Bounder, incumbent: Incumbent, goal: Goal, settings: Settings) -> None:
        self.shared, self.incumbent, self.goal, self.settings = shared, incumbent, goal, settings
        self.boxes = self._steps = 0
        self._deadline = math.inf
        self.closed = -math.inf  # the largest bound of what has been closed or cut off
        self._least_gap = 4 * float(shared.cases.error.max())  # a smaller one is beyond float64
        cases = shared.cases
        neurons = shared.joint.stack * sum(shared.joint.widths)
        self._batch = min(settings.batch, _affordable(shared.joint, settings))
        self._fresh = Nodes.roots(cases.lower, cases.upper, cases.rows.shape[1], neurons)  # not bounded yet
        self._pool = Pool(self._fresh)
        self._smooth = smooth(shared.joint)

    @property
    def upper(self) -> float:
        """No input attains more."""
        waiting = math.inf if len(self._fresh) else self._pool.bound
        return max(self.incumbent.value, self.closed, waiting)

    @property
    def target(self) -> float:
        """A node with no larger bound is closed."""
        if self.goal.threshold is not None:
            return math.nextafter(self.goal.threshold, -math.inf)
        value = self.incumbent.value
        if value == -math.inf:
            return self.shared.cases.least
        return value + max(0.99 * self.goal.gap(value), self._least_gap)

    @property
    def aim(self) -> float:
        """Where tightening steps head for: a little below the target."""
        if self.goal.threshold is not None or self.incumbent.value == -math.inf:
            return self.target - max(1e-6 * abs(self.target), self._least_gap)
        return (self.target + self.incumbent.value) / 2

    @property
    def done(self) -> bool:
        """Whether nothing is open."""
        return not len(self._fresh) and not self._pool.count

    @property
    def decided(self) -> bool:
        """Whether the incumbent alone answers: it reaches the threshold, or the ceiling."""
        return self.incumbent.decides(self.goal)

    @property
    def beyond_precision(self) -> bool:
        """Whether all that is open lies within rounding of the threshold: no split will tell."""
        return self.goal.threshold is not None and self.upper <= self.goal.threshold + self._least_gap

    def run(self, deadline: float) -> None:
        """Search until the goal is reached or the time is over; the first bounds are always computed."""
        self._deadline = deadline
        cases = self.shared.cases
        x, case = random_starts(cases, self.settings.starts)
        self._ascend(x, case, (cases.lower[case], cases.upper[case]), self.settings.ascent)
        self.incumbent.polish(deadline)
        while not self.done and not self.decided:
            self.step()
            if self.beyond_precision:
                self.incumbent.snap()
                break
            if time.perf_counter() >= deadline:
                break

    def _ascend(self, x: Tensor, case: Tensor, box: tuple[Tensor, Tensor], steps: int) -> None:
        shared = self.shared
        ascend(shared.joint, shared.cases, self.incumbent, x, case, box, steps=steps, deadline=self._deadline)

    def step(self) -> None:
        """Split the most promising nodes and bound their children."""
        self._steps += 1
        children = self._children()
        self.boxes += len(children)
        survivors = self._bound(children)
        if len(survivors):
            self._pool.add(survivors)
        self.closed = max(self.closed, self._pool.close(self.target))

    def _children(self) -> Nodes:
        if len(self._fresh):
            fresh, self._fresh = self._fresh.split_at(self._batch)
            return fresh
        nodes = self._pool.take(max(1, self._batch // 2), best_first=self._pool.bytes < self.settings.memory)
        children = split(self.shared.joint, nodes)
        if len(nodes) > FEW:
            return children
        return split(self.shared.joint, children.with_(split=children.second))  # twice as many cost no more

    def _bound(self, nodes: Nodes) -> Nodes:
        """The nodes that stay open, with tighter bounds, smaller boxes and the next split chosen."""
        nodes, hidden = self._open(*self._quick_bound(nodes))
        if not len(nodes):
            return nodes
        tight = tighten(self.shared, nodes, hidden.lines, self.aim, self.target, self.settings.steps)
        tight = tighten_by_cuts(self.shared, nodes, tight, hidden, self.incumbent, self.aim)
        self._climb(nodes, tight)
        least_width, endgame = self._least_width(nodes), self.settings.endgame
        next_split, second = choose_split(self.shared.joint, nodes, tight, hidden, least_width, endgame)
        nodes = nodes.with_(
            bound=torch.minimum(tight.bound, nodes.bound),
            slopes=tight.slopes,
            multipliers=tight.multipliers,
            neuron_multipliers=tight.neuron_multipliers,
            split=next_split,
            second=second,
        )
        target = self.target
        lower, upper = clip_box(nodes, tight, target)
        self.closed = max(self.closed, target)  # what was cut off attains at most that
        nodes, _ = self._open(nodes.with_(lower=lower, upper=upper), hidden)
        return self._splittable(nodes)

    def _quick_bound(self, nodes: Nodes) -> tuple[Nodes, Hidden]:
        """Bounds with the slopes that were best for the parent, or the default ones (always, of smooth neurons)."""
        joint = self.shared.joint
        known = list(zip(by_layer(joint, nodes.neuron_lower), by_layer(joint, nodes.neuron_upper), strict=True))
        hidden = hidden_bounds(joint, self.shared.rounding, nodes.lower, nodes.upper, known)
        nodes = nodes.with_(neuron_lower=flat(hidden.lower), neuron_upper=flat(hidden.upper))
        fresh = torch.isinf(nodes.bound)[:, None] | self._smooth
        nodes = nodes.with_(slopes=torch.where(fresh, flat([lines.start for lines in hidden.lines]), nodes.slopes))
        quick, _ = evaluate(self.shared, nodes, hidden.lines)
        empty = (nodes.neuron_lower > nodes.neuron_upper).any(1)
        bound = torch.where(empty, -math.inf, torch.minimum(quick.bound, nodes.bound))
        return nodes.with_(bound=bound, slopes=quick.slopes), hidden

    def _open(self, nodes: Nodes, hidden: Hidden) -> tuple[Nodes, Hidden]:
        """The nodes above the target."""
        open_ = nodes.bound > self.target
        if open_.all():
            return nodes, hidden
        self.closed = max(self.closed, float(torch.where(open_, -math.inf, nodes.bound).max()))
        index = open_.nonzero().squeeze(1)
        return nodes[index], hidden.take(index)

    def _climb(self, nodes: Nodes, tight: Tight) -> None:
        """Offer every corner as a witness, and now and then climb from those of the highest nodes."""
        self.incumbent.offer(tight.corner, nodes.case)
        if self._steps < 4 or self._steps & (self._steps - 1):  # in steps 4, 8, 16, ...
            return
        top = tight.bound.topk(min(self.settings.climbers, len(nodes))).indices
        self._ascend(tight.corner[top], nodes.case[top], (nodes.lower[top], nodes.upper[top]), 8)
        self.incumbent.polish(self._deadline)

    def _least_width(self, nodes: Nodes) -> Tensor:
        """A few units in the last place of the root's sides: moving x by that changes no more than rounding does."""
        size = torch.maximum(self.shared.cases.lower.abs(), self.shared.cases.upper.abs())
        return 16 * (UNIT * size[nodes.case]).clamp(min=LEAST)

    def _splittable(self, nodes: Nodes) -> Nodes:
        """Boxes that cannot shrink any more are closed: their bound is what float64 has to give."""
        stuck = (nodes.upper - nodes.lower <= self._least_width(nodes)).all(1) & (nodes.split < nodes.lower.shape[1])
        if stuck.any():
            self.closed = max(self.closed, float(nodes.bound[stuck].max()))
            nodes = nodes[(~stuck).nonzero().squeeze(1)]
        return nodes


def _affordable(joint: Joint, settings: Settings) -> int:
    """How many nodes a step may hold: in memory, and in about half a second of one core's work."""
    widths, sizes = joint.widths, [joint.inputs, *joint.widths]
    numbers = joint.stack * (2 * joint.inputs * sum(widths) + 40 * sum(widths) + 6 * max(widths) * max(sizes))
    products = sum(a * b for a, b in zip(sizes, widths, strict=False))
    work = 4 * joint.stack * sum(widths) * products
    return max(2, min(settings.memory // 4 // (8 * numbers), int(5e9) // work))
