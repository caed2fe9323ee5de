"""The file of a certificate: a zip archive of one JSON text, the networks' weights, and the nodes of each pair's proof.

Enters: a path. Leaves: a `Certificate`, all of whose numbers have been looked at but none believed. `docs/` has the
format. Whatever is malformed is `Refused`.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from karenina.checker.activations import Kind
from karenina.checker.bounds import Bounder, Hints
from karenina.checker.chain import Chain, Layer
from karenina.checker.pairs import Condition, Distance, Pair, Witness
from karenina.checker.refusal import Refused
from karenina.checker.tree import CUT, FINE, LEAF, SPLIT, Nodes

__all__ = ["COARSE", "FORMAT", "Certificate", "Claim", "Stream", "coarse_neurons", "digest", "read_certificate"]

Array = npt.NDArray[Any]
FORMAT = "karenina certificate 1"
COARSE = 255  # steps of a coarse slope
MOST_TEXT = 1 << 26  # bytes of the JSON text
MOST_WEIGHTS, MOST_IN_ALL = 1 << 21, 1 << 24  # numbers in a network, and in all: a small file can declare many
MOST_LAYERS, MOST_OUTPUTS = 1 << 8, 1 << 10
MALFORMED = KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError, MemoryError
UNREADABLE = OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError


@dataclass(frozen=True, eq=False)
class Claim:
    """That the disagreement of two networks, by their places, lies in an interval."""

    first: int
    second: int
    lower: float
    upper: float
    witnesses: tuple[Witness, ...]
    choices: tuple[int, ...]

    @property
    def member(self) -> str:
        return f"pairs/{self.first}-{self.second}"


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is claimed, and of what."""

    path: Path
    text: str  # a hash of all but the nodes
    names: tuple[str, ...]
    files: tuple[dict[str, str | None], ...]  # where each network came from
    networks: tuple[Chain, ...]
    domain: tuple[tuple[Array, Array], ...]
    distance: Distance
    claims: tuple[Claim, ...]
    selection: dict[str, Any] | None

    def pair(self, claim: Claim) -> Pair:
        return Pair(self.networks[claim.first], self.networks[claim.second], self.domain, self.distance)

    @contextmanager
    def stream(self, claim: Claim) -> Iterator[IO[bytes]]:
        """The nodes of a pair."""
        with _archive(self.path) as archive, archive.open(_member(archive, claim.member)) as stream:
            yield stream


class Stream:
    """Nodes as a certificate has them."""

    def __init__(self, file: IO[bytes], bounder: Bounder, constraints: int) -> None:
        self._file, self._inputs, self._constraints = file, bounder.chain.inputs, constraints
        self._neurons = bounder.neurons
        self._coarse, self._left, self._right = coarse_neurons(bounder.chain)

    def take(self, count: int) -> Nodes:
        kinds = self._read("<u1", count)
        if (kinds > FINE).any():
            raise Refused("a node is of no known kind")
        axes = np.zeros(count, np.int64)
        axes[kinds <= CUT] = self._read("<u2", int((kinds <= CUT).sum()))
        coarse, fine = (kinds == CUT) | (kinds == LEAF), kinds == FINE
        slopes, wanted = np.full((2, count, self._neurons), np.nan)
        multipliers = np.zeros((count, self._constraints))
        steps = self._read("<u1", int(coarse.sum()), len(self._coarse))
        slopes[np.ix_(coarse, self._coarse)] = self._left + (self._right - self._left) * (steps / COARSE)
        multipliers[coarse] = self._read("<f4", int(coarse.sum()), self._constraints)
        slopes[fine] = self._read("<f8", int(fine.sum()), self._neurons)
        wanted[fine] = self._read("<f8", int(fine.sum()), self._neurons)
        multipliers[fine] = self._read("<f8", int(fine.sum()), self._constraints)
        if not ((multipliers >= 0) & (multipliers < np.inf)).all():
            raise Refused("a multiplier is negative or not a number")
        if np.isinf(slopes).any() or np.isinf(wanted).any():
            raise Refused("a slope or a coefficient is infinite")
        bounded = kinds != SPLIT
        return Nodes(kinds, axes, Hints(slopes[bounded], multipliers[bounded], wanted[bounded]))

    def _read(self, form: str, *shape: int) -> Array:
        size = int(np.prod(shape)) * np.dtype(form).itemsize
        data = self._file.read(size)
        if len(data) != size:
            raise Refused("the nodes of a pair end too early")
        return np.frombuffer(data, form).reshape(shape)


