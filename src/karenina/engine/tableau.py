"""The linear programme of one node, compiled: its tableau, and the dual simplex method on it.

Enters: a node (its box, its neurons' lines) and the weights. Leaves: a dual solution.

The variables are the inputs and, for every loose neuron, the slacks of its lines: the neuron's output lies under its
upper lines and above its lower ones (two each, the extreme slopes, where the slope is free). Nonbasic variables are at
0. For every loose neuron one slack starts nonbasic, that of the line which back-substitution would choose: so the first
tableau is dual feasible and its value is the plain linear bound. Each pivot lowers it.

A neuron is decided by forbidding the slack of one piece's line to leave 0; its other lines then say on which side of
the kink its input lies.
"""

from __future__ import annotations

import numpy as np

from karenina.engine.lines import compiled
from karenina.engine.packed import LINES, Array, Integers, Node, Tableau, Weights

__all__ = ["CUTOFF", "INFEASIBLE", "OPTIMAL", "STOPPED", "back", "copy", "fill", "line", "solve"]

OPTIMAL, INFEASIBLE, CUTOFF, STOPPED = 0, 1, 2, 3
EPSILON = 1e-9  # the least pivot
VIOLATED = 1e-10  # by how much a variable may leave its range


@compiled
def line(lines: Array, neuron: int, number: int) -> tuple[float, float]:
    """Slope and intercept of one of a neuron's lines."""
    side = 4 * (number // 2)
    slope = lines[side + number % 2, neuron]
    return slope, lines[side + 3, neuron] - slope * lines[side + 2, neuron]


@compiled
def back(net: Weights, s: int, weight_at: int, k: int, above: Array, below: Array) -> None:
    """Coefficients on what layer k reads (written to below), from those on its pre-activations."""
    inner = net.sizes[k]
    for i in range(inner):
        below[i] = 0.0
    for m in range(net.sizes[k + 1]):
        for i in range(inner):
            below[i] += above[m] * net.weights[s, weight_at + m * inner + i]


@compiled
def copy(to: Array, source: Array) -> None:
    """A loop: array expressions take numba long to compile."""
    for i in range(len(to)):
        to[i] = source[i]


@compiled
def _choose_lines(net: Weights, node: Node) -> Integers:
    """The line of each neuron that back-substitution takes, (neurons,)."""
    sizes, depth, stack = net.sizes, len(net.sizes) - 2, len(net.weights)
    chosen = np.empty(node.lines.shape[1], np.int64)
    above, below = np.empty(net.widest), np.empty(net.widest)
    for s in range(stack):
        weight_at, neuron_at = net.weights.shape[1], node.lines.shape[1]
        for m in range(sizes[depth + 1]):
            above[m] = node.objective[s * sizes[depth + 1] + m]
        for k in range(depth, 0, -1):
            weight_at -= sizes[k] * sizes[k + 1]
            neuron_at -= stack * sizes[k]
            back(net, s, weight_at, k, above, below)
            for i in range(sizes[k]):
                neuron = neuron_at + s * sizes[k] + i
                side = 0 if below[i] >= 0 else 4
                low, high = node.lines[side, neuron], node.lines[side + 1, neuron]
                steep = high > low and 2 * node.slopes[neuron] > low + high
                chosen[neuron] = side // 2 + steep
                above[i] = below[i] * (high if steep else low)
    return chosen


@compiled
def fill(net: Weights, node: Node, first: Tableau) -> int:
    """Write the first tableau, the lines' rows and then the constraints'; the number of rows."""
    sizes, stack, depth, columns = net.sizes, len(net.weights), len(net.sizes) - 2, len(first.column)
    inputs, outputs = sizes[0], sizes[depth + 1]
    chosen = _choose_lines(net, node)
    _clear(first.cost)
    for variable in range(len(first.high)):
        first.high[variable], first.flipped[variable] = np.inf, False
    for i in range(inputs):
        first.column[i], first.high[i] = i, node.upper[i] - node.lower[i]
    # The outputs of a layer and of the one above it, as functions of the nonbasic variables and 1.
    values, above = np.zeros((net.widest, columns + 1)), np.zeros((net.widest, columns + 1))
    constraints = np.zeros((len(node.rows), columns + 1))
    count = int(np.int64(0))  # numba would compile what it calls once more for a literal 0
    for s in range(stack):
        for i in range(inputs):
            _clear(values[i])
            values[i, i], values[i, columns] = 1.0, node.lower[i]
        weight_at, bias_at, neuron_at = 0, 0, 0
        for k in range(depth + 1):
            for m in range(sizes[k + 1]):
                z = above[m]
                _clear(z)
                for i in range(sizes[k]):
                    _add(z, net.weights[s, weight_at + m * sizes[k] + i], values[i])
                z[columns] += net.biases[s, bias_at + m]
                if k < depth:
                    neuron = neuron_at + s * sizes[k + 1] + m
                    count = _line_rows(node, neuron, chosen[neuron], z, first, count)
                    _activate(node, neuron, chosen[neuron], z, inputs)
            weight_at += sizes[k] * sizes[k + 1]
            bias_at += sizes[k + 1]
            neuron_at += stack * sizes[k + 1]
            values, above = above, values
        for m in range(outputs):
            _add(first.cost, node.objective[s * outputs + m], values[m])
            for r in range(len(node.rows)):
                _add(constraints[r], node.rows[r, s * outputs + m], values[m])
    first.cost[columns] += node.constant
    for r in range(len(node.rows)):
        copy(first.body[count], constraints[r])
        first.body[count, columns] += node.inside[r]
        first.basic[count] = inputs + LINES * (columns - inputs) + r
        count += 1
    return count


@compiled
def _add(to: Array, factor: float, row: Array) -> None:
    if factor != 0.0:
        for c in range(len(to)):
            to[c] += factor * row[c]


@compiled
def _clear(row: Array) -> None:
    for c in range(len(row)):
        row[c] = 0.0


@compiled
def _scale(row: Array, factor: float) -> None:
    for c in range(len(row)):
        row[c] *= factor


@compiled
def _set(to: Array, factor: float, row: Array) -> None:
    for c in range(len(to)):
        to[c] = factor * row[c]


@compiled
def _line_rows(node: Node, neuron: int, chosen: int, z: Array, first: Tableau, count: int) -> int:
    """The slacks of a loose neuron's other lines, by that of the chosen one (a column) and its pre-activation."""
    place, inputs = node.place[neuron], len(node.lower)
    if place < 0:
        return count
    variable, own = inputs + LINES * place, inputs + place
    first.column[own] = variable + chosen
    slope, intercept = line(node.lines, neuron, chosen)
    for number in range(LINES):
        side = 4 * (number // 2)
        single = number % 2 == 1 and node.lines[side, neuron] == node.lines[side + 1, neuron]
        if number == chosen or single:
            continue
        other, shift = line(node.lines, neuron, number)
        sign = 1.0 if number < 2 else -1.0  # slack = line(z) - y above, y - line(z) below
        _set(first.body[count], sign * (other - slope), z)
        first.body[count, len(z) - 1] += sign * (shift - intercept)
        first.body[count, own] = sign if chosen < 2 else -sign
        first.basic[count] = variable + number
        count += 1
    return count


@compiled
def _activate(node: Node, neuron: int, chosen: int, z: Array, inputs: int) -> None:
    """Turn a pre-activation into the output: the chosen line, off by its slack."""
    slope, intercept = line(node.lines, neuron, chosen)
    _scale(z, slope)
    z[len(z) - 1] += intercept
    if node.place[neuron] >= 0:
        z[inputs + node.place[neuron]] = -1.0 if chosen < 2 else 1.0


@compiled
def solve(t: Tableau, count: int, enough: float, pivots: int) -> tuple[int, int]:
    """Pivot until nothing is violated, or the value is small enough: how it ended, and an infeasible row or -1."""
    columns = len(t.column)
    for k in range(columns):
        if t.cost[k] > 0.0 and 0.0 < t.high[t.column[k]] < np.inf:
            _move_to_other_end(t, count, k)
    for _ in range(pivots):
        if t.cost[columns] <= enough:
            return CUTOFF, -1
        leave = _most_violated(t, count)
        if leave < 0:
            return OPTIMAL, -1
        enter = _entering(t, leave)
        if enter < 0:
            return INFEASIBLE, leave
        _pivot(t, count, leave, enter)
    return STOPPED, -1


@compiled
def _move_to_other_end(t: Tableau, count: int, k: int) -> None:
    """Put high - variable in a column's place."""
    columns, width = len(t.column), t.high[t.column[k]]
    for r in range(count):
        t.body[r, columns] += t.body[r, k] * width
        t.body[r, k] = -t.body[r, k]
    t.cost[columns] += t.cost[k] * width
    t.cost[k] = -t.cost[k]
    t.flipped[t.column[k]] = not t.flipped[t.column[k]]


@compiled
def _most_violated(t: Tableau, count: int) -> int:
    """The row whose variable is furthest outside its range, turned so that it is below 0; -1 if none is."""
    columns = len(t.column)
    worst, leave = VIOLATED, -1
    for r in range(count):
        value = t.body[r, columns]
        outside = max(-value, value - t.high[t.basic[r]])
        if outside > worst:
            worst, leave = outside, r
    if leave >= 0 and t.body[leave, columns] > 0.0:
        variable = t.basic[leave]
        for c in range(columns + 1):
            t.body[leave, c] = -t.body[leave, c]
        t.body[leave, columns] += t.high[variable]
        t.flipped[variable] = not t.flipped[variable]
    return leave


@compiled
def _entering(t: Tableau, leave: int) -> int:
    """The column that mends the row at the least cost; -1 if none can."""
    least, largest, enter = np.inf, 0.0, -1
    for k in range(len(t.column)):
        lift = t.body[leave, k]
        if lift > EPSILON and t.high[t.column[k]] > 0.0:
            ratio = max(0.0, -t.cost[k]) / lift
            if ratio < least or (ratio == least and lift > largest):
                least, largest, enter = ratio, lift, k
    return enter


@compiled
def _pivot(t: Tableau, count: int, leave: int, enter: int) -> None:
    """Exchange a basic and a nonbasic variable."""
    row = t.body[leave]
    pivot = row[enter]
    for c in range(len(row)):
        row[c] = -row[c] / pivot
    row[enter] = 1.0 / pivot
    for r in range(count):
        if r != leave:
            _substitute(t.body[r], enter, row)
    _substitute(t.cost, enter, row)
    t.column[enter], t.basic[leave] = t.basic[leave], t.column[enter]


@compiled
def _substitute(target: Array, enter: int, row: Array) -> None:
    factor = target[enter]
    if factor != 0.0:
        target[enter] = 0.0
        for c in range(len(row)):
            target[c] += factor * row[c]
