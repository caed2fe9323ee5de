"""Gradient ascent from many points, compiled: witnesses to begin with.

Enters: the weights, what is asked, and the best value so far. Leaves: a better one, if one was found. Nothing here
needs to be right for soundness: points are certified when they are offered.
"""

from __future__ import annotations

import numpy as np

from karenina.engine.explore import offer
from karenina.engine.forward import forward
from karenina.engine.lines import compiled, slope_at
from karenina.engine.packed import Array, Best, Question, Weights

__all__ = ["climb"]


@compiled
def climb(net: Weights, ask: Question, best: Best, starts: Array, case: int, steps: int) -> None:
    """Signed steps that shrink, from each start (a point of the unit cube) in the case's box; offers every end."""
    inputs, lower, upper = net.sizes[0], ask.lower[case], ask.upper[case]
    x, gradient, slack = np.empty(inputs), np.empty(inputs), np.empty(ask.rows.shape[1])
    z, y = np.empty(len(net.errors)), np.empty(ask.objective.shape[1])
    work, row = np.empty((4, net.widest)), np.empty(ask.objective.shape[1])
    for start in range(len(starts)):
        for i in range(inputs):
            x[i] = lower[i] + starts[start, i] * (upper[i] - lower[i])
        length = 0.5
        for _ in range(steps):
            forward(net, x, z, y, work)
            _direction(ask, case, y, slack, row)
            if ask.rows.shape[1]:
                offer(net, ask, case, best, x, work, y)
            _gradient(net, z, row, work, gradient)
            for i in range(inputs):
                move = length * (upper[i] - lower[i]) * np.sign(gradient[i])
                x[i] = min(max(x[i] + move, lower[i]), upper[i])
            length *= 0.8
        offer(net, ask, case, best, x, work, y)


@compiled
def _direction(ask: Question, case: int, y: Array, slack: Array, row: Array) -> None:
    """The row over the outputs to climb: the objective, or, outside the constraints, those that are violated."""
    outside = False
    for r in range(len(slack)):
        slack[r] = ask.row_offset[case, r] - 2 * ask.row_error[case, r]
        for m in range(len(y)):
            slack[r] += ask.rows[case, r, m] * y[m]
        outside = outside or slack[r] < 0
    for m in range(len(y)):
        row[m] = 0.0 if outside else ask.objective[case, m]
        if outside:
            for r in range(len(slack)):
                row[m] += ask.rows[case, r, m] if slack[r] < 0 else 0.0


@compiled
def _gradient(net: Weights, z: Array, row: Array, work: Array, gradient: Array) -> None:
    """The derivative of row @ outputs in x, where z came from `_forward`."""
    stack, last = len(net.weights), len(net.sizes) - 2
    for i in range(net.sizes[0]):
        gradient[i] = 0.0
    for s in range(stack):
        for m in range(net.sizes[last + 1]):
            work[0, m] = row[s * net.sizes[last + 1] + m]
        for k in range(last, -1, -1):
            width, below = net.sizes[k + 1], net.sizes[k]
            above, after = work[(last - k) % 2], work[1 - (last - k) % 2]
            for i in range(below):
                after[i] = 0.0
            for m in range(width):
                if above[m] != 0.0:
                    weights, c = net.weights[s, net.weight_at[k] + m * below :], above[m]
                    for i in range(below):
                        after[i] += c * weights[i]
            if k > 0:
                first = stack * net.bias_at[k - 1] + s * below
                for i in range(below):
                    after[i] *= slope_at(net.kinds, net.bias_at[k - 1] + i, z[first + i])
        for i in range(net.sizes[0]):
            gradient[i] += work[(last + 1) % 2, i]
