"""Networks whose weights round badly, and their values in exact arithmetic.

Enters: a random generator. Leaves: queries on networks whose rows nearly cancel, points of their boxes, and fractions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from random_networks import PIECEWISE_LINEAR, points

from karenina.domain import Box
from karenina.engine.exact import evaluate_exactly
from karenina.network import IDENTITY, Activation, Layer, Network
from karenina.query import Case, Query

MAGNITUDES = (1e-8, 1e-3, 1.0, 1e4, 1e8, 1e12)


def cancelling_network(
    rng: np.random.Generator,
    inputs: int,
    outputs: int,
    depth: int,
    activations: Sequence[Activation] = PIECEWISE_LINEAR,
) -> Network:
    """Rows come in pairs that nearly cancel, weights and biases of a layer span twenty decades."""
    sizes = [inputs, *rng.integers(2, 7, size=depth).tolist(), outputs]
    layers = []
    for k, (before, size) in enumerate(itertools.pairwise(sizes)):
        weight = rng.normal(size=(size, before)) * rng.choice(MAGNITUDES, size=(size, before))
        weight[1::2] = -weight[: len(weight[1::2])] * (1 + rng.choice([0.0, 2**-52, 1e-9], size=weight[1::2].shape))
        bias = rng.normal(size=size) * rng.choice(MAGNITUDES, size=size)
        activation = activations[int(rng.integers(len(activations)))]
        layers.append(Layer.of(weight, bias, activation if k < depth else IDENTITY))
    return Network(tuple(layers), "cancelling")


def cancelling_query(
    rng: np.random.Generator, constraints: int = 0, activations: Sequence[Activation] = PIECEWISE_LINEAR
) -> Query:
    inputs, outputs, depth = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(1, 4))
    count = int(rng.integers(1, 3))
    networks = tuple(cancelling_network(rng, inputs, outputs, depth, activations) for _ in range(count))
    size = outputs * len(networks)
    centre = rng.normal(size=inputs) * rng.choice([1.0, 1e6])
    radius = rng.random(inputs) * rng.choice([1e-9, 1e-3, 1.0])
    box = Box(centre - radius, centre + radius)
    rows, offsets = rng.normal(size=(constraints, size)), rng.normal(size=constraints)
    return Query(networks, (Case(box, rng.normal(size=size), float(rng.normal()), rows, offsets),))


def exact_row(query: Query, row: list[float], offset: float, x: list[float]) -> Fraction:
    y = [value for network in query.networks for value in evaluate_exactly(network, x)]
    return Fraction(offset) + sum((Fraction(a) * b for a, b in zip(row, y, strict=True)), Fraction(0))


def exact_value(query: Query, x: list[float]) -> Fraction:
    case = query.cases[0]
    return exact_row(query, case.objective.tolist(), case.offset, x)


def some_points(rng: np.random.Generator, box: Box) -> list[list[float]]:
    x = points(box, rng, 20)
    chosen: list[list[float]] = x[rng.permutation(len(x))[:25]].tolist()
    return chosen
