"""The networks themselves at a point, compiled."""

from __future__ import annotations

from karenina.engine.lines import activation, compiled, dot
from karenina.engine.packed import Array, Weights

__all__ = ["forward"]


@compiled
def forward(net: Weights, x: Array, z: Array, y: Array, work: Array) -> None:
    """All pre-activations z (neurons,) and the outputs y (S * outputs,) at x; work: (2, widest)."""
    stack, last = len(net.weights), len(net.sizes) - 2
    for s in range(stack):
        for i in range(net.sizes[0]):
            work[0, i] = x[i]
        for k in range(last + 1):
            width, below = net.sizes[k + 1], net.sizes[k]
            source, after = work[k % 2], work[1 - k % 2]
            for m in range(width):
                value = dot(net.weights[s, net.weight_at[k] + m * below :], source, below)
                value += net.biases[s, net.bias_at[k] + m]
                if k == last:
                    y[s * width + m] = value
                else:
                    z[stack * net.bias_at[k] + s * width + m] = value
                    after[m] = activation(net.kinds, net.bias_at[k] + m, value)
