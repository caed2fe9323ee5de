"""A depth-first search over the loose neurons of one node, compiled.

Enters: nodes that linear bounds left open. Leaves: for each, whether every leaf of its search lies below the target and
the largest bound of a leaf; else the multipliers of its own linear programme, and a point to try as a witness.

The linear programmes (`tableau`) say which multipliers to take and which neuron to decide next. They are never
believed: a leaf is closed only by `certify`, the same back-substitution as everywhere in the engine, rounding included.
"""

from __future__ import annotations

import numpy as np

from karenina.engine.lines import compiled
from karenina.engine.packed import FINE, LINES, SPLIT, Array, Integers, Node, Prices, Record, Tableau, Weights
from karenina.engine.tableau import INFEASIBLE, OPTIMAL, back, copy, fill, solve

__all__ = ["certify", "dive", "no_record"]

FREE, LEFT, RIGHT = 0, 1, 2  # what is known of a neuron: nothing, or the side of its kink
PIVOTS = 400  # a programme, at most


@compiled
def certify(net: Weights, node: Node, state: Integers, dual: Prices) -> float:
    """A sound upper bound of the node, its neurons on their sides; sets dual.slopes and adds to dual.prices."""
    sizes, depth, stack = net.sizes, len(net.sizes) - 2, len(net.weights)
    inputs, outputs, bound, part = sizes[0], sizes[depth + 1], node.constant, 0.0
    for r in range(len(node.rows)):
        part += dual.multipliers[r] * node.offsets[r]
    bound += part
    above, below, total = np.empty(net.widest), np.empty(net.widest), np.zeros(inputs)
    for s in range(stack):
        weight_at, bias_at, neuron_at = net.weights.shape[1], net.biases.shape[1], node.lines.shape[1]
        for m in range(outputs):
            above[m] = node.objective[s * outputs + m]
            for r in range(len(node.rows)):
                above[m] += dual.multipliers[r] * node.rows[r, s * outputs + m]
        for k in range(depth, -1, -1):
            part = 0.0  # each layer's own sum: a large constant above must not round it
            weight_at -= sizes[k] * sizes[k + 1]
            bias_at -= sizes[k + 1]
            for m in range(sizes[k + 1]):
                part += above[m] * net.biases[s, bias_at + m]
            back(net, s, weight_at, k, above, below)
            if k > 0:
                neuron_at -= stack * sizes[k]
                for i in range(sizes[k]):
                    neuron = neuron_at + s * sizes[k] + i
                    above[i], constant = _through(net, node, neuron, state[neuron], below[i], dual)
                    part += constant
            bound += part
        for i in range(inputs):
            total[i] += below[i]
    part = 0.0
    for i in range(inputs):
        part += total[i] * (node.upper[i] if total[i] >= 0 else node.lower[i])
    return bound + part


@compiled
def _through(net: Weights, node: Node, neuron: int, state: int, reach: float, dual: Prices) -> tuple[float, float]:
    """From a coefficient on a neuron's output to one on its pre-activation, and a constant."""
    lines, wanted = node.lines, dual.wanted[neuron]
    side = 0 if reach >= 0 else 4
    if state == FREE:
        slope = lines[side, neuron]
        if lines[side + 1, neuron] > slope and reach != 0.0 and wanted / reach > slope:
            slope = min(wanted / reach, lines[side + 1, neuron])
    else:
        convex = lines[5, neuron] > lines[4, neuron]  # the side that turns about the kink has the pieces
        side = 4 if convex else 0
        slope = lines[side, neuron] if (state == LEFT) == convex else lines[side + 1, neuron]
    missing = wanted - reach * slope
    if abs(missing) > 1e-12 * (abs(wanted) + abs(reach)):  # not where wanted is NaN
        dual.prices[neuron] += missing
    price = dual.prices[neuron]
    dual.slopes[neuron] = slope
    constant = reach * (lines[side + 3, neuron] - slope * lines[side + 2, neuron])
    if price != 0.0:
        edge = node.low[neuron] if price > 0 else node.high[neuron]
        if state == (RIGHT if price > 0 else LEFT):
            edge = lines[side + 2, neuron]  # the kink
        constant += abs(price) * 2 * net.errors[neuron] - price * edge
    dual.coefficients[neuron] = reach * slope + price
    return dual.coefficients[neuron], constant


