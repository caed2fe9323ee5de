"""Random networks, boxes and queries of every kind, and what any answer must satisfy, by brute force.

Enters: a random generator. Leaves: networks of all activations and shapes, queries on them, and checks that know
nothing of how the engine works: they only evaluate the networks.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from karenina.domain import Box, Domain
from karenina.network import IDENTITY, RELU, Activation, Layer, Network
from karenina.query import Answer, Case, Goal, Query, Status

Array = npt.NDArray[np.float64]

ALL = (
    IDENTITY,
    RELU,
    Activation("leaky_relu", (0.1,)),
    Activation("leaky_relu", (1.7,)),
    Activation("leaky_relu", (-0.5,)),
    Activation("abs"),
    Activation("clip", (-1.0, 0.5)),
    Activation("elu", (0.0,)),
    Activation("elu", (0.3,)),
    Activation("elu", (1.0,)),
    Activation("elu", (2.0,)),
    Activation("tanh"),
    Activation("sigmoid"),
    Activation("softplus"),
)
PIECEWISE_LINEAR = tuple(activation for activation in ALL if activation.piecewise_linear)
FITTING = (  # for eight boxes at a time: kinks that bend upwards, and S-curves
    IDENTITY,
    RELU,
    Activation("leaky_relu", (0.1,)),
    Activation("leaky_relu", (-0.5,)),
    Activation("abs"),
    Activation("tanh"),
    Activation("sigmoid"),
)


def random_layer(rng: np.random.Generator, before: int, size: int, activations: Sequence[Activation]) -> Layer:
    """Normal weights of one of three scales; a third of the layers mix two activations."""
    first, second = (activations[i] for i in rng.integers(len(activations), size=2))
    count = int(rng.integers(0, size + 1)) if rng.random() < 0.3 else size
    weight = rng.normal(size=(size, before)) * rng.choice([0.3, 1.0, 2.0])
    return Layer.of(weight, rng.normal(size=size), ((first, count), (second, size - count)))


def random_network(
    rng: np.random.Generator,
    inputs: int,
    outputs: int,
    depth: int,
    activations: Sequence[Activation] = ALL,
    *,
    widest: int = 8,
) -> Network:
    """A network of `depth` hidden layers; one in five has activations on its outputs too."""
    sizes = [inputs, *rng.integers(1, widest + 1, size=depth).tolist()]
    layers = [random_layer(rng, a, b, activations) for a, b in itertools.pairwise(sizes)]
    last = activations if rng.random() < 0.2 else (IDENTITY,)
    return Network((*layers, random_layer(rng, sizes[-1], outputs, last)), "random")


def dense_network(rng: np.random.Generator, sizes: Sequence[int], activation: Activation = RELU) -> Network:
    """Hidden layers of one activation and an affine output layer, with the usual scale of trained networks."""
    layers = []
    for k, (before, size) in enumerate(itertools.pairwise(sizes)):
        weight = rng.normal(size=(size, before)) * np.sqrt(2 / before)
        last = k + 2 == len(sizes)
        layers.append(Layer.of(weight, 0.3 * rng.normal(size=size), IDENTITY if last else activation))
    return Network(tuple(layers), "dense")


def random_box(rng: np.random.Generator, inputs: int) -> Box:
    """A box of one of three scales; one side in ten is degenerate."""
    centre, radius = rng.normal(size=inputs), rng.random(inputs) * rng.choice([0.1, 1.0, 2.0])
    radius *= rng.random(inputs) < 0.9
    return Box(centre - radius, centre + radius)


def random_query(
    rng: np.random.Generator,
    activations: Sequence[Activation] = ALL,
    *,
    constrained: bool = False,
    deepest: int = 4,
) -> Query:
    """One or two networks, one or two boxes, one or two objectives, and up to three constraints."""
    inputs, outputs = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    depths = rng.integers(0, deepest + 1, size=int(rng.integers(1, 3))).tolist()
    networks = [random_network(rng, inputs, outputs, depth, activations) for depth in depths]
    size = outputs * len(networks)
    rows = int(rng.integers(1, 4)) if constrained else 0
    return Query.maximise(
        networks,
        Domain([random_box(rng, inputs) for _ in range(int(rng.integers(1, 3)))]),
        [rng.normal(size=size) for _ in range(int(rng.integers(1, 3)))],
        constraints=rng.normal(size=(rows, size)),
        constraint_offsets=2 * rng.normal(size=rows),
    )


def points(box: Box, rng: np.random.Generator, count: int = 20_000) -> Array:
    """Uniform points of the box, its corners (or many of them), and points with some coordinates on the sides."""
    uniform = box.sample(count, rng)
    if box.size <= 10:
        corners = np.array(list(itertools.product(*zip(box.lower, box.upper, strict=True))))
    else:
        corners = np.where(rng.random((1000, box.size)) < 0.5, box.lower, box.upper)
    side = rng.random((2000, box.size))
    mixed = np.where(side < 0.3, box.lower, np.where(side > 0.7, box.upper, box.sample(2000, rng)))
    return np.concatenate([np.clip(uniform, box.lower, box.upper), corners, mixed])


def feasible_values(query: Query, case: Case, x: Array) -> Array:
    """The case's values at those of the points x that satisfy its constraints."""
    y = query.outputs(x)
    values: Array = y @ case.objective + case.offset
    if not len(case.constraint_offsets):
        return values
    inside: Array = values[(y @ case.constraints.T + case.constraint_offsets >= 0).all(1)]
    return inside


