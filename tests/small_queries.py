"""Small random queries for the back ends, and what every answer to one must satisfy, by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from karenina.domain import Box, Domain
from karenina.network import IDENTITY, RELU, Activation, Layer, Network
from karenina.query import Answer, Case, Query

Array = npt.NDArray[np.float64]

PIECEWISE_LINEAR = (
    RELU,
    Activation("leaky_relu", (0.1,)),
    Activation("leaky_relu", (1.5,)),
    Activation("abs"),
    Activation("clip", (-0.5, 0.7)),
    IDENTITY,
)
TOY = Network((Layer.of([[1, 4], [-3, 2]], [1, -2], RELU), Layer.of([[2, -1]], [0])), "toy")  # the paper's Fig. 1


def random_network(rng: np.random.Generator, sizes: tuple[int, ...], activations: tuple[Activation, ...]) -> Network:
    """Normal weights; every hidden layer has up to two of the activations."""
    layers = []
    for k, (before, size) in enumerate(itertools.pairwise(sizes)):
        weight, bias = rng.normal(size=(size, before)), 0.5 * rng.normal(size=size)
        first, second = (activations[i] for i in rng.integers(len(activations), size=2))
        hidden = ((first, size // 2), (second, size - size // 2))
        layers.append(Layer.of(weight, bias, hidden if k + 2 < len(sizes) else IDENTITY))
    return Network(tuple(layers))


def random_query(seed: int, constrained: bool, activations: tuple[Activation, ...] = PIECEWISE_LINEAR) -> Query:
    """How far two networks of different depth differ on 2 to 4 inputs, one of them often constant."""
    rng = np.random.default_rng(seed)
    inputs, outputs = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    first = random_network(rng, (inputs, 6, 4, outputs), activations)
    second = random_network(rng, (inputs, 5, outputs), activations)
    difference = np.eye(2 * outputs)[0] - np.eye(2 * outputs)[outputs]
    lower = rng.uniform(-1, 0, inputs)
    width = rng.uniform(0, 2, inputs) * (rng.random(inputs) > 0.2)
    rows = rng.normal(size=(2, 2 * outputs)) if constrained else np.zeros((0, 2 * outputs))
    offsets = rng.normal(size=len(rows)) + 0.5
    domain = Domain(Box(lower, lower + width))
    return Query.maximise(
        (first, second), domain, [difference, -difference], constraints=rows, constraint_offsets=offsets
    )


def points(box: Box, count: int = 200_000) -> Array:
    """A dense grid on the box, its corners included."""
    steps = max(2, int(count ** (1 / box.size)))
    axes = [np.linspace(low, high, steps if low < high else 1) for low, high in zip(box.lower, box.upper, strict=True)]
    grid: Array = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, box.size)
    return grid


def sampled_maximum(query: Query) -> float:
    """The largest value on dense grids; minus infinity where no point of them satisfies the constraints."""
    return max(_case_maximum(query, case) for case in query.cases)


def _case_maximum(query: Query, case: Case) -> float:
    y = query.outputs(points(case.box))
    feasible = np.all(y @ case.constraints.T + case.constraint_offsets >= 0, axis=1)
    return float(np.max(y @ case.objective + case.offset, where=feasible, initial=-np.inf))


def check(query: Query, answer: Answer) -> None:
    """No sampled value exceeds `upper`, and the witness is one."""
    assert sampled_maximum(query) <= answer.upper
    if answer.witness is None:
        return
    assert answer.case is not None
    case = query.cases[answer.case]
    outputs = query.outputs(answer.witness)
    assert case.box.contains(answer.witness)
    assert np.all(case.slack(outputs) >= -1e-9)
    assert case.value(outputs) == answer.lower
