"""Linear bounds on eight boxes of one query at once, compiled: what `box` does for one, an instruction for all eight.

Enters: weights, and eight boxes with what is known of their pre-activations (`Abreast`). Leaves: tighter bounds of
them, their lines, and upper bounds of the objective with all that made them. Neurons that are settled in all eight
boxes are passed over.
"""

from __future__ import annotations

import numpy as np

from karenina.engine.abreast_lines import activate, relax, steepness
from karenina.engine.abreast_room import Abreast
from karenina.engine.lanes import Lanes, absolute, any_of, greater, lesser, load, select, splat, store
from karenina.engine.lines import compiled
from karenina.engine.packed import KINK, Array, Integers, Weights

__all__ = ["back_abreast", "bounds_abreast", "descend_abreast", "forward_abreast"]


@compiled
def bounds_abreast(net: Weights, room: Abreast) -> None:
    """Tighten room.low and room.high on each box, layer by layer, and write the lines to begin with."""
    for i in range(net.sizes[0]):
        lower, upper = load(room.lower, i), load(room.upper, i)
        store(room.centre, i, 0.5 * (upper + lower))
        store(room.radius, i, 0.5 * (upper - lower))
    stack, parallel = len(net.weights), True
    for k in range(len(net.sizes) - 2):
        for s in range(stack):
            if k == 0:
                _first_layer(net, room, s)
            else:
                _layer(net, room, s, k, parallel)
        for s in range(stack):
            parallel = _relax_layer(net, room, s, k) and parallel


@compiled
def _relax_layer(net: Weights, room: Abreast, s: int, k: int) -> bool:
    """Lines of one network's neurons of a layer, and a list of those that are not 0; whether all are parallel."""
    width, place, parallel, count = net.sizes[k + 1], net.bias_at[k], True, 0
    first = len(net.weights) * place + s * width
    for m in range(width):
        n = first + m
        parallel = relax(net.kinds, place + m, room, n) and parallel
        bent = (load(room.up, n) != 0.0) | (load(room.down, n) != 0.0)
        shifted = (load(room.up_by, n) != 0.0) | (load(room.down_by, n) != 0.0)
        if any_of(bent | shifted):
            room.active[s, k, count] = m
            count += 1
    room.actives[s, k] = count
    return parallel


@compiled
def _unsettled(net: Weights, room: Abreast, s: int, k: int) -> int:
    """List the neurons of a layer that may not be linear in some box; how many."""
    width, place, count = net.sizes[k + 1], net.bias_at[k], 0
    first = len(net.weights) * place + s * width
    for m in range(width):
        kind, low, high = net.kinds[place + m], load(room.low, first + m), load(room.high, first + m)
        known = kind[0] == KINK and not any_of((low < 0.0) & (high > 0.0))
        linear = kind[0] == KINK and kind[1] == kind[2]
        if not (known or linear) or any_of(high - low == np.inf):
            room.wanted[count] = m
            count += 1
    return count


@compiled
def _tighten(net: Weights, room: Abreast, n: int, low: Lanes, high: Lanes) -> None:
    store(room.low, n, greater(load(room.low, n), low - net.errors[n]))
    store(room.high, n, lesser(load(room.high, n), high + net.errors[n]))


@compiled
def _first_layer(net: Weights, room: Abreast, s: int) -> None:
    """Bounds of one network's first pre-activations, two at a time."""
    inputs, first, count = net.sizes[0], s * net.sizes[1], _unsettled(net, room, s, 0)
    for p in range(0, count, 2):
        m, other = room.wanted[p], room.wanted[min(p + 1, count - 1)]
        one, two = net.weights[s, m * inputs :], net.weights[s, other * inputs :]
        middle, spread, middle_two, spread_two = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for i in range(inputs):
            centre, radius = load(room.centre, i), load(room.radius, i)
            middle += one[i] * centre
            spread += abs(one[i]) * radius
            middle_two += two[i] * centre
            spread_two += abs(two[i]) * radius
        middle, middle_two = middle + net.biases[s, m], middle_two + net.biases[s, other]
        _tighten(net, room, first + m, middle - spread, middle + spread)
        _tighten(net, room, first + other, middle_two - spread_two, middle_two + spread_two)


