"""Everything a certificate claims, re-derived.

Enters: a path. Leaves: a `Proved` that says in one sentence what was proved; else `Refused`, with the first thing that
fails.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from karenina.checker.reading import Certificate, Claim, Stream, read_certificate
from karenina.checker.refusal import Refused
from karenina.checker.selection import check_selection
from karenina.checker.tree import Sample, replay

__all__ = ["Proved", "check", "one_thread_each"]

EXACTLY = 2  # nodes of each pair that are looked at in exact arithmetic too


@dataclass(frozen=True)
class Proved:
    """What has been re-derived."""

    certificate: Certificate
    nodes: int
    bounded: int
    exactly: int
    selection: str  # what was proved of the selection; empty where there is none
    strays: tuple[float, ...]  # how far a float32 evaluation of each network may be off

    def __str__(self) -> str:
        certificate = self.certificate
        name, claims = certificate.distance.name.removesuffix("-distance"), certificate.claims
        what = f"the largest {name} distance over all inputs of the domain"
        about = f"{len(claims)} intervals of {what}"
        if len(claims) == 1:
            about = f"{what} lies in [{claims[0].lower!r}, {claims[0].upper!r}]"
        text = (
            f"proved: {about}, by {self.nodes} nodes, {self.exactly} of them also in exact arithmetic, for the "
            f"real-valued networks with the stored weights; computed in float32 their outputs are off by at most "
            f"{max(self.strays):.2g}."
        )
        return f"{text}\n{self.selection}" if self.selection else text


def check(
    path: Path, *, jobs: int = 1, exactly: int = EXACTLY, on_pair: Callable[[int, int], None] | None = None
) -> Proved:
    """Re-derive a certificate; `on_pair` hears how many pairs are done, of how many."""
    certificate = read_certificate(path)
    selection = _selection(certificate)  # quick, and as good as the intervals, which are proven next
    nodes = bounded = exact_ones = 0
    with _results(certificate, jobs, exactly) as results:
        for done, (number, each, sampled) in enumerate(results, 1):
            nodes, bounded, exact_ones = nodes + number, bounded + each, exact_ones + sampled
            if on_pair:
                on_pair(done, len(certificate.claims))
    with np.errstate(all="ignore"):
        strays = tuple(max(network.stray(*box) for box in certificate.domain) for network in certificate.networks)
    return Proved(certificate, nodes, bounded, exact_ones, selection, strays)


@contextmanager
def _results(certificate: Certificate, jobs: int, exactly: int) -> Iterator[Iterator[tuple[int, int, int]]]:
    """What `_check_pair` says of all pairs, in order."""
    work = [(certificate.path, certificate.text, place, exactly) for place in range(len(certificate.claims))]
    if jobs == 1 or len(work) == 1:
        yield (_check_pair(certificate, claim, exactly) for claim in certificate.claims)
        return
    with one_thread_each(), ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield pool.map(_check_there, work)
        except BrokenProcessPool as error:
            raise Refused("a process of the checker died, perhaps for want of memory") from error
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes that start in here do not use threads too, for which there are no cores."""
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


_read_once = lru_cache(maxsize=1)(read_certificate)


def _check_there(work: tuple[Path, str, int, int]) -> tuple[int, int, int]:
    """In another process, which reads the certificate once."""
    path, text, place, exactly = work
    certificate = _read_once(path)
    if certificate.text != text:
        raise Refused(f"{path} was changed while it was checked")
    return _check_pair(certificate, certificate.claims[place], exactly)


def _check_pair(certificate: Certificate, claim: Claim, exactly: int) -> tuple[int, int, int]:
    try:
        with np.errstate(all="ignore"):  # what overflows is not proven, and said once
            return _pair(certificate, claim, exactly)
    except Refused as error:
        names = f"{certificate.names[claim.first]} and {certificate.names[claim.second]}"
        raise Refused(f"{names}: {error}") from error


def _pair(certificate: Certificate, claim: Claim, exactly: int) -> tuple[int, int, int]:
    """How many nodes the proof of a pair has, how many of them are bounded, how many were verified exactly."""
    pair, sample, nodes = certificate.pair(claim), Sample(exactly), 0
    pair.check_lower(claim.lower, claim.witnesses)
    with certificate.stream(claim) as file:
        try:
            for question in pair.questions(claim.upper, claim.choices):
                source = Stream(file, pair.bounder, len(question.goal.offsets))
                nodes += replay(question, source, sample)
            if file.read(1):
                raise Refused("there are more nodes than the proof needs")
        except (zlib.error, BadZipFile, EOFError) as error:
            raise Refused(f"the nodes cannot be read: {error}") from error
    return nodes, sample.seen, sample.verify()


def _selection(certificate: Certificate) -> str:
    if certificate.selection is None:
        return ""
    count = len(certificate.names)
    if len(certificate.claims) != count * (count - 1) // 2:
        missing = set(combinations(range(count), 2)) - {(c.first, c.second) for c in certificate.claims}
        first, second = (certificate.names[k] for k in min(missing))
        raise Refused(f"a selection needs the interval of every pair, and {first} and {second} have none")
    lower = [[Fraction(0)] * count for _ in range(count)]
    upper = [[Fraction(0)] * count for _ in range(count)]
    for claim in certificate.claims:
        for i, j in ((claim.first, claim.second), (claim.second, claim.first)):
            lower[i][j], upper[i][j] = max(Fraction(claim.lower), Fraction(0)), Fraction(claim.upper)
    return check_selection(certificate.selection, certificate.names, lower, upper)
