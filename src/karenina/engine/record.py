"""Branch and bound that writes down what it does, compiled: the tree of a proof that nothing exceeds a target.

Enters: the weights, what is asked, a target, and a `Record` whose first nodes are the boxes to begin with. Leaves: the
record, grown depth first until all its nodes are closed or it is full: those not looked at are left OPEN.

Whoever checks the proof does not have what the parents of a node knew of its neurons, and has slopes only coarsely. So
neither is used here.
"""

from __future__ import annotations

import numpy as np

from karenina.engine.box import hidden_bounds
from karenina.engine.dive import dive
from karenina.engine.explore import choose_axis, clip, count_loose, node_of
from karenina.engine.lines import compiled
from karenina.engine.packed import CLIP, CUT, KINK, LEAF, OPEN, SPLIT, Node, Proving, Question, Record, Weights
from karenina.engine.room import Room, new_room
from karenina.engine.tighten_box import Steps, evaluate, keep, new_steps, tighten

__all__ = ["COARSE", "new_record", "record"]

COARSE = 255.0  # steps between the slopes on either side of a kink
SHRUNK = 0.98  # a cut that leaves more of every side is not worth the checking
CLOSED, STUCK = -1, -2  # instead of an input to halve


def new_record(net: Weights, ask: Question, nodes: int) -> Record:
    """Room for so many nodes."""
    inputs, neurons, constraints = int(net.sizes[0]), len(net.errors), ask.rows.shape[1]
    return Record(
        np.zeros(1, np.int64),
        np.full(nodes, OPEN, np.int64),
        np.zeros(nodes, np.int64),
        np.full(nodes, -1, np.int64),
        np.empty((nodes, inputs)),
        np.empty((nodes, inputs)),
        np.full((nodes, neurons), np.nan),
        np.zeros((nodes, neurons)),
        np.zeros((nodes, constraints)),
    )


@compiled
def record(net: Weights, ask: Question, case: int, plan: Proving, tree: Record) -> bool:
    """Close the nodes of the tree that are open; False where a box can neither be closed nor halved."""
    room, steps, stack = new_room(net), new_steps(net, ask), np.empty(len(tree.kinds), np.int64)
    top = tree.filled[0]
    for i in range(top):
        stack[i] = top - 1 - i
    while top > 0 and tree.filled[0] + 2 <= len(tree.kinds):
        top -= 1
        node = stack[top]
        axis = _close(net, ask, case, plan, tree, room, steps, node)
        if axis == STUCK:
            return False
        if axis >= 0:
            child = _halve(tree, room, steps, node, axis)
            stack[top], stack[top + 1] = child + 1, child
            top += 2
    return True


@compiled
def _close(
    net: Weights, ask: Question, case: int, plan: Proving, tree: Record, room: Room, steps: Steps, node: int
) -> int:
    """Close a node, or say along which input to halve what is left of it."""
    _enter(tree, room, steps, node)
    hidden_bounds(net, room, False)
    for neuron in range(len(steps.slopes)):
        if np.isnan(steps.slopes[neuron]):
            steps.slopes[neuron] = room.start[neuron]
    bound = evaluate(net, ask, case, room, steps.slopes, steps.multipliers, False)
    tighten(net, ask, case, room, steps, bound, plan.aim, plan.target, plan.rounds, False)
    _coarsen(net, room, steps)
    bound = evaluate(net, ask, case, room, steps.slopes, steps.multipliers, False)
    keep(room, steps)
    _write(tree, steps, node)
    if bound <= plan.target:
        tree.kinds[node] = LEAF
        return CLOSED
    axis = choose_axis(net, ask, case, room, steps)
    count = count_loose(room)
    if count <= plan.loose or axis < 0:
        before = tree.filled[0]
        x, at = np.empty(len(room.lower)), node_of(net, ask, case, room, steps, count)
        _split_signs_only(net, at)
        if dive(net, at, plan.target, plan.programmes, x, tree, node)[1]:
            return CLOSED
        tree.filled[0] = before
        tree.kinds[node] = OPEN
        _write(tree, steps, node)
    if axis < 0:
        return STUCK
    clip(room, steps, bound, plan.target)
    tree.kinds[node] = CUT if _shrunk(tree, room, node) else SPLIT
    tree.axes[node] = axis
    return axis


@compiled
def _split_signs_only(net: Weights, node: Node) -> None:
    """A proof may split neurons by the sign of their pre-activation, not at a kink elsewhere."""
    stack = len(net.weights)
    for k in range(len(net.sizes) - 2):
        for i in range(stack * net.sizes[k + 1]):
            if net.kinds[net.bias_at[k] + i % net.sizes[k + 1], 0] != KINK:
                node.splittable[stack * net.bias_at[k] + i] = False


@compiled
def _enter(tree: Record, room: Room, steps: Steps, node: int) -> None:
    for i in range(len(room.lower)):
        room.lower[i], room.upper[i] = tree.lower[node, i], tree.upper[node, i]
    for neuron in range(len(room.low)):
        room.low[neuron], room.high[neuron] = -np.inf, np.inf
        steps.slopes[neuron] = tree.slopes[node, neuron]
    for r in range(len(steps.multipliers)):
        steps.multipliers[r] = tree.multipliers[node, r]


@compiled
def _coarsen(net: Weights, room: Room, steps: Steps) -> None:
    """The best slopes and multipliers, as coarse as they are written."""
    stack = len(net.weights)
    for k in range(len(net.sizes) - 2):
        width = net.sizes[k + 1]
        for s in range(stack):
            for m in range(width):
                neuron, kind = stack * net.bias_at[k] + s * width + m, net.kinds[net.bias_at[k] + m]
                slope = steps.best_slopes[neuron]
                left, right = (kind[1], kind[2]) if kind[0] == KINK else (0.0, 1.0)
                if kind[0] > CLIP:
                    slope = room.start[neuron]
                elif left != right:
                    step = np.rint(COARSE * (slope - left) / (right - left))
                    slope = left + (right - left) * (min(max(step, 0.0), COARSE) / COARSE)
                steps.slopes[neuron] = slope
    for r in range(len(steps.multipliers)):
        steps.multipliers[r] = np.float32(steps.best_multipliers[r])


@compiled
def _write(tree: Record, steps: Steps, node: int) -> None:
    for neuron in range(len(steps.slopes)):
        tree.slopes[node, neuron] = steps.slopes[neuron]
    for r in range(len(steps.multipliers)):
        tree.multipliers[node, r] = steps.multipliers[r]


@compiled
def _shrunk(tree: Record, room: Room, node: int) -> bool:
    """Whether the cut has made a side clearly shorter; else the box is put back as it was."""
    for i in range(len(room.lower)):
        if room.upper[i] - room.lower[i] < SHRUNK * (tree.upper[node, i] - tree.lower[node, i]):
            return True
    for i in range(len(room.lower)):
        room.lower[i], room.upper[i] = tree.lower[node, i], tree.upper[node, i]
    return False


@compiled
def _halve(tree: Record, room: Room, steps: Steps, node: int, axis: int) -> int:
    """Write both halves down, open, to begin with what the node was bounded by; the first one's place."""
    child = tree.filled[0]
    tree.children[node], tree.filled[0] = child, child + 2
    middle = (room.lower[axis] + room.upper[axis]) / 2
    for half in range(child, child + 2):
        tree.kinds[half] = OPEN
        for i in range(len(room.lower)):
            tree.lower[half, i], tree.upper[half, i] = room.lower[i], room.upper[i]
        _write(tree, steps, half)
    tree.upper[child, axis] = tree.lower[child + 1, axis] = middle
    return int(child)