def sampled_maximum(query: Query, rng: np.random.Generator, count: int = 20_000) -> float:
    """The largest value of any case at a sampled point, minus infinity where no sampled point is feasible."""
    values = [feasible_values(query, case, points(case.box, rng, count)) for case in query.cases]
    return max(float(v.max(initial=-np.inf)) for v in values)


def check_witness(query: Query, answer: Answer) -> None:
    """The witness lies in its box, satisfies the constraints and attains `lower`."""
    if answer.witness is None:
        assert answer.case is None
        assert answer.lower == query.floor
        return
    assert answer.case is not None
    case = query.cases[answer.case]
    y = query.outputs(answer.witness)
    assert case.box.contains(answer.witness)
    assert (case.slack(y) >= 0).all()
    assert case.value(y) >= answer.lower


def check_answer(query: Query, answer: Answer, goal: Goal, rng: np.random.Generator) -> None:
    """No sampled value exceeds `upper`, the witness is one, and the status says what the interval shows."""
    sampled = sampled_maximum(query, rng)
    assert sampled <= answer.upper, (sampled, answer)
    check_witness(query, answer)
    match answer.status:
        case Status.EXACT:
            assert goal.reached(answer.lower, answer.upper)
        case Status.DECIDED:
            decided = goal.threshold is not None and not answer.lower < goal.threshold <= answer.upper
            assert decided or answer.lower >= goal.ceiling
        case Status.INFEASIBLE:
            assert sampled == -np.inf
            assert answer.witness is None
            assert answer.upper == answer.lower == query.floor
        case _:
            assert answer.status in (Status.TIME_LIMIT, Status.PRECISION)


def overlap(a: Answer, b: Answer, tolerance: float) -> bool:
    """Whether the two intervals have a point in common, up to a relative tolerance (absolute below 1)."""
    slack = tolerance * max(1.0, abs(a.lower), abs(b.lower))
    return a.lower <= b.upper + slack and b.lower <= a.upper + slack


def hat(centre: npt.ArrayLike, height: float, width: float) -> Network:
    """height * relu(1 - sum |x - centre| / width): a bump of that height, 0 beyond its width."""
    c = np.asarray(centre, dtype=np.float64)
    one = np.eye(len(c))
    distance = Layer.of(np.vstack([one, -one]), np.concatenate([-c, c]), RELU)
    tent = Layer.of(np.full((1, 2 * len(c)), -1 / width), [1.0], RELU)
    return Network((distance, tent, Layer.of([[height]], [0.0])), "hat")


def added(a: Network, b: Network) -> Network:
    """x -> a(x) + b(x), for two networks of one depth, affine at their ends."""
    layers = []
    pairs = list(zip(a.layers, b.layers, strict=True))
    for k, (p, q) in enumerate(pairs[:-1]):
        weight = torch.cat([p.weight, q.weight]) if k == 0 else _block_diagonal(p.weight, q.weight)
        layers.append(Layer(weight, torch.cat([p.bias, q.bias]), p.activations + q.activations))
    p, q = pairs[-1]
    layers.append(Layer(torch.cat([p.weight, q.weight], 1), p.bias + q.bias, p.activations))
    return Network(tuple(layers), f"{a.name} + {b.name}")


def _block_diagonal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    right, left = a.new_zeros(len(a), b.shape[1]), a.new_zeros(len(b), a.shape[1])
    return torch.cat([torch.cat([a, right], 1), torch.cat([left, b], 1)])


def permuted(network: Network, rng: np.random.Generator) -> Network:
    """The same function with the neurons of every hidden layer in another order (one activation a layer)."""
    layers, order = [], np.arange(network.input_size)
    for k, layer in enumerate(network.layers):
        last = k + 1 == len(network.layers)
        new = np.arange(len(layer.bias)) if last else rng.permutation(len(layer.bias))
        layers.append(Layer(layer.weight[new][:, order].contiguous(), layer.bias[new], layer.activations))
        order = new
    return Network(tuple(layers), f"permuted {network.name}")


def scaled(network: Network, factor: float, shift: float = 0.0) -> Network:
    """factor * network + shift, in the affine output layer."""
    *hidden, last = network.layers
    return Network((*hidden, Layer(factor * last.weight, factor * last.bias + shift, last.activations)), "scaled")