@compiled
def _layer(net: Weights, room: Abreast, s: int, k: int, parallel: bool) -> None:
    """Bounds of one network's pre-activations z of layer k, two rows at a time: those of z and -z.

    Where the lines of all layers below are parallel, the second row would be the first one's negative, and the two rows
    are those of two neurons.
    """
    below, place, inputs = net.sizes[k], net.bias_at[k], net.sizes[0]
    first = len(net.weights) * place + s * net.sizes[k + 1]
    weights = net.weights[s, net.weight_at[k] :]
    count, sign, step = _unsettled(net, room, s, k), 1.0 if parallel else -1.0, 2 if parallel else 1
    for p in range(0, count, step):
        m, other = room.wanted[p], room.wanted[min(p + step - 1, count - 1)]
        one, two, next_one, next_two = room.work[0], room.work[1], room.work[2], room.work[3]
        bias, bias_two = net.biases[s, place + m], sign * net.biases[s, place + other]
        row, row_two = weights[m * below :], weights[other * below :]
        high, low, high_two, low_two = _top(net, room, s, k - 1, row, row_two, sign, one, two)
        for j in range(k - 1, -1, -1):
            if j < k - 1:
                a, b = _through(net, room, s, j, one)
                c, d = _through(net, room, s, j, two)
                high, low, high_two, low_two = high + a, low + b, high_two + c, low_two + d
            if j == 0:
                next_one = room.rows[(first + m) * inputs : (first + m + 1) * inputs]
                if parallel:
                    next_two = room.rows[(first + other) * inputs : (first + other + 1) * inputs]
            layer, active, active_count = net.weights[s, net.weight_at[j] :], room.active[s, j], room.actives[s, j]
            _two_products(layer, net.sizes[j], active, active_count, one, two, next_one, next_two)
            one, two, next_one, next_two = next_one, next_two, one, two
        middle, spread, middle_two, spread_two = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for i in range(inputs):
            centre, radius, value, value_two = load(room.centre, i), load(room.radius, i), load(one, i), load(two, i)
            middle += value * centre
            spread += absolute(value) * radius
            middle_two += value_two * centre
            spread_two += absolute(value_two) * radius
        middle, middle_two = middle + bias, middle_two + bias_two  # last: a large one must not round the sums
        if parallel:
            _tighten(net, room, first + m, middle + low - spread, middle + high + spread)
            _tighten(net, room, first + other, middle_two + low_two - spread_two, middle_two + high_two + spread_two)
        else:
            _tighten(net, room, first + m, -(middle_two + high_two + spread_two), middle + high + spread)


@compiled
def _top(
    net: Weights, room: Abreast, s: int, j: int, row: Array, row_two: Array, sign: float, one: Array, two: Array
) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """Two rows of weights over the activations of layer j become rows over its pre-activations; the second with a sign.

    What the lines and biases add: to the first row above, below, and to the second.
    """
    place = net.bias_at[j]
    first = len(net.weights) * place + s * net.sizes[j + 1]
    high, low, high_two, low_two = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for p in range(room.actives[s, j]):
        m = room.active[s, j, p]
        n, bias, w, v = first + m, net.biases[s, place + m], row[m], sign * row_two[m]
        up, down, up_by, down_by = load(room.up, n), load(room.down, n), load(room.up_by, n), load(room.down_by, n)
        a, b, c, d = max(w, 0.0), min(w, 0.0), max(v, 0.0), min(v, 0.0)
        after, after_two = a * up + b * down, c * up + d * down
        high += (a * up_by + b * down_by) + after * bias
        high_two += (c * up_by + d * down_by) + after_two * bias
        if sign > 0:
            low += (a * down_by + b * up_by) + after * bias
            low_two += (c * down_by + d * up_by) + after_two * bias
        store(one, m, after)
        store(two, m, after_two)
    return high, low, high_two, low_two