@compiled
def _read(node: Node, t: Tableau, stuck: int, target: float, dual: Prices) -> None:
    """The tableau's prices; where a row is stuck below 0, with the proof of that, weighted to reach the target."""
    columns = len(t.column)
    for neuron in range(node.lines.shape[1]):
        dual.wanted[neuron] = 0.0 if node.place[neuron] >= 0 else np.nan
        dual.prices[neuron] = 0.0
    for r in range(len(node.rows)):
        dual.multipliers[r] = 0.0
    weight = 0.0
    if stuck >= 0:
        excess = max(0.0, t.cost[columns] - target)
        weight = (2 * excess + 1e-6 * (1 + abs(target))) / -t.body[stuck, columns]
        _price(node, t, t.basic[stuck], weight, dual)
    for k in range(columns):
        price = -t.cost[k] - (weight * t.body[stuck, k] if stuck >= 0 else 0.0)
        _price(node, t, t.column[k], price, dual)


@compiled
def _price(node: Node, t: Tableau, variable: int, price: float, dual: Prices) -> None:
    """Book one variable's price; those of the inputs' bounds follow from the rest."""
    inputs = len(node.lower)
    if variable < inputs:
        return
    row = variable - inputs - LINES * len(node.loose)
    if t.flipped[variable]:
        price = -price
    if row < 0:
        neuron, number = node.loose[(variable - inputs) // LINES], (variable - inputs) % LINES
        slope = node.lines[4 * (number // 2) + number % 2, neuron]
        dual.wanted[neuron] += price * slope if number < 2 else -price * slope
    else:
        dual.multipliers[row] = max(price, 0.0)


@compiled
def _pieces(node: Node, neuron: int) -> tuple[int, int]:
    """The numbers of the lines left and right of a splittable neuron's kink."""
    return (2, 3) if node.lines[5, neuron] > node.lines[4, neuron] else (1, 0)


@compiled
def _decide(node: Node, t: Tableau, count: int, state: Integers, target: float) -> tuple[int, bool]:
    """The loose neuron whose decision promises most, and whether left promises less than right; -1 if all are exact.

    What a decision promises is the fall of the value by the first pivot: the dual simplex method's look ahead.
    """
    inputs, columns = len(node.lower), len(t.column)
    row_of = np.zeros(LINES * len(node.loose), np.int64) - 1
    for r in range(count):
        if 0 <= t.basic[r] - inputs < len(row_of):
            row_of[t.basic[r] - inputs] = r
    need = max(t.cost[columns] - target, 1e-300)
    best, chosen, left_is_less = -1.0, -1, False
    for place, neuron in enumerate(node.loose):
        if state[neuron] != FREE or not node.splittable[neuron]:
            continue
        left, right = _pieces(node, neuron)
        left, right = row_of[LINES * place + left], row_of[LINES * place + right]
        if left < 0 or right < 0 or min(t.body[left, columns], t.body[right, columns]) <= 1e-7:
            continue
        a, b = _promise(t, left, need), _promise(t, right, need)
        score = (a + 1e-3 * need) * (b + 1e-3 * need)
        if score > best:
            best, chosen, left_is_less = score, place, a <= b
    return chosen, left_is_less


@compiled
def _promise(t: Tableau, row: int, need: float) -> float:
    """By how much the value falls at least when the row's variable must be 0, up to `need`."""
    least = np.inf
    for k in range(len(t.column)):
        push = -t.body[row, k]
        if push > 1e-9 and t.high[t.column[k]] > 0.0:
            least = min(least, max(0.0, -t.cost[k]) / push)
    return float(min(need, t.body[row, len(t.column)] * least))


@compiled
def _point(node: Node, t: Tableau, count: int, x: Array) -> None:
    """Where the programme's solution is."""
    for k in range(len(t.column)):
        _coordinate(node, t, t.column[k], 0.0, x)
    for r in range(count):
        _coordinate(node, t, t.basic[r], t.body[r, len(t.column)], x)


@compiled
def _coordinate(node: Node, t: Tableau, i: int, value: float, x: Array) -> None:
    if i < len(x):
        x[i] = node.upper[i] - value if t.flipped[i] else node.lower[i] + value
        x[i] = min(max(x[i], node.lower[i]), node.upper[i])


@compiled
def _tableaux(node: Node, levels: int) -> Tableau:
    """Room for a tableau at every level of the search, along a first axis."""
    inputs, loose = len(node.lower), len(node.loose)
    rows = 3 * loose + len(node.rows)
    columns, variables = inputs + loose, inputs + LINES * loose + len(node.rows)
    return Tableau(
        np.empty((levels, rows, columns + 1)),
        np.empty((levels, columns + 1)),
        np.empty((levels, columns), np.int64),
        np.empty((levels, rows), np.int64),
        np.empty((levels, variables)),
        np.empty((levels, variables), np.bool_),
    )


@compiled
def _at(levels: Tableau, level: int) -> Tableau:
    return Tableau(
        levels.body[level],
        levels.cost[level],
        levels.column[level],
        levels.basic[level],
        levels.high[level],
        levels.flipped[level],
    )


@compiled
def _branch(node: Node, levels: Tableau, state: Integers, level: int, place: int, left_first: bool) -> None:
    """Two copies of a level's programme, with one neuron decided either way: the first to be searched on top."""
    for r in range(levels.body.shape[1]):
        copy(levels.body[level + 1, r], levels.body[level, r])
    copy(levels.cost[level + 1], levels.cost[level])
    copy(levels.column[level + 1], levels.column[level])
    copy(levels.basic[level + 1], levels.basic[level])
    copy(levels.high[level + 1], levels.high[level])
    copy(levels.flipped[level + 1], levels.flipped[level])
    copy(state[level + 1], state[level])
    neuron = node.loose[place]
    left, right = _pieces(node, neuron)
    on_left, on_right = (level + 1, level) if left_first else (level, level + 1)
    variable = len(node.lower) + LINES * place
    levels.high[on_left, variable + left], state[on_left, neuron] = 0.0, LEFT
    levels.high[on_right, variable + right], state[on_right, neuron] = 0.0, RIGHT


@compiled
def no_record() -> Record:
    """Nothing is to be written down."""
    nothing, neither = np.empty((0, 0)), np.empty(0, np.int64)
    return Record(np.empty(0, np.int64), neither, neither, neither, nothing, nothing, nothing, nothing, nothing)


@compiled
def _write_leaf(record: Record, place: int, dual: Prices) -> None:
    if len(record.kinds) == 0:
        return
    record.kinds[place] = FINE
    copy(record.slopes[place], dual.slopes)
    copy(record.coefficients[place], dual.coefficients)
    copy(record.multipliers[place], dual.multipliers)


@compiled
def _write_branch(record: Record, places: Integers, level: int, axis: int, left_first: bool) -> bool:
    """Whether there was room: the two halves are written one after the other, the left one first."""
    if len(record.kinds) == 0:
        return True
    first = record.filled[0]
    if first + 2 > len(record.kinds):
        return False
    place = places[level]
    record.kinds[place], record.axes[place], record.children[place] = SPLIT, axis, first
    record.filled[0] = first + 2
    on_left, on_right = (level + 1, level) if left_first else (level, level + 1)
    places[on_left], places[on_right] = first, first + 1
    return True


@compiled
def dive(
    net: Weights, node: Node, target: float, budget: int, x: Array, record: Record, root: int
) -> tuple[float, bool, int]:
    """The bound of a node, whether all its leaves could be closed within so many programmes, and how many it took.

    x becomes a point to try: where the first programme has its optimum, or where no neuron was off. What closes the
    leaves is written down below the root of a record, if that has room.
    """
    neurons, deepest, programmes = node.lines.shape[1], len(node.loose) + 1, 0
    places = np.empty(deepest, np.int64)
    places[0] = root
    levels, state = _tableaux(node, deepest), np.zeros((deepest, neurons), np.int64)
    dual = Prices(np.empty(neurons), np.empty(neurons), np.empty(neurons), np.empty(neurons), np.empty(len(node.rows)))
    level, largest, first = int(np.int64(0)), -np.inf, np.inf
    count = fill(net, node, _at(levels, level))
    while level >= 0:
        t = _at(levels, level)
        ended, stuck = solve(t, count, target - 1e-9 * abs(target), PIVOTS)
        bound = np.inf
        if programmes == 0 or stuck >= 0 or t.cost[-1] <= target:
            _read(node, t, stuck, target, dual)
            bound = certify(net, node, state[level], dual)
            if not np.isfinite(bound):  # overflow proves nothing
                bound = np.inf
        if programmes == 0:
            first = bound
            _point(node, t, count, x)
        programmes += 1
        if bound <= target:
            largest = max(largest, bound)
            _write_leaf(record, places[level], dual)
            level -= 1
            continue
        if ended == INFEASIBLE or programmes >= budget:
            return first, False, programmes
        place, left_first = _decide(node, t, count, state[level], target)
        if place < 0:
            if ended == OPTIMAL:  # no neuron is off: the point attains the value
                _point(node, t, count, x)
            return first, False, programmes
        _branch(node, levels, state, level, place, left_first)
        if not _write_branch(record, places, level, len(node.lower) + node.loose[place], left_first):
            return first, False, programmes
        level += 1
    return largest, True, programmes
