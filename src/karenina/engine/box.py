"""Linear bounds on one box, compiled: what `bounds` does for a batch, a box in cache from start to finish.

Enters: weights, a box, and what is known of its pre-activations. Leaves: tighter bounds of them, their lines, and
an upper bound of any linear function of one layer's pre-activations with all that made it (`Room`).
"""

from __future__ import annotations

import numpy as np

from karenina.engine.lines import compiled, dot, dot_absolute, vectorised, write_lines
from karenina.engine.near import difference_lines, take_pairs
from karenina.engine.packed import CLIP, Array, Integers, Weights
from karenina.engine.room import Room

__all__ = ["descend", "hidden_bounds"]


@compiled
def hidden_bounds(net: Weights, room: Room, near: bool) -> None:
    """Tighten room.low and room.high on the box, layer by layer, and write the lines."""
    centre, radius = room.middle[0], room.middle[1]
    for i in range(len(room.lower)):
        centre[i], radius[i] = (room.upper[i] + room.lower[i]) / 2, (room.upper[i] - room.lower[i]) / 2
    stack, parallel = len(net.weights), True
    for k in range(len(net.sizes) - 2):
        for s in range(stack):
            if k == 0:
                _first_layer(net, room, s)
            else:
                _layer(net, room, s, k, parallel)
        for s in range(stack):
            parallel = _relax_layer(net, room, s, k) and parallel
        if near:
            _differences(net, room, k)


@compiled
def _relax_layer(net: Weights, room: Room, s: int, k: int) -> bool:
    """Write the lines of one network's neurons of a layer; whether those of each are parallel."""
    width, place, kinds, biases, parallel = net.sizes[k + 1], net.bias_at[k], net.kinds, net.biases, True
    lines, fixed, start, gap, lows, highs = room.lines, room.fixed, room.start, room.gap, room.low, room.high
    first = len(net.weights) * place + s * width
    for m in range(width):
        n = first + m
        low, high = lows[n], highs[n]
        start[n] = write_lines(kinds, place + m, low, high, lines, room.curve, n)
        up, down = min(max(start[n], lines[0, n]), lines[1, n]), min(max(start[n], lines[4, n]), lines[5, n])
        up_constant, down_constant = lines[3, n] - up * lines[2, n], lines[7, n] - down * lines[6, n]
        tilt = up - down
        gap[n] = max(0.0, max(tilt * low, tilt * high) + (up_constant - down_constant))
        fixed[0, n], fixed[1, n] = up, up_constant + up * biases[s, place + m]
        fixed[2, n], fixed[3, n] = down, down_constant + down * biases[s, place + m]
        parallel = parallel and up == down
    return parallel


@compiled
def _settled(kinds: Array, p: int, low: float, high: float) -> bool:
    """Whether a neuron is known to be linear on its range: tighter bounds would change nothing."""
    if not (np.isfinite(low) and np.isfinite(high)) or kinds[p, 0] > CLIP:
        return False
    if kinds[p, 0] == CLIP:
        return bool(high <= kinds[p, 1] or low >= kinds[p, 2] or (low >= kinds[p, 1] and high <= kinds[p, 2]))
    return bool(high <= 0 or low >= 0 or kinds[p, 1] == kinds[p, 2])


@compiled
def _first_layer(net: Weights, room: Room, s: int) -> None:
    inputs, width = net.sizes[0], net.sizes[1]
    for m in range(width):
        neuron, at = s * width + m, m * inputs
        if _settled(net.kinds, m, room.low[neuron], room.high[neuron]):
            continue
        row, weights = room.rows[neuron], net.weights[s, at : at + inputs]
        for i in range(inputs):
            row[i] = weights[i]
        middle = net.biases[s, m] + dot(weights, room.middle[0], inputs)
        spread = dot_absolute(weights, room.middle[1], inputs)
        room.high[neuron] = min(room.high[neuron], middle + spread + net.errors[neuron])
        room.low[neuron] = max(room.low[neuron], middle - spread - net.errors[neuron])


