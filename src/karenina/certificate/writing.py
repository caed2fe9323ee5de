"""A certificate on disk. Enters: networks, a domain, a distance, and what was found of their pairs. Leaves: one file.

A zip archive: `certificate.json` says what is claimed, `networks/K` holds a network's weights, `pairs/I-J` the nodes of
a pair's proof. docs/formats has the details. It appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from karenina.certificate.growth import NotProven, chain_of
from karenina.certificate.proof import Proof, checked_distance, prove
from karenina.checker.chain import Chain
from karenina.checker.check import one_thread_each
from karenina.checker.pairs import Distance as CheckedDistance
from karenina.checker.reading import FORMAT, digest
from karenina.disagreement import Disagreement
from karenina.distance import CDistance, Distance
from karenina.domain import Domain
from karenina.engine import compiled
from karenina.errors import MissingExtra, WorkStopped
from karenina.network import Network

__all__ = ["Source", "Subject", "write_certificate"]

Pairs = Mapping[tuple[int, int], Disagreement]
_worker: list[Subject] = []


@dataclass(frozen=True)
class Source:
    """Where a network came from, and how it was read."""

    file: Path
    action: str = "raw"
    normalisation: Path | None = None
    activation: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "file": str(self.file),
            "sha256": hashlib.sha256(self.file.read_bytes()).hexdigest(),
            "action": self.action,
            "normalisation": None if self.normalisation is None else str(self.normalisation),
            "activation": self.activation,
        }


@dataclass(frozen=True, eq=False)
class Subject:
    """What the certificate is about."""

    networks: Sequence[Network]
    sources: Sequence[Source]
    domain: Domain
    distance: Distance
    seconds: float = math.inf  # for each pair's proof

    def prove(self, work: tuple[tuple[int, int], float, float, list[float] | None]) -> Proof:
        """One pair's interval."""
        (i, j), lower, upper, witness = work
        try:
            about = self.networks[i], self.networks[j], self.domain, self.distance
            return prove(*about, lower, upper, witness, seconds=self.seconds)
        except NotProven as error:
            names = f"{self.networks[i].name} and {self.networks[j].name}"
            raise NotProven(f"{names}: {error}") from error


def write_certificate(
    path: Path,
    subject: Subject,
    pairs: Pairs,
    selection: Mapping[str, object] | None = None,
    *,
    jobs: int = 1,
    on_pair: Callable[[int, int], None] | None = None,
) -> int:
    """Prove every interval and write the certificate; how many nodes it has."""
    if not compiled.available():
        raise MissingExtra("numba", "fast")
    chains = [chain_of(network) for network in subject.networks]
    partial, nodes, claims = path.with_name(f".{path.name}.{os.getpid()}"), 0, []
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive, _proofs(subject, pairs, jobs) as proofs:
            for place, chain in enumerate(chains):
                archive.writestr(f"networks/{place}", _weights(chain))
            for done, ((i, j), proof) in enumerate(zip(pairs, proofs, strict=True), 1):
                archive.writestr(f"pairs/{i}-{j}", proof.nodes)
                claims.append(_claim(i, j, proof))
                nodes += proof.count
                if on_pair:
                    on_pair(done, len(pairs))
            text = {
                "format": FORMAT,
                "networks": [
                    {"name": network.name, "digest": digest(chain), "layers": _layers(chain), **source.to_json()}
                    for network, source, chain in zip(subject.networks, subject.sources, chains, strict=True)
                ],
                "domain": [{"lower": b.lower.tolist(), "upper": b.upper.tolist()} for b in subject.domain.boxes],
                "distance": _distance(subject.distance, checked_distance(subject.distance, chains[0].outputs)),
                "pairs": claims,
                "selection": selection,
            }
            archive.writestr("certificate.json", json.dumps(text, allow_nan=False))
        partial.replace(path)
    except OSError as error:
        raise WorkStopped(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return nodes


@contextmanager
def _proofs(subject: Subject, pairs: Pairs, jobs: int) -> Iterator[Iterator[Proof]]:
    """The proofs of all pairs, in order."""
    work = (
        (pair, found.lower, found.upper, None if found.witness is None else found.witness.tolist())
        for pair, found in pairs.items()
    )
    if jobs == 1 or len(pairs) == 1:
        yield map(subject.prove, work)
        return
    with one_thread_each(), ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (subject,)) as pool:
        try:
            yield pool.map(_prove, work)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _begin(subject: Subject) -> None:
    import torch

    torch.set_num_threads(1)
    _worker.append(subject)


def _prove(work: tuple[tuple[int, int], float, float, list[float] | None]) -> Proof:
    return _worker[0].prove(work)


def _weights(chain: Chain) -> bytes:
    return b"".join(layer.weight.astype("<f8").tobytes() + layer.bias.astype("<f8").tobytes() for layer in chain.layers)


def _layers(chain: Chain) -> list[dict[str, object]]:
    return [
        {
            "neurons": layer.weight.shape[0],
            "inputs": layer.weight.shape[1],
            "activations": [
                {"name": kind.name, "parameters": list(kind.parameters), "first": first, "end": end}
                for kind, first, end in layer.runs
            ],
        }
        for layer in chain.layers
    ]


def _distance(distance: Distance, checked: CheckedDistance) -> dict[str, object]:
    texts = distance.conditions if isinstance(distance, CDistance) else ()
    conditions = [
        {"text": text, "rows": c.rows.tolist(), "offsets": c.offsets.tolist()}
        for text, c in zip(texts, checked.conditions, strict=True)
    ]
    return {"name": distance.name, "conditions": conditions}


def _claim(first: int, second: int, proof: Proof) -> dict[str, object]:
    return {
        "first": first,
        "second": second,
        "lower": proof.lower,
        "upper": proof.upper,
        "witnesses": [{"box": w.box, "condition": w.condition, "x": w.x.tolist()} for w in proof.witnesses],
        "choices": list(proof.choices),
    }
