"""The hot loop for numba: imported only where numba is, by `compiled`."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

__all__ = ["bound_rows"]

Array = npt.NDArray[np.float64]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def bound_rows(
    first: int,  # the tasks to do, of all S * boxes
    last: int,
    sizes: npt.NDArray[np.int64],  # inputs, then the neurons of layers 0 .. k
    weights: Array,  # (S, all weights of layers 0 .. k, row by row)
    biases: Array,  # (S, all biases of layers 0 .. k)
    slopes: Array,  # (S, boxes, neurons of layers 0 .. k-1, upper and lower)
    intercepts: Array,  # likewise
    centre: Array,  # (boxes, inputs)
    radius: Array,  # (boxes, inputs)
    needed: npt.NDArray[np.bool_],  # (S, boxes, neurons of layer k)
    rows: Array,  # (2, S, boxes, neurons of layer k, inputs), written: z <= rows[0] @ x + ..., -z <= rows[1] @ x + ...
    constants: Array,  # (2, S, boxes, neurons of layer k), written
    bounds: Array,  # (2, S, boxes, neurons of layer k), written: upper bounds of z and of -z
) -> None:
    """Bounds of the needed pre-activations of layer k: z and -z are bounded from above side by side."""
    k = len(sizes) - 2
    weight_at, neuron_at = np.zeros(k + 2, np.int64), np.zeros(k + 2, np.int64)
    for j in range(k + 1):
        weight_at[j + 1] = weight_at[j] + sizes[j] * sizes[j + 1]
        neuron_at[j + 1] = neuron_at[j] + sizes[j + 1]
    _, boxes, neurons = needed.shape
    inputs, widest = sizes[0], sizes.max()
    for task in range(first, last):
        s, b = task // boxes, task % boxes
        up, down = np.empty(widest), np.empty(widest)  # coefficients of the bounds of z and of -z
        up_next, down_next = np.empty(widest), np.empty(widest)
        for row in range(neurons):
            if not needed[s, b, row]:
                continue
            width = sizes[k]
            bias = biases[s, neuron_at[k] + row]
            up_constant, down_constant = bias, -bias
            start = weight_at[k] + row * width
            for m in range(width):
                up[m], down[m] = weights[s, start + m], -weights[s, start + m]
            for j in range(k - 1, -1, -1):
                below = sizes[j]
                up_next[:below] = 0.0
                down_next[:below] = 0.0
                up_part, down_part = 0.0, 0.0  # each layer's own sum: a large constant above must not round it
                for m in range(width):
                    neuron = neuron_at[j] + m
                    side, other = (0, 1) if up[m] >= 0 else (1, 0)
                    if down[m] != -up[m]:
                        other = 0 if down[m] >= 0 else 1
                    up_part += up[m] * intercepts[s, b, neuron, side]
                    down_part += down[m] * intercepts[s, b, neuron, other]
                    u, d = up[m] * slopes[s, b, neuron, side], down[m] * slopes[s, b, neuron, other]
                    if u == 0.0 and d == 0.0:
                        continue
                    up_part += u * biases[s, neuron]
                    down_part += d * biases[s, neuron]
                    line = weights[s, weight_at[j] + m * below : weight_at[j] + (m + 1) * below]
                    for i in range(below):
                        up_next[i] += u * line[i]
                        down_next[i] += d * line[i]
                up_constant += up_part
                down_constant += down_part
                up, up_next = up_next, up
                down, down_next = down_next, down
                width = below
            constants[0, s, b, row], constants[1, s, b, row] = up_constant, down_constant
            up_part, down_part = 0.0, 0.0
            for i in range(inputs):
                up_part += up[i] * centre[b, i] + abs(up[i]) * radius[b, i]
                down_part += down[i] * centre[b, i] + abs(down[i]) * radius[b, i]
                rows[0, s, b, row, i], rows[1, s, b, row, i] = up[i], down[i]
            bounds[0, s, b, row], bounds[1, s, b, row] = up_constant + up_part, down_constant + down_part
