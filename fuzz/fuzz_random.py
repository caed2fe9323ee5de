"""Random cases of every kind, from ordinary to hostile.

Enters: a seed. Leaves: the kind of the case and a `Subject`. The same seed gives the same case on every machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from fuzz_hostile import FAMILIES, hostile
from fuzz_subjects import Subject

from karenina.domain import Box
from karenina.engine import Settings
from karenina.network import IDENTITY, RELU, Activation, Layer, Network
from karenina.query import Goal

__all__ = ["KINDS", "random_subject"]

Array = npt.NDArray[np.float64]

KINDS = {"query": 0.45, "hostile": 0.2, "pair": 0.25, "selection": 0.1}
ALL = (
    IDENTITY,
    RELU,
    RELU,
    RELU,
    Activation("leaky_relu", (0.1,)),
    Activation("leaky_relu", (-0.5,)),
    Activation("leaky_relu", (1.7,)),
    Activation("abs"),
    Activation("clip", (-1.0, 0.5)),
    Activation("elu", (1.0,)),
    Activation("elu", (2.0,)),
    Activation("tanh"),
    Activation("tanh"),
    Activation("sigmoid"),
    Activation("softplus"),
)
KINKED = tuple(activation for activation in ALL if activation.piecewise_linear)
CONDITIONS = (("y >= 0", "y <= 0"), ("y0 >= 0.1", "y0 <= -0.1"), ("y >= -1", "y0 <= 2"), ("2*y0 >= 0.5",))


def random_subject(seed: int, kinds: dict[str, float] | None = None) -> tuple[str, Subject]:
    """A case, and its kind."""
    rng, chances = np.random.default_rng(seed), kinds or KINDS
    kind = str(rng.choice(list(chances), p=np.array(list(chances.values())) / sum(chances.values())))
    if kind == "hostile":
        return kind, _hostile(rng, seed)
    inputs = int(rng.choice([1, 2, 3, 4, 8, 20], p=[0.2, 0.3, 0.2, 0.15, 0.1, 0.05]))
    outputs = int(rng.choice([1, 2, 3, 5], p=[0.4, 0.3, 0.2, 0.1]))
    networks = _networks(rng, kind, inputs, outputs)
    outputs_in_all = outputs * len(networks)
    rows = int(rng.integers(1, 4)) if kind == "query" and rng.random() < 0.4 else 0
    distances = ("l1", "linf", "c-distance", "class") if outputs > 1 else ("l1", "linf", "c-distance")
    chosen = str(rng.choice(distances))
    own = chosen == "c-distance" and rng.random() < 0.5
    return kind, Subject(
        networks,
        tuple(_box(rng, inputs) for _ in range(int(rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1])))),
        tuple(_objective(rng, outputs_in_all) for _ in range(int(rng.integers(1, 3)))),
        rng.normal(size=(rows, outputs_in_all)),
        2 * rng.normal(size=rows),
        chosen,
        CONDITIONS[rng.integers(len(CONDITIONS))] if own else (),
        _goal(rng, kind),
        _settings(rng),
        "cpu",
        seed,
    )


def _hostile(rng: np.random.Generator, seed: int) -> Subject:
    """Made to break floating-point arithmetic; sometimes under a constraint."""
    family = str(rng.choice(list(FAMILIES)))
    networks, box, objective = hostile(family, rng, KINKED if rng.random() < 0.5 else ALL)
    rows = int(rng.random() < 0.2)
    offsets, goal = rng.normal(size=rows), Goal(0.0, float(rng.choice([1e-1, 1e-3, 1e-6])), time_limit=0.2)
    return Subject(
        networks,
        (box,),
        (objective,),
        rng.normal(size=(rows, len(objective))),
        offsets,
        goal=goal if rng.random() < 0.8 else Goal(float(rng.choice([1e-3, 1e-12])), time_limit=0.2),
        settings=Settings(threads=int(rng.random() < 0.6)),
        seed=seed,
    )


def _networks(rng: np.random.Generator, kind: str, inputs: int, outputs: int) -> tuple[Network, ...]:
    """One to three of any shapes, or (nearly) equal ones, or a small population."""
    activations = KINKED if rng.random() < 0.6 else ALL
    scale = float(rng.choice([1.0, 1.0, 1.0, 1e-6, 1e4])) if rng.random() < 0.3 else 1.0
    if kind == "selection":
        sizes = [inputs, *rng.integers(1, 9, size=int(rng.integers(1, 3))).tolist(), outputs]
        return tuple(_network(rng, sizes, activations, 1.0) for _ in range(int(rng.integers(3, 7))))
    count = 2 if kind == "pair" else int(rng.choice([1, 2, 3], p=[0.4, 0.5, 0.1]))
    first = _network(rng, _sizes(rng, inputs, outputs), activations, scale)
    if count > 1 and rng.random() < 0.3:
        return (first, *(_near_copy(rng, first) for _ in range(count - 1)))
    same = rng.random() < 0.5
    shapes = [_sizes(rng, inputs, outputs) for _ in range(count - 1)]
    own = [inputs, *(len(layer.bias) for layer in first.layers)]
    return (first, *(_network(rng, own if same else shape, activations, scale) for shape in shapes))


def _sizes(rng: np.random.Generator, inputs: int, outputs: int) -> list[int]:
    """Depth 0 to 4; wide layers are rare, since they take long."""
    widest = int(rng.choice([4, 8, 16, 40], p=[0.35, 0.4, 0.2, 0.05]))
    return [inputs, *rng.integers(1, widest + 1, size=int(rng.integers(0, 5))).tolist(), outputs]


def _network(
    rng: np.random.Generator, sizes: Sequence[int], activations: Sequence[Activation], scale: float
) -> Network:
    layers = []
    wild = rng.random() < 0.1
    for k, (before, size) in enumerate(itertools.pairwise(sizes)):
        last = k + 2 == len(sizes)
        weight = rng.normal(size=(size, before)) * np.sqrt(2 / before) * (scale if last else 1.0)
        if wild:
            weight *= 10.0 ** rng.uniform(-12, 6, size=weight.shape)
        bias = 0.5 * rng.normal(size=size) * (scale if last else 1.0)
        first, second = (activations[i] for i in rng.integers(len(activations), size=2))
        count = int(rng.integers(0, size + 1)) if rng.random() < 0.3 else size
        affine = last and rng.random() < 0.85
        layers.append(Layer.of(weight, bias, IDENTITY if affine else ((first, count), (second, size - count))))
    return Network(tuple(layers), f"network {int(rng.integers(10**9))}")


def _near_copy(rng: np.random.Generator, network: Network) -> Network:
    """The same but for a share of every weight, the last digit of some, or one weight."""
    way, layers = str(rng.choice(["share", "digit", "float16", "one"])), []
    place = int(rng.integers(len(network.layers)))
    for k, layer in enumerate(network.layers):
        weight, bias = layer.weight.numpy().copy(), layer.bias.numpy().copy()
        if way == "share":
            weight *= 1 + float(rng.choice([1e-9, 1e-2, 0.1])) * rng.normal(size=weight.shape)
        elif way == "digit":
            weight = np.where(rng.random(weight.shape) < 0.3, np.nextafter(weight, np.inf), weight)
            bias = np.nextafter(bias, np.inf)
        elif way == "float16":
            weight, bias = (np.clip(a, -6e4, 6e4).astype(np.float16).astype(np.float64) for a in (weight, bias))
        elif k == place:
            weight.ravel()[rng.integers(weight.size)] += rng.normal()
        layers.append(Layer.of(weight, bias, layer.activations))
    return Network(tuple(layers), f"{network.name}, a copy")


def _box(rng: np.random.Generator, inputs: int) -> Box:
    """Of many scales, around many places; some sides have no width."""
    centre = rng.normal(size=inputs) * (10.0 ** rng.uniform(-3, 6) if rng.random() < 0.15 else 1.0)
    radius = rng.random(inputs) * float(
        rng.choice([1e-9, 1e-3, 0.1, 1.0, 2.0, 100.0], p=[0.05, 0.05, 0.2, 0.5, 0.15, 0.05])
    )
    radius *= rng.random(inputs) < 0.9
    return Box(centre - radius, centre + radius)


def _objective(rng: np.random.Generator, size: int) -> Array:
    if rng.random() < 0.2:
        return np.where(np.arange(size) == rng.integers(size), float(rng.choice([1.0, -1.0])), 0.0)
    return rng.normal(size=size)


def _goal(rng: np.random.Generator, kind: str) -> Goal:
    limit = float(rng.choice([0.0, 0.05, 0.3, 0.6], p=[0.05, 0.15, 0.6, 0.2]))
    if kind == "selection":
        return Goal(float(rng.choice([1e-2, 0.1])), time_limit=3.0)  # its laws need exact pairs
    match rng.integers(4):
        case 0:
            return Goal(0.0, float(rng.choice([1e-1, 1e-3, 1e-6])), time_limit=limit)
        case 1 if kind == "query":
            return Goal(threshold=float(rng.normal() * 3), time_limit=limit)
        case 2:
            return Goal(1e-2, ceiling=float(rng.exponential()), time_limit=limit)
    return Goal(float(rng.choice([1.0, 1e-1, 1e-3, 1e-6])), time_limit=limit)


def _settings(rng: np.random.Generator) -> Settings:
    """Mostly compiled; sometimes torch, with odd batches, boxes one by one, or odd efforts."""
    threads = 0 if rng.random() < 0.35 else 1
    if rng.random() < 0.5:
        return Settings(threads=threads)
    return Settings(
        threads=threads,
        steps=int(rng.choice([0, 1, 3, 10])),
        starts=int(rng.choice([1, 16])),
        ascent=int(rng.choice([1, 10])),
        memory=int(rng.choice([1 << 16, 1 << 24, 2 << 30])),
        settled=int(rng.choice([0, 6, 40])),
        programmes=int(rng.choice([0, 8, 512])),
        batch=int(rng.choice([2, 3, 64, 2048])),
        endgame=int(rng.choice([0, 2, 8, 1000])),
        climbers=int(rng.choice([1, 32])),
        abreast=bool(rng.random() < 0.7),
    )