@compiled
def _layer(net: Weights, room: Room, s: int, k: int, parallel: bool) -> None:
    """Bounds of one network's pre-activations z of layer k: a row for each z and one for each -z.

    Where the lines of all layers below are parallel, the second row is the first one's negative and is left out.
    """
    width, below, inputs = net.sizes[k + 1], net.sizes[k], net.sizes[0]
    first, wanted, needed = len(net.weights) * net.bias_at[k] + s * width, room.order[1], 0
    for m in range(width):
        if not _settled(net.kinds, net.bias_at[k] + m, room.low[first + m], room.high[first + m]):
            wanted[needed] = m
            needed += 1
    rows = needed if parallel else 2 * needed
    matrix, other = room.matrix[0], room.matrix[1]
    for r in range(needed):
        weights = net.weights[s, net.weight_at[k] + wanted[r] * below :]
        row, negative = matrix[r], matrix[needed + r]
        for i in range(below):
            row[i] = weights[i]
            negative[i] = -weights[i]
        bias = net.biases[s, net.bias_at[k] + wanted[r]]
        room.constants[0, r], room.constants[1, r] = bias, -bias
        room.constants[0, needed + r] = -bias
    for j in range(k - 1, -1, -1):
        _through(net, room, s, j, matrix, rows, parallel)
        _product(net, s, j, matrix, rows, room.order[0], _active(net, room, s, j), other)
        matrix, other = other, matrix
    for r in range(needed):
        neuron, row = first + wanted[r], matrix[r]
        copy = room.rows[neuron]
        for i in range(inputs):
            copy[i] = row[i]
        high = _highest(room, row, 1.0, inputs) + room.constants[0, r]
        if parallel:
            low = _highest(room, row, -1.0, inputs) + room.constants[1, r]
        else:
            low = _highest(room, matrix[needed + r], 1.0, inputs) + room.constants[0, needed + r]
        room.high[neuron] = min(room.high[neuron], high + net.errors[neuron])
        room.low[neuron] = max(room.low[neuron], -low - net.errors[neuron])


@compiled
def _highest(room: Room, row: Array, sign: float, inputs: int) -> float:
    return sign * dot(row, room.middle[0], inputs) + dot_absolute(row, room.middle[1], inputs)


@compiled
def _active(net: Weights, room: Room, s: int, j: int) -> int:
    """List the neurons of layer j that are not constant; how many."""
    width, count = net.sizes[j + 1], 0
    first = len(net.weights) * net.bias_at[j] + s * width
    for m in range(width):
        if room.fixed[0, first + m] != 0.0 or room.fixed[2, first + m] != 0.0:
            room.order[0, count] = m
            count += 1
    return count


@compiled
def _through(net: Weights, room: Room, s: int, j: int, matrix: Array, rows: int, parallel: bool) -> None:
    """Rows over the activations of layer j become rows over its pre-activations, in place."""
    width = net.sizes[j + 1]
    first = len(net.weights) * net.bias_at[j] + s * width
    up, up_constant = room.fixed[0, first : first + width], room.fixed[1, first : first + width]
    down, down_constant = room.fixed[2, first : first + width], room.fixed[3, first : first + width]
    for r in range(rows):
        if parallel:
            room.constants[1, r] += _constant(matrix[r], down_constant, up_constant, width, -1.0)
        room.constants[0, r] += _constant(matrix[r], up_constant, down_constant, width, 1.0)
        _scale(matrix[r], up, down, width)


@vectorised
def _constant(row: Array, positive: Array, negative: Array, width: int, sign: float) -> float:
    """The sum of row * positive where row > 0, and row * negative elsewhere."""
    total = 0.0
    for m in range(width):
        total += max(row[m], 0.0) * positive[m] + min(row[m], 0.0) * negative[m]
    return sign * total


@vectorised
def _scale(row: Array, positive: Array, negative: Array, width: int) -> None:
    for m in range(width):
        row[m] = max(row[m], 0.0) * positive[m] + min(row[m], 0.0) * negative[m]


@compiled
def _product(
    net: Weights, s: int, j: int, matrix: Array, rows: int, order: Integers, count: int, product: Array
) -> None:
    """product = matrix @ layer j's weights, over the listed columns: two rows by four columns at a time."""
    below, layer = net.sizes[j], net.weights[s, net.weight_at[j] :]
    whole, even = count - count % 4, rows - rows % 2
    for r in range(0, even, 2):
        row, next_row, out, next_out = matrix[r], matrix[r + 1], product[r], product[r + 1]
        for i in range(below):
            out[i] = 0.0
            next_out[i] = 0.0
        for p in range(0, whole, 4):
            q, t, u, v = order[p], order[p + 1], order[p + 2], order[p + 3]
            a, b, c, d = row[q], row[t], row[u], row[v]
            e, f, g, h = next_row[q], next_row[t], next_row[u], next_row[v]
            first, second = layer[q * below :], layer[t * below :]
            third, fourth = layer[u * below :], layer[v * below :]
            for i in range(below):
                out[i] += (a * first[i] + b * second[i]) + (c * third[i] + d * fourth[i])
                next_out[i] += (e * first[i] + f * second[i]) + (g * third[i] + h * fourth[i])
        for p in range(whole, count):
            a, e, first = row[order[p]], next_row[order[p]], layer[order[p] * below :]
            for i in range(below):
                out[i] += a * first[i]
                next_out[i] += e * first[i]
    if even < rows:
        _row_product(layer, below, matrix[even], order, count, product[even])


