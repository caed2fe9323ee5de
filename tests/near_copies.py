"""Copies of a network that are nearly the same: rounded, noisy, pruned, or changed in one place.

Enters: a random generator and a network. Leaves: another network of the same architecture, each of whose first-layer
neurons differs from the original's, so that a `Joint` of the two stacks them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from karenina.network import Layer, Network

Array = npt.NDArray[np.float64]

LAST_DIGIT = 2.0**-48


def rounded(_: np.random.Generator, w: Array) -> Array:
    return w.astype(np.float16).astype(np.float64)


def noisy(share: float) -> Callable[[np.random.Generator, Array], Array]:
    return lambda rng, w: w * (1 + share * rng.normal(size=w.shape))


def pruned(_: np.random.Generator, w: Array) -> Array:
    """Without the smallest tenth."""
    return np.where(np.abs(w) >= np.quantile(np.abs(w), 0.1), w, 0.0)


def equal(_: np.random.Generator, w: Array) -> Array:
    return w


KINDS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "rounded": rounded,
    "pruned": pruned,
    "equal": equal,
    "by a billionth": noisy(1e-9),
    "by one per cent": noisy(0.01),
    "by five per cent": noisy(0.05),
    "by half": noisy(0.5),
}
ONE_PLACE = ("one sign", "one layer equal", "one neuron other")


def near_copy(rng: np.random.Generator, network: Network, kind: str) -> Network:
    """A copy that differs as `kind` says, one of KINDS or ONE_PLACE."""
    change = KINDS.get(kind, noisy(0.01))
    layers = [(change(rng, weight), change(rng, bias)) for weight, bias in map(_arrays, network.layers)]
    chosen = int(rng.integers(len(layers)))
    weight, bias = _arrays(network.layers[chosen])
    row = int(rng.integers(len(bias)))
    match kind:
        case "one sign":
            layers[chosen][0][row] *= -1
        case "one neuron other":
            layers[chosen][0][row], layers[chosen][1][row] = rng.normal(size=weight.shape[1]), rng.normal()
        case "one layer equal":
            layers[chosen] = weight, bias
    layers[0] = layers[0][0], _apart(layers[0][1], network.layers[0].bias.numpy())
    kinds = [layer.activations for layer in network.layers]
    return Network(tuple(Layer.of(w, b, a) for (w, b), a in zip(layers, kinds, strict=True)), f"{network.name}, {kind}")


def _arrays(layer: Layer) -> tuple[Array, Array]:
    return layer.weight.numpy().copy(), layer.bias.numpy().copy()


def _apart(bias: Array, original: Array) -> Array:
    """Off by a few last digits where equal."""
    moved = bias + LAST_DIGIT * np.maximum(np.abs(bias), 2.0**-20)
    apart: Array = np.where(bias == original, moved, bias)
    return apart