def coarse_neurons(chain: Chain) -> tuple[Array, Array, Array]:
    """The neurons that coarse slopes are for: their places, and the slopes that 0 and 255 stand for."""
    places: list[int] = []
    left: list[float] = []
    right: list[float] = []
    start = 0
    for layer in chain.layers:
        for kind, first, last in layer.runs:
            if kind.name in ("relu", "leaky_relu", "abs", "clip"):
                places += range(start + first, start + last)
                left += [kind.slopes[0]] * (last - first)
                right += [kind.slopes[1]] * (last - first)
        start += len(layer.bias)
    return np.array(places, np.int64), np.array(left), np.array(right)


def digest(network: Chain) -> str:
    """A hash of what a network computes."""
    sha = hashlib.sha256()
    for layer in network.layers:
        sha.update(repr([layer.weight.shape, [(k.name, k.parameters, a, b) for k, a, b in layer.runs]]).encode())
        sha.update(layer.weight.astype("<f8").tobytes() + layer.bias.astype("<f8").tobytes())
    return sha.hexdigest()


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except UNREADABLE as error:
        raise Refused(f"{path} cannot be read as a certificate: {error}") from error


def _member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    found = [info for info in archive.infolist() if info.filename == name]
    if len(found) != 1:
        raise Refused(f"the certificate has {len(found)} members of the name {name}, not one")
    if found[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Refused(f"{name} is compressed in a way that certificates are not")
    return found[0]


def read_certificate(path: Path) -> Certificate:
    """Everything but the nodes."""
    with _archive(path) as archive:
        with archive.open(_member(archive, "certificate.json")) as file:
            text = file.read(MOST_TEXT + 1)
        if len(text) > MOST_TEXT:
            raise Refused(f"{path}: the text of the certificate is too long")
        try:
            data = json.loads(text, object_pairs_hook=_distinct)
            return _certificate(path, archive, data, hashlib.sha256(text).hexdigest())
        except MALFORMED as error:
            raise Refused(f"{path}: the text of the certificate is malformed: {error!r}") from error


def _distinct(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, whose keys must not be there twice: who reads it should not have a choice."""
    if len(dict(items)) != len(items):
        raise Refused("the text of the certificate has a key twice")
    return dict(items)


def _certificate(path: Path, archive: zipfile.ZipFile, data: dict[str, Any], text: str) -> Certificate:
    if data["format"] != FORMAT:
        raise Refused(f"{path} is not a {FORMAT!r} but a {data['format']!r}")
    names = tuple(str(network["name"]) for network in data["networks"])
    _check_sizes([network["layers"] for network in data["networks"]])
    networks = tuple(_network(archive, k, network["layers"]) for k, network in enumerate(data["networks"]))
    for name, network, told in zip(names, networks, data["networks"], strict=True):
        if digest(network) != told["digest"]:
            raise Refused(f"{path}: the weights of {name} are not those the certificate was made for")
    domain = tuple((_numbers(box["lower"]), _numbers(box["upper"])) for box in data["domain"])
    inputs = {network.inputs for network in networks} | {len(side) for box in domain for side in box}
    if len(inputs) != 1:
        raise Refused(f"{path}: the networks and the boxes do not all have the same inputs")
    if not domain or not all((lower <= upper).all() for lower, upper in domain):
        raise Refused(f"{path}: the domain is empty or a box is inverted")
    conditions = tuple(Condition(_table(c["rows"]), _numbers(c["offsets"])) for c in data["distance"]["conditions"])
    claims = tuple(_claim(each, len(names), *inputs) for each in data["pairs"])
    if not claims:
        raise Refused(f"{path} claims nothing")
    if len({claim.member for claim in claims}) != len(claims):
        raise Refused(f"{path}: a pair is claimed twice")
    return Certificate(
        path,
        text,
        names,
        tuple(_source(network) for network in data["networks"]),
        networks,
        domain,
        Distance(data["distance"]["name"], conditions),
        claims,
        data["selection"],
    )


def _source(told: dict[str, Any]) -> dict[str, str | None]:
    """Where a network came from, and how it was read."""
    keys = "file", "sha256", "action", "normalisation", "activation"
    return {key: None if told[key] is None else str(told[key]) for key in keys}


def _claim(data: dict[str, Any], networks: int, inputs: int) -> Claim:
    first, second = _count(data["first"]), _count(data["second"])
    if not 0 <= first < second < networks:
        raise Refused(f"there is no pair {first}, {second}")
    lower, upper = _number(data["lower"]), _number(data["upper"])
    if not -np.inf < lower <= upper < np.inf:
        raise Refused(f"[{lower}, {upper}] is not an interval")
    witnesses = tuple(Witness(_count(w["box"]), _count(w["condition"]), _numbers(w["x"])) for w in data["witnesses"])
    if any(len(witness.x) != inputs for witness in witnesses):
        raise Refused("a witness does not have as many inputs as the networks")
    return Claim(first, second, lower, upper, witnesses, tuple(map(_count, data["choices"])))


def _shapes(layers: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(_count(layer["neurons"]), _count(layer["inputs"])) for layer in layers]


def _check_sizes(networks: list[list[dict[str, Any]]]) -> None:
    """Refuse networks of no size, or of such a size that looking at them is a burden, before their weights are read."""
    shapes = [_shapes(layers) for layers in networks]
    if not shapes or not all(shapes) or min(min(shape) for each in shapes for shape in each) <= 0:
        raise Refused("a network declares no layers, or layers of no size")
    counts = [sum(n * m + n for n, m in each) for each in shapes]
    if max(counts) > MOST_WEIGHTS or sum(counts) > MOST_IN_ALL:
        raise Refused(f"a network declares more than {MOST_WEIGHTS} numbers, or all of them more than {MOST_IN_ALL}")
    if max(map(len, shapes)) > MOST_LAYERS or max(each[-1][0] for each in shapes) > MOST_OUTPUTS:
        raise Refused(f"a network declares more than {MOST_LAYERS} layers or {MOST_OUTPUTS} outputs")


def _network(archive: zipfile.ZipFile, number: int, layers: list[dict[str, Any]]) -> Chain:
    """The layers, their weights and biases one after the other in one member."""
    shapes = _shapes(layers)
    count = sum(n * m + n for n, m in shapes)
    with archive.open(_member(archive, f"networks/{number}")) as file:
        data = file.read(8 * count + 1)
    if len(data) != 8 * count:
        raise Refused(f"the weights of network {number} are not as many as its layers need")
    values, made = np.frombuffer(data, "<f8").astype(np.float64), []
    for layer, (n, m) in zip(layers, shapes, strict=True):
        weight, bias, values = values[: n * m].reshape(n, m), values[n * m : n * m + n], values[n * m + n :]
        made.append(Layer(weight, bias, tuple(_run(run) for run in layer["activations"])))
    return Chain(tuple(made))


def _run(run: dict[str, Any]) -> tuple[Kind, int, int]:
    return Kind(str(run["name"]), tuple(map(_number, run["parameters"]))), _count(run["first"]), _count(run["end"])


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _numbers(values: list[Any]) -> Array:
    array = np.array([_number(value) for value in values], dtype=np.float64)
    if not np.isfinite(array).all():
        raise Refused("a number is not finite")
    return array


def _table(rows: list[list[Any]]) -> Array:
    return np.stack([_numbers(row) for row in rows])
