"""What the tests of certificates share: exact values of networks by other means, and small certificates, made once."""

from __future__ import annotations

import decimal
import io
import itertools
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from random_networks import dense_network

from karenina.certificate import Source, Subject, selection_claims, write_certificate
from karenina.checker.activations import Kind
from karenina.checker.chain import Chain, Layer
from karenina.checker.reading import digest
from karenina.disagreement import pairwise_disagreement_threshold
from karenina.distance import distance
from karenina.domain import Box, Domain
from karenina.network import RELU, Activation, Network
from karenina.query import Goal
from karenina.selection import select

Array = npt.NDArray[Any]
DIGITS = decimal.Context(prec=120, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
NEARLY = Fraction(1, 10**90)  # what `truth` may be off
KINDS = (
    Kind("identity"),
    Kind("relu"),
    Kind("leaky_relu", (0.1,)),
    Kind("leaky_relu", (1.7,)),
    Kind("leaky_relu", (-0.5,)),
    Kind("leaky_relu", (-30.0,)),
    Kind("abs"),
    Kind("clip", (-1.0, 0.5)),
    Kind("clip", (0.25, 3.0)),
    Kind("clip", (-1e-3, 0.0)),
    Kind("elu", (0.0,)),
    Kind("elu", (0.3,)),
    Kind("elu", (1.0,)),
    Kind("elu", (2.5,)),
    Kind("tanh"),
    Kind("sigmoid"),
    Kind("softplus"),
)


def truth(kind: Kind, z: Fraction) -> Fraction:
    """activation(z), to a hundred digits: from the definitions, with one exponential."""
    first, second = (*map(Fraction, kind.parameters), Fraction(0), Fraction(0))[:2]
    match kind.name:
        case "identity":
            return z
        case "relu":
            return max(z, Fraction(0))
        case "leaky_relu":
            return z if z > 0 else first * z
        case "abs":
            return abs(z)
        case "clip":
            return min(max(z, first), second)
        case "elu":
            return z if z > 0 else first * (_exp(z) - 1)
        case "tanh":
            small = _exp(-2 * abs(z))
            return (1 - small) / (1 + small) * (1 if z >= 0 else -1)
        case "sigmoid":
            small = _exp(-abs(z))
            return (1 if z >= 0 else small) / (1 + small)
        case "softplus":
            total = DIGITS.add(decimal.Decimal(1), _decimal(_exp(-abs(z))))
            return max(z, Fraction(0)) + Fraction(DIGITS.ln(total))
    raise AssertionError(kind.name)


def _decimal(value: Fraction) -> decimal.Decimal:
    return DIGITS.divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))


def _exp(z: Fraction) -> Fraction:
    return Fraction(0) if z < -5000 else Fraction(DIGITS.exp(_decimal(z)))


def exact_layers(chain: Chain, x: Sequence[Fraction]) -> Iterator[tuple[list[Fraction], list[Fraction]]]:
    """Pre-activations and activations of each layer, in plain loops over fractions."""
    values = list(x)
    for layer in chain.layers:
        kinds = [kind for kind, first, end in layer.runs for _ in range(first, end)]
        z = [
            sum((Fraction(w) * v for w, v in zip(row, values, strict=True)), Fraction(b))
            for row, b in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
        ]
        values = [truth(kind, value) for kind, value in zip(kinds, z, strict=True)]
        yield z, values


def exact_outputs(chain: Chain, x: Sequence[Fraction]) -> list[Fraction]:
    return list(exact_layers(chain, x))[-1][1]


def fractions(x: npt.ArrayLike) -> list[Fraction]:
    return [Fraction(float(value)) for value in np.asarray(x).ravel()]


def random_chain(
    rng: np.random.Generator, inputs: int, outputs: int, depth: int, kinds: Sequence[Kind] = KINDS
) -> Chain:
    """Layers of up to four neurons, two activations in each."""
    sizes = [inputs, *rng.integers(2, 5, size=depth - 1).tolist(), outputs]
    layers = []
    for before, size in itertools.pairwise(sizes):
        cut = int(rng.integers(0, size + 1))
        runs = [(kinds[int(rng.integers(len(kinds)))], *ends) for ends in ((0, cut), (cut, size)) if ends[0] < ends[1]]
        weight = rng.normal(size=(size, before)) * (rng.random((size, before)) < 0.85)
        layers.append(Layer(weight, rng.normal(size=size), tuple(runs)))
    return Chain(tuple(layers))


@dataclass(frozen=True, eq=False)
class Made:
    """A certificate, and what it is about."""

    data: bytes
    subject: Subject
    intervals: dict[tuple[int, int], tuple[float, float]]  # as the engine found them, a second time and closer

    @property
    def text(self) -> dict[str, Any]:
        return unpacked(self.data)[0]

    @property
    def members(self) -> dict[str, bytes]:
        return unpacked(self.data)[1]


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What a certificate's file says, and its other members."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("certificate.json")), members


