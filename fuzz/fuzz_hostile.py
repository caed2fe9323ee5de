"""Networks and boxes made to break verifiers that compute in floating point.

Enters: the name of a family and a random generator. Leaves: networks, boxes and objectives that cancel, overflow,
underflow, or differ in their last digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from karenina.domain import Box
from karenina.network import IDENTITY, Activation, Layer, Network

__all__ = ["FAMILIES", "Hostile", "hostile"]

Array = npt.NDArray[np.float64]
Rng = np.random.Generator
Hostile = tuple[tuple[Network, ...], Box, Array]  # networks, a box, an objective

LEAST = 2.0**-1074
MOST = 1.7e308


def hostile(family: str, rng: Rng, activations: Sequence[Activation]) -> Hostile:
    """A case of the family."""
    return FAMILIES[family](rng, activations)


def _sizes(rng: Rng, inputs: int, outputs: int) -> list[int]:
    return [inputs, *rng.integers(1, 7, size=int(rng.integers(1, 4))).tolist(), outputs]


def _network(rng: Rng, sizes: Sequence[int], activations: Sequence[Activation], spread: float = 0.0) -> Network:
    """Normal weights, each times a power of ten up to +-spread."""
    layers = []
    for k, (before, size) in enumerate(itertools.pairwise(sizes)):
        kind = activations[int(rng.integers(len(activations)))] if k + 2 < len(sizes) else IDENTITY
        weight = rng.normal(size=(size, before)) * 10.0 ** rng.uniform(-spread, spread, (size, before))
        layers.append(Layer.of(weight, rng.normal(size=size) * 10.0 ** rng.uniform(-spread, spread, size), kind))
    return Network(tuple(layers), "hostile")


def _scaled(network: Network, factors: Sequence[float], biases: Sequence[float]) -> Network:
    """Each layer's weights and biases times a number."""
    parts = zip(network.layers, factors, biases, strict=True)
    layers = tuple(
        Layer((layer.weight * a).clamp(-MOST, MOST), (layer.bias * b).clamp(-MOST, MOST), layer.activations)
        for layer, a, b in parts
    )
    return Network(layers, network.name)


def _one_or_two(rng: Rng, make: Callable[[], Network]) -> tuple[Network, ...]:
    return tuple(make() for _ in range(int(rng.integers(1, 3))))


def _ordinary_box(rng: Rng, inputs: int, scale: float = 1.0) -> Box:
    centre, radius = scale * rng.normal(size=inputs), scale * rng.random(inputs)
    return Box(np.clip(centre - radius, -MOST, MOST), np.clip(centre + radius, -MOST, MOST))


def _objective(rng: Rng, networks: Sequence[Network]) -> Array:
    """Where there are two networks, mostly their difference."""
    first = rng.normal(size=networks[0].output_size)
    return first if len(networks) == 1 else np.concatenate([first, -first])


def _huge_and_tiny(rng: Rng, activations: Sequence[Activation]) -> Hostile:
    sizes = _sizes(rng, int(rng.integers(1, 4)), int(rng.integers(1, 3)))
    networks = _one_or_two(rng, lambda: _network(rng, sizes, activations, float(rng.choice([8.0, 15.0, 30.0]))))
    return networks, _ordinary_box(rng, sizes[0]), _objective(rng, networks)


def _cancelling(rng: Rng, activations: Sequence[Activation]) -> Hostile:
    """Rows that are another's negative but for a last digit; biases that cancel the sum at a corner of the box."""
    sizes = [int(rng.integers(1, 4)), *(2 * rng.integers(1, 4, size=int(rng.integers(1, 3)))).tolist(), 1]
    box, layers = _ordinary_box(rng, sizes[0], float(rng.choice([1.0, 1e8]))), []
    h = box.lower
    for k, (before, size) in enumerate(itertools.pairwise(sizes)):
        weight = rng.normal(size=(size, before)) * float(rng.choice([1.0, 1e8]))
        pairs = len(weight[1::2])
        weight[1::2] = -weight[0::2][:pairs] * (1 + rng.choice([0.0, 2.0**-52, 1e-9], size=weight[1::2].shape))
        bias = -weight @ h * (1 + rng.choice([0.0, 2.0**-52, -(2.0**-53)], size=size))
        layers.append(
            Layer.of(weight, bias, activations[int(rng.integers(len(activations)))] if k + 2 < len(sizes) else IDENTITY)
        )
        h = np.asarray(Network((layers[-1],))(h))
    networks = (Network(tuple(layers), "cancelling"),)
    return networks, box, np.array([float(rng.choice([1.0, -1.0]))])


def _denormal(rng: Rng, activations: Sequence[Activation]) -> Hostile:
    """Values near the least number there is: by weights, by the box, or by the objective."""
    sizes = _sizes(rng, int(rng.integers(1, 3)), 1)
    small, way = 10.0 ** -rng.uniform(280, 322), int(rng.integers(4))
    layers = len(sizes) - 1
    first = [small if way == 0 else 1.0, *[1.0] * (layers - 1)]
    networks = _one_or_two(
        rng, lambda: _scaled(_network(rng, sizes, activations), first, [small if way < 2 else 1.0] * layers)
    )
    box = _ordinary_box(rng, sizes[0], small if way == 1 else 1.0)
    return networks, box, _objective(rng, networks) * (small if way >= 2 else 1.0)


