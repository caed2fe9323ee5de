"""What an answer about a pair depends on. Enters: a domain, a distance, a back end, networks, a goal. Leaves: keys.

Two questions with one key have one answer. The time limit is not part of it: a search that finished within its
limit gives what a longer one gives (`Record.answers` looks after those that did not).
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import karenina
from karenina.distance import L1, CDistance, ClassDistance, Distance, Linf
from karenina.domain import Domain
from karenina.network import Network
from karenina.query import Goal

__all__ = ["Context", "canonical_order", "distance_text", "domain_hash", "engine_version", "short"]

SHORT = 32  # hexadecimal digits of a digest in a record: 128 bits
_WHAT_COMPUTES = ("engine", "backends", "disagreement", "distance.py", "network.py", "query.py", "store/records.py")


def short(digest: str) -> str:
    """As much of a SHA-256 digest as tells contents apart."""
    return digest[:SHORT]


def _hash(content: object) -> str:
    return short(hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest())


def domain_hash(domain: Domain) -> str:
    """A hash of the boxes; names of inputs change no answer."""
    sha = hashlib.sha256(repr((len(domain.boxes), domain.size)).encode())
    for box in domain.boxes:
        sha.update((box.lower + 0.0).tobytes())  # -0.0 is 0.0
        sha.update((box.upper + 0.0).tobytes())
    return short(sha.hexdigest())


def distance_text(distance: Distance) -> str:
    """The distance and its parameters, as text. One of our own is known by them, another by what it prints as."""
    if isinstance(distance, CDistance):
        return json.dumps([distance.name, *distance.conditions])
    return distance.name if isinstance(distance, L1 | Linf | ClassDistance) else repr(distance)


@functools.cache
def engine_version() -> str:
    """The version and a hash of the code that computes and writes answers: another code's are not this code's."""
    home, sha = Path(karenina.__file__).parent, hashlib.sha256()
    for part in _WHAT_COMPUTES:
        for file in sorted((home / part).rglob("*.py")) or [home / part]:
            sha.update(file.name.encode() + b"\0" + file.read_bytes())
    return f"{karenina.__version__}+{sha.hexdigest()[:12]}"


@dataclass(frozen=True)
class Context:
    """What the answers of one run have in common."""

    domain: str  # its hash
    distance: str
    backend: str
    version: str

    @classmethod
    def of(cls, domain: Domain, distance: Distance, backend: str = "karenina") -> Context:
        return cls(domain_hash(domain), distance_text(distance), backend, engine_version())

    @functools.cached_property
    def hash(self) -> str:
        return _hash(asdict(self))

    def key(self, first: str, second: str, goal: Goal) -> str:
        """Of the question how far the networks of these digests, in this order, disagree."""
        stop = f"{goal.tolerance!r} {goal.relative_tolerance!r} {goal.threshold!r} {goal.ceiling!r} {goal.closing!r}"
        question = f"{self.hash} {short(first)} {short(second)} {stop}"
        return hashlib.blake2b(question.encode(), digest_size=SHORT // 2).hexdigest()


def canonical_order(networks: Sequence[Network]) -> list[int]:
    """The places of the networks, by content: a pair measured in this order is one and the same question in
    every run, whatever the order of the files. All our distances are symmetric, so either order has the answer;
    but only one order always gives the same last digits."""
    digests = [network.digest() for network in networks]
    return sorted(range(len(networks)), key=digests.__getitem__)