@compiled
def _through(net: Weights, room: Abreast, s: int, j: int, row: Array) -> tuple[Lanes, Lanes]:
    """A row over the activations of layer j becomes one over its pre-activations; what lines and biases add."""
    place = net.bias_at[j]
    first, high, low = len(net.weights) * place + s * net.sizes[j + 1], splat(0.0), splat(0.0)
    for p in range(room.actives[s, j]):
        m = room.active[s, j, p]
        n, value = first + m, load(row, m)
        positive, negative = greater(value, 0.0), lesser(value, 0.0)
        up_by, down_by = load(room.up_by, n), load(room.down_by, n)
        after = positive * load(room.up, n) + negative * load(room.down, n)
        high += (positive * up_by + negative * down_by) + after * net.biases[s, place + m]
        low += (positive * down_by + negative * up_by) + after * net.biases[s, place + m]
        store(row, m, after)
    return high, low


@compiled
def _two_products(
    layer: Array, below: int, active: Integers, count: int, one: Array, two: Array, out_one: Array, out_two: Array
) -> None:
    """Both rows times a layer's weights, over the listed rows of these: four columns at a time, all in registers."""
    for begin in range(0, below if below >= 4 else 0, 4):
        i = min(begin, below - 4)
        a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        e, f, g, h = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for p in range(count):
            j = active[p]
            x, y, at = load(one, j), load(two, j), j * below + i
            u, v, w, z = layer[at], layer[at + 1], layer[at + 2], layer[at + 3]
            a += u * x
            b += v * x
            c += w * x
            d += z * x
            e += u * y
            f += v * y
            g += w * y
            h += z * y
        store(out_one, i, a)
        store(out_one, i + 1, b)
        store(out_one, i + 2, c)
        store(out_one, i + 3, d)
        store(out_two, i, e)
        store(out_two, i + 1, f)
        store(out_two, i + 2, g)
        store(out_two, i + 3, h)
    for i in range(below if below < 4 else 0):
        a, e = splat(0.0), splat(0.0)
        for p in range(count):
            u = layer[active[p] * below + i]
            a += u * load(one, active[p])
            e += u * load(two, active[p])
        store(out_one, i, a)
        store(out_two, i, e)


@compiled
def _product(layer: Array, below: int, active: Integers, count: int, row: Array, out: Array) -> None:
    """A row times a layer's weights, over the listed rows of these."""
    for begin in range(0, below if below >= 4 else 0, 4):
        i = min(begin, below - 4)
        a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for p in range(count):
            j = active[p]
            x, at = load(row, j), j * below + i
            a += layer[at] * x
            b += layer[at + 1] * x
            c += layer[at + 2] * x
            d += layer[at + 3] * x
        store(out, i, a)
        store(out, i + 1, b)
        store(out, i + 2, c)
        store(out, i + 3, d)
    for i in range(below if below < 4 else 0):
        a = splat(0.0)
        for p in range(count):
            a += layer[active[p] * below + i] * load(row, active[p])
        store(out, i, a)


@compiled
def descend_abreast(net: Weights, room: Abreast) -> Lanes:
    """Upper bounds of the objective on the boxes, with the lines in use, without rounding."""
    bound, part = back_abreast(net, room, True), splat(0.0)
    for i in range(net.sizes[0]):
        total = load(room.total, i)
        corner = select(total >= 0.0, load(room.upper, i), load(room.lower, i))
        store(room.corner, i, corner)
        part += total * corner
    return bound + part


@compiled
def back_abreast(net: Weights, room: Abreast, enclose: bool) -> Lanes:
    """From the objective back to the inputs, through the lines in use or the derivatives: room.total.

    What lines and biases add: each layer's own sum, for a large constant elsewhere must not round it.
    """
    stack, last, constant = len(net.weights), len(net.sizes) - 2, splat(0.0)
    inputs, outputs = net.sizes[0], net.sizes[-1]
    for i in range(inputs):
        store(room.total, i, 0.0)
    for m in range(outputs):
        room.wanted[m] = m
    for s in range(stack):
        row, after, part = room.work[0], room.work[1], splat(0.0)
        for m in range(outputs):
            value = load(room.objective, s * outputs + m)
            store(row, m, value)
            part += value * net.biases[s, net.bias_at[last] + m]
        _product(net.weights[s, net.weight_at[last] :], net.sizes[last], room.wanted, outputs, row, after)
        row, after, constant = after, row, constant + part
        for k in range(last - 1, -1, -1):
            if enclose:
                constant += _enclose(net, room, s, k, row)
            else:
                first = stack * net.bias_at[k] + s * net.sizes[k + 1]
                for m in range(net.sizes[k + 1]):
                    store(row, m, load(row, m) * load(room.tilt, first + m))
            layer, active, count = net.weights[s, net.weight_at[k] :], room.active[s, k], room.actives[s, k]
            _product(layer, net.sizes[k], active, count, row, after)
            row, after = after, row
        for i in range(inputs):
            store(room.total, i, load(room.total, i) + load(row, i))
    return constant