def _denormal_box(rng: Rng, activations: Sequence[Activation]) -> Hostile:
    """A box of a few of the least numbers, and weights that make them large again: coefficients may overflow."""
    sizes = _sizes(rng, int(rng.integers(1, 3)), 1)
    layers = len(sizes) - 1
    width = float(10.0 ** rng.uniform(0, 16)) * LEAST
    total = rng.uniform(290, 312) if rng.random() < 0.5 else rng.uniform(0, 290)
    networks = _one_or_two(
        rng, lambda: _scaled(_network(rng, sizes, activations), [10.0 ** (total / layers)] * layers, [0.0] * layers)
    )
    lower = np.where(rng.random(sizes[0]) < 0.5, 0.0, -width)
    return networks, Box(lower, np.full(sizes[0], width)), _objective(rng, networks)


def _near_overflow(rng: Rng, activations: Sequence[Activation]) -> Hostile:
    """Large weights and the small ones that undo them, or not."""
    sizes = _sizes(rng, int(rng.integers(1, 3)), 1)
    layers, large = len(sizes) - 1, float(10.0 ** rng.uniform(280, 307))
    factors = [large, *[1.0] * (layers - 2), float(10.0 ** rng.uniform(-1, 1)) / large]
    networks = _one_or_two(
        rng, lambda: _scaled(_network(rng, sizes, activations), factors, [large] * (layers - 1) + [1.0])
    )
    return networks, _ordinary_box(rng, sizes[0]), _objective(rng, networks)


def _huge_inputs(rng: Rng, activations: Sequence[Activation]) -> Hostile:
    sizes = _sizes(rng, int(rng.integers(1, 3)), 1)
    layers, large = len(sizes) - 1, float(rng.choice([1e100, 1e300, 1e308]))
    networks = _one_or_two(
        rng, lambda: _scaled(_network(rng, sizes, activations), [1 / large, *[1.0] * (layers - 1)], [1.0] * layers)
    )
    return networks, _ordinary_box(rng, sizes[0], 0.3 * large), _objective(rng, networks)


def _narrow(rng: Rng, activations: Sequence[Activation]) -> Hostile:
    """Sides of almost no width, of no width, and of one last digit."""
    sizes = _sizes(rng, int(rng.integers(1, 5)), int(rng.integers(1, 3)))
    networks = _one_or_two(rng, lambda: _network(rng, sizes, activations))
    centre = rng.normal(size=sizes[0]) * float(rng.choice([1.0, 1e16, 1e-8]))
    upper = centre + np.abs(centre) * 10.0 ** -rng.uniform(6, 17, sizes[0])
    upper = np.where(rng.random(sizes[0]) < 0.3, np.nextafter(centre, np.inf), upper)
    return networks, Box(centre, np.where(rng.random(sizes[0]) < 0.3, centre, upper)), _objective(rng, networks)


def _offset(rng: Rng, activations: Sequence[Activation]) -> Hostile:
    """Inputs at 1e16 with biases that bring them back, outputs with biases of 1e16 that cancel between two networks."""
    sizes = [int(rng.integers(1, 3)), int(rng.integers(1, 7)), 1]
    centre = 1e16 * (1 + np.arange(sizes[0]))
    box = Box(centre, centre + 2.0 * rng.integers(1, 9, sizes[0]))

    def make() -> Network:
        hidden, last = _network(rng, sizes, activations).layers
        weight = hidden.weight.numpy() * float(rng.choice([1.0, 1e-16]))
        bias = -weight @ centre + hidden.bias.numpy()
        return Network((Layer.of(weight, bias, hidden.activations), Layer.of(last.weight, last.bias + 1e16)), "offset")

    networks = (make(), make())
    return networks, box, np.array([1.0, -1.0])


def _last_digit(rng: Rng, activations: Sequence[Activation]) -> Hostile:
    """A network and a copy whose weights differ by a unit in the last place: all, some, or one."""
    sizes = _sizes(rng, int(rng.integers(1, 4)), int(rng.integers(1, 3)))
    first, layers = _network(rng, sizes, activations, float(rng.choice([0.0, 3.0]))), []
    share = float(rng.choice([1.0, 0.3, 0.02]))
    for layer in first.layers:
        weight, bias = (
            np.where(rng.random(a.shape) < share, np.nextafter(a, np.inf), a)
            for a in (layer.weight.numpy(), layer.bias.numpy())
        )
        layers.append(Layer.of(weight, bias, layer.activations))
    networks = (first, Network(tuple(layers), "copy"))
    return networks, _ordinary_box(rng, sizes[0], float(rng.choice([1.0, 1e6]))), _objective(rng, networks)


FAMILIES: dict[str, Callable[[Rng, Sequence[Activation]], Hostile]] = {
    "huge and tiny weights": _huge_and_tiny,
    "cancelling": _cancelling,
    "denormal": _denormal,
    "denormal box": _denormal_box,
    "near overflow": _near_overflow,
    "huge inputs": _huge_inputs,
    "narrow": _narrow,
    "offset": _offset,
    "last digit": _last_digit,
}