@compiled
def _row_product(layer: Array, below: int, row: Array, order: Integers, count: int, product: Array) -> None:
    """product = row @ a layer's weights, over the listed columns."""
    whole = count - count % 4
    for i in range(below):
        product[i] = 0.0
    for p in range(0, whole, 4):
        q, t, u, v = order[p], order[p + 1], order[p + 2], order[p + 3]
        a, b, c, d = row[q], row[t], row[u], row[v]
        first, second = layer[q * below :], layer[t * below :]
        third, fourth = layer[u * below :], layer[v * below :]
        for i in range(below):
            product[i] += (a * first[i] + b * second[i]) + (c * third[i] + d * fourth[i])
    for p in range(whole, count):
        a, first = row[order[p]], layer[order[p] * below :]
        for i in range(below):
            product[i] += a * first[i]


@compiled
def _differences(net: Weights, room: Room, k: int) -> None:
    """Bounds of the differences of layer k's pre-activations between two networks, and the lines they allow."""
    width = net.sizes[k + 1]
    for m in range(width):
        place, one = net.bias_at[k] + m, 2 * net.bias_at[k] + m
        two = one + width
        linear = _settled(net.kinds, place, room.low[one], room.high[one])
        if linear and _settled(net.kinds, place, room.low[two], room.high[two]):
            room.apart[6, place] = np.inf
            continue
        error = net.errors[one] + net.errors[two]
        for side in range(2):
            sign = 1.0 - 2.0 * side
            for i in range(width):
                room.above[0, i] = room.above[1, i] = 0.0
            room.above[0, m], room.above[1, m] = -sign, sign
            room.apart[1 - side, place] = sign * (descend(net, room, k, room.start, True) + error)
        room.apart[0, place] = max(room.apart[0, place], room.low[two] - room.high[one] - error)
        room.apart[1, place] = min(room.apart[1, place], room.high[two] - room.low[one] + error)
        difference_lines(room, net.kinds, place, one, two)


@compiled
def descend(net: Weights, room: Room, top: int, slopes: Array, near: bool) -> float:
    """An upper bound of room.above @ (layer top's pre-activations) on the box, without rounding."""
    stack, bound, above, below = len(net.weights), 0.0, room.above, room.below
    for k in range(top, -1, -1):
        part = 0.0  # each layer's own sum: a large constant elsewhere must not round it
        for s in range(stack):
            weights, biases = net.weights[s, net.weight_at[k] :], net.biases[s, net.bias_at[k] :]
            part += _down(weights, biases, net.sizes[k + 1], net.sizes[k], above[s], room.order[0], below[s])
        if k > 0 and near:
            part += take_pairs(net, room, slopes, k - 1)
        elif k > 0:
            for s in range(stack):
                first = stack * net.bias_at[k - 1] + s * net.sizes[k]
                part += _enclose_layer(room.lines, room.taken, slopes, first, net.sizes[k], below[s], above[s])
        bound += part
    part = 0.0
    for i in range(net.sizes[0]):
        total = 0.0
        for s in range(stack):
            total += below[s, i]
        room.total[i] = total
        room.corner[i] = room.upper[i] if total >= 0 else room.lower[i]
        part += total * room.corner[i]
    return bound + part


@compiled
def _down(layer: Array, biases: Array, width: int, below: int, row: Array, order: Integers, product: Array) -> float:
    """product = row @ a layer's weights; what the biases add."""
    count = 0
    for m in range(width):
        if row[m] != 0.0:
            order[count] = m
            count += 1
    _row_product(layer, below, row, order, count, product)
    return dot(biases, row, width)


@vectorised
def _enclose_layer(
    lines: Array, taken: Array, slopes: Array, first: int, width: int, below: Array, above: Array
) -> float:
    """Take the neurons of a layer by their lines: coefficients on activations to those on pre-activations."""
    part = 0.0
    up_low, up_high, up_point, up_value = lines[0, first:], lines[1, first:], lines[2, first:], lines[3, first:]
    down_low, down_high, down_point, down_value = lines[4, first:], lines[5, first:], lines[6, first:], lines[7, first:]
    reach, slope, intercept, wished = taken[0, first:], taken[1, first:], taken[2, first:], slopes[first:]
    for i in range(width):
        c = below[i]
        positive = c >= 0
        low, high = up_low[i] if positive else down_low[i], up_high[i] if positive else down_high[i]
        point, value = up_point[i] if positive else down_point[i], up_value[i] if positive else down_value[i]
        tilt = min(max(wished[i], low), high)
        constant = value - tilt * point
        reach[i], slope[i], intercept[i] = c, tilt, constant
        above[i] = c * tilt
        part += c * constant
    return part