def packed(text: Any, members: dict[str, bytes], *, deflate: bool = True) -> bytes:
    """A certificate's file, of such content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("certificate.json", text if isinstance(text, (str, bytes)) else json.dumps(text))
    return file.getvalue()


def with_digests(text: dict[str, Any], members: dict[str, bytes]) -> dict[str, Any]:
    """The text with the digests that the weights now have."""
    for k, network in enumerate(text["networks"]):
        network["digest"] = digest(chain_from(network["layers"], members[f"networks/{k}"]))
    return text


def chain_from(layers: list[dict[str, Any]], data: bytes) -> Chain:
    """A network as a certificate has it."""
    values, made = np.frombuffer(data, "<f8").copy(), []
    for layer in layers:
        n, m = layer["neurons"], layer["inputs"]
        runs = tuple((Kind(r["name"], tuple(r["parameters"])), r["first"], r["end"]) for r in layer["activations"])
        made.append(Layer(values[: n * m].reshape(n, m), values[n * m : n * m + n], runs))
        values = values[n * m + n :]
    return Chain(tuple(made))


def _made(networks: Sequence[Network], domain: Domain, name: str, conditions: Sequence[str], selecting: bool) -> Made:
    metric, found = distance(name, tuple(conditions)), None
    named = [network.named(f"model {k}") for k, network in enumerate(networks)]
    goal = Goal(tolerance=1e-2)
    if selecting:
        found = select(named, domain, metric)
        pairs = dict(found.table.pairs)
    else:
        pairs = {(0, 1): pairwise_disagreement_threshold(named[0], named[1], domain, metric, goal=goal)}
    close = {
        key: pairwise_disagreement_threshold(named[key[0]], named[key[1]], domain, metric, goal=Goal(tolerance=1e-6))
        for key in pairs
    }
    with TemporaryDirectory() as folder:
        file, path = Path(folder) / "model", Path(folder) / "certificate.zip"
        file.write_bytes(b"no model")
        subject = Subject(named, [Source(file)] * len(named), domain, metric)
        write_certificate(path, subject, pairs, None if found is None else selection_claims(found))
        return Made(path.read_bytes(), subject, {key: (each.lower, each.upper) for key, each in close.items()})


def _networks(seed: int, count: int, sizes: Sequence[int], activation: Activation = RELU) -> list[Network]:
    rng = np.random.default_rng(seed)
    return [dense_network(rng, sizes, activation) for _ in range(count)]


SQUARE = Domain(Box([-1.0, -1.0], [1.0, 1.0]))
UNION = Domain((Box([-1.0, -1.0], [0.0, 0.5]), Box([0.25, -1.0], [1.0, 1.0])))
MAKERS: dict[str, Callable[[], Made]] = {
    "l1": lambda: _made(_networks(1, 2, (2, 6, 6, 1)), SQUARE, "l1", (), False),
    "linf": lambda: _made(_networks(2, 2, (2, 5, 2)), UNION, "linf", (), False),
    "class": lambda: _made(_networks(3, 2, (2, 6, 3)), SQUARE, "class", (), False),
    "c-distance": lambda: _made(_networks(3, 2, (2, 6, 2)), UNION, "c-distance", ("y0 >= 0", "y0 <= 0"), False),
    "tanh": lambda: _made(_networks(5, 2, (2, 4, 1), Activation("tanh")), SQUARE, "l1", (), False),
    "selection": lambda: _made(_networks(6, 5, (2, 4, 1)), SQUARE, "l1", (), True),
}


@cache
def made(which: str) -> Made:
    """One of the certificates, made when it is first asked for."""
    return MAKERS[which]()


def roughly(chain: Chain, x: Array) -> Array:
    """Outputs at points (points, inputs), in float64, by numpy alone."""
    for layer in chain.layers:
        z = x @ layer.weight.T + layer.bias
        x = np.concatenate([_activated(kind, z[:, first:end]) for kind, first, end in layer.runs], axis=1)
    return x


def _activated(kind: Kind, z: Array) -> Array:
    first, second = (*kind.parameters, 0.0, 0.0)[:2]
    functions: dict[str, Callable[[Array], Array]] = {
        "identity": lambda v: v,
        "relu": lambda v: np.maximum(v, 0),
        "leaky_relu": lambda v: np.where(v > 0, v, first * v),
        "abs": np.abs,
        "clip": lambda v: np.clip(v, first, second),
        "elu": lambda v: np.where(v > 0, v, first * np.expm1(np.minimum(v, 0))),
        "tanh": np.tanh,
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "softplus": lambda v: np.logaddexp(v, 0),
    }
    return functions[kind.name](z)


def is_no_claim(value: float) -> bool:
    """Whether a bound says nothing."""
    return math.isnan(value) or value == math.inf