@compiled
def _enclose(net: Weights, room: Abreast, s: int, k: int, row: Array) -> Lanes:
    """Take the neurons of a layer by their lines: coefficients on activations to those on pre-activations."""
    place, part = net.bias_at[k], splat(0.0)
    first = len(net.weights) * place + s * net.sizes[k + 1]
    for p in range(room.actives[s, k]):
        m = room.active[s, k, p]
        n, value = first + m, load(row, m)
        positive = value >= 0.0
        tilt = select(positive, load(room.up, n), load(room.down, n))
        by = select(positive, load(room.up_by, n), load(room.down_by, n))
        after = value * tilt
        store(room.reach, n, value)
        store(room.tilt, n, tilt)
        store(room.intercept, n, by)
        store(row, m, after)
        part += value * by + after * net.biases[s, place + m]
    return part


@compiled
def forward_abreast(net: Weights, room: Abreast, point: Array, real: bool, derivatives: bool) -> None:
    """Pre-activations and outputs at a point of each box: of the networks themselves, or through the lines taken.

    Of the networks themselves also the derivatives of the activations, if wanted: as tilt.
    """
    stack, last, inputs = len(net.weights), len(net.sizes) - 2, net.sizes[0]
    for i in range(max(inputs, net.sizes[-1])):
        room.wanted[i] = i
    for s in range(stack):
        source, after = point, room.work[0]
        reads, count = room.wanted, inputs
        for k in range(last):
            place, below = net.bias_at[k], net.sizes[k]
            first, active = stack * place + s * net.sizes[k + 1], room.active[s, k]
            weights, biases = net.weights[s, net.weight_at[k] :], net.biases[s, place:]
            _affine(weights, biases, below, source, reads, count, active, room.actives[s, k], room.z, first)
            for p in range(room.actives[s, k]):
                m = active[p]
                z = load(room.z, first + m)
                if real:
                    value = activate(net.kinds, place + m, z)
                    store(after, m, value)
                    if derivatives:
                        store(room.tilt, first + m, steepness(net.kinds, place + m, z, value))
                else:
                    store(after, m, load(room.tilt, first + m) * z + load(room.intercept, first + m))
            source, after = after, room.work[1 - k % 2]
            reads, count = active, room.actives[s, k]
        weights, biases = net.weights[s, net.weight_at[last] :], net.biases[s, net.bias_at[last] :]
        outputs = net.sizes[-1]
        _affine(weights, biases, net.sizes[last], source, reads, count, room.wanted, outputs, room.y, s * outputs)


@compiled
def _affine(
    weights: Array,
    biases: Array,
    below: int,
    source: Array,
    reads: Integers,
    count: int,
    rows: Integers,
    rows_count: int,
    out: Array,
    first: int,
) -> None:
    """The listed rows of weights @ source + biases, over the listed columns; four rows at a time."""
    for begin in range(0, rows_count if rows_count >= 4 else 0, 4):
        p = min(begin, rows_count - 4)
        m, n, o, q = rows[p], rows[p + 1], rows[p + 2], rows[p + 3]
        a, b, c, d = splat(biases[m]), splat(biases[n]), splat(biases[o]), splat(biases[q])
        for r in range(count):
            i = reads[r]
            x = load(source, i)
            a += weights[m * below + i] * x
            b += weights[n * below + i] * x
            c += weights[o * below + i] * x
            d += weights[q * below + i] * x
        store(out, first + m, a)
        store(out, first + n, b)
        store(out, first + o, c)
        store(out, first + q, d)
    for p in range(rows_count if rows_count < 4 else 0):
        m = rows[p]
        a = splat(biases[m])
        for r in range(count):
            a += weights[m * below + reads[r]] * load(source, reads[r])
        store(out, first + m, a)
