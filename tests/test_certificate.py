"""Certificates of random pairs: the checker accepts them, and what they claim is what sampling and the engine find."""

from __future__ import annotations

import io
import itertools
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from certificates import MAKERS, made, roughly
from near_copies import near_copy
from random_networks import dense_network, random_box, random_network

from karenina.certificate import NotProven, Source, Subject, chain_of, write_certificate
from karenina.certificate.growth import network_of
from karenina.certificate.proof import Proof, checked_distance, prove
from karenina.checker import Refused, check
from karenina.checker.pairs import Pair
from karenina.checker.reading import Stream
from karenina.checker.tree import Sample, replay
from karenina.disagreement import Disagreement, pairwise_disagreement_threshold
from karenina.distance import Distance, distance
from karenina.domain import Box, Domain
from karenina.errors import WorkStopped
from karenina.network import RELU, Activation, Layer, Network
from karenina.query import Goal

pytest.importorskip("numba")
Array = npt.NDArray[Any]
CONDITIONS = ("y0 >= 0", "y0 <= 0.1")
DISTANCES = ("l1", "linf", "class", "c-distance")


def found(first: Network, second: Network, domain: Domain, metric: Distance, tolerance: float = 0.05) -> Disagreement:
    return pairwise_disagreement_threshold(
        first, second, domain, metric, goal=Goal(tolerance=tolerance, time_limit=20.0)
    )


def accepted(first: Network, second: Network, domain: Domain, metric: Distance, proof: Proof) -> int:
    """The nodes of a proof, all of which the checker accepts; all in exact arithmetic where they are few."""
    boxes = [(box.lower, box.upper) for box in domain.boxes]
    pair = Pair(chain_of(first), chain_of(second), boxes, checked_distance(metric, first.output_size))
    pair.check_lower(proof.lower, proof.witnesses)
    file, sample, nodes = io.BytesIO(proof.nodes), Sample(10), 0
    for question in pair.questions(proof.upper, proof.choices):
        nodes += replay(question, Stream(file, pair.bounder, len(question.goal.offsets)), sample)
    assert not file.read(1)
    sample.verify()
    return nodes


def largest_sampled(first: Network, second: Network, domain: Domain, name: str, rng: np.random.Generator) -> float:
    """By the definition of each distance, at many inputs; numpy alone."""
    best = 0.0
    for box in domain.boxes:
        corners = np.array(list(itertools.product(*zip(box.lower, box.upper, strict=True))))
        inner = box.lower + rng.random((3000, box.size)) * (box.upper - box.lower)
        a, b = (roughly(chain_of(each), np.concatenate([corners, inner])) for each in (first, second))
        gaps = np.abs(a - b)
        if name == "class":
            at, i, j = np.arange(len(a)), a.argmax(1), b.argmax(1)
            best = max(best, float((a[at, i] - a[at, j] + b[at, j] - b[at, i]).max()))
        elif name == "c-distance":
            upper = [(a[:, 0] >= 0) & (b[:, 0] >= 0), (a[:, 0] <= 0.1) & (b[:, 0] <= 0.1)]
            best = max(best, min(float(gaps.sum(1)[holds].max(initial=0.0)) for holds in upper))
        else:
            best = max(best, float((gaps.max(1) if name == "linf" else gaps.sum(1)).max()))
    return best


def prove_and_check(
    first: Network, second: Network, domain: Domain, name: str, seed: int = 0, tolerance: float = 0.05
) -> Proof:
    metric = distance(name, CONDITIONS if name == "c-distance" else ())
    told = found(first, second, domain, metric, tolerance)
    proof = prove(first, second, domain, metric, told.lower, told.upper, told.witness, seconds=30)
    assert accepted(first, second, domain, metric, proof) == proof.count
    assert proof.lower <= told.lower
    assert told.upper <= proof.upper <= told.upper + 1e-5 * max(1.0, told.upper), "no wider than rounding makes it"
    sampled = largest_sampled(first, second, domain, name, np.random.default_rng(seed))
    assert sampled <= proof.upper + 1e-9 * max(1.0, sampled)
    return proof


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("seed", range(5))
def test_random_pairs_are_proven(name: str, seed: int) -> None:
    rng = np.random.default_rng([seed, DISTANCES.index(name)])
    inputs, outputs = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    first, second = (random_network(rng, inputs, outputs, int(rng.integers(1, 3)), widest=5) for _ in range(2))
    boxes = [random_box(rng, inputs) for _ in range(int(rng.integers(1, 3)))]
    prove_and_check(first, second, Domain(boxes), name, seed)


SMALL = Domain(Box([-1.0, -1.0], [1.0, 1.0]))


def dense(seed: int, sizes: Sequence[int], activation: Activation = RELU) -> Network:
    return dense_network(np.random.default_rng(seed), sizes, activation)


@pytest.mark.parametrize("name", DISTANCES)
def test_a_network_and_its_copy_are_proven_equal(name: str) -> None:
    network = dense(1, (2, 4, 2))
    metric = distance(name, CONDITIONS if name == "c-distance" else ())
    told = found(network, network, SMALL, metric)
    assert told.lower == 0.0
    try:
        proof = prove(network, network, SMALL, metric, told.lower, told.upper, told.witness, seconds=20)
    except NotProven:
        pytest.skip("no proof was found in the time given")
    assert accepted(network, network, SMALL, metric, proof) == proof.count
    assert proof.upper < 0.06


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "softplus", "abs"])
def test_networks_of_unequal_depth_and_every_shape_of_activation(activation: str) -> None:
    kind = Activation(activation)
    prove_and_check(dense(2, (2, 4, 2), kind), dense(3, (2, 3, 3, 2), kind), SMALL, "l1")


@pytest.mark.parametrize("name", ["l1", "c-distance"])
def test_sums_of_many_outputs(name: str) -> None:
    prove_and_check(dense(4, (2, 4, 5)), dense(5, (2, 4, 5)), SMALL, name)


def test_sides_of_zero_width() -> None:
    flat = Domain((Box([-1.0, 0.25], [1.0, 0.25]), Box([0.5, 0.5], [0.5, 0.5])))
    for name in DISTANCES:
        prove_and_check(dense(6, (2, 5, 2)), dense(7, (2, 5, 2)), flat, name)


def test_affine_networks() -> None:
    first, second = (Network((Layer.of(np.array([[a, 1.0]]), np.array([b])),)) for a, b in ((1.0, 0.0), (-1.0, 0.5)))
    proof = prove_and_check(first, second, SMALL, "l1", tolerance=1e-6)
    assert proof.lower == pytest.approx(2.5, abs=1e-5)
    assert proof.upper == pytest.approx(2.5, abs=1e-5)


@pytest.mark.parametrize("upper", [math.inf, math.nan])
def test_without_an_upper_end_nothing_is_proven(upper: float) -> None:
    with pytest.raises(NotProven, match="upper end"):
        prove(dense(1, (2, 3, 1)), dense(2, (2, 3, 1)), SMALL, distance("l1"), 0.0, upper, None, seconds=5)


def test_what_is_not_true_is_not_proven() -> None:
    """An interval that a bug would have made: too low, or not attained."""
    first, second, metric = dense(8, (2, 4, 1)), dense(9, (2, 4, 1)), distance("l1")
    told = found(first, second, SMALL, metric)
    with pytest.raises(NotProven, match="lower end"):
        prove(first, second, SMALL, metric, told.upper + 0.1, told.upper + 0.2, told.witness, seconds=5)
    with pytest.raises(NotProven, match="lower end"):
        prove(first, second, SMALL, metric, told.lower, told.upper, None, seconds=5)
    with pytest.raises(NotProven):
        prove(first, second, SMALL, metric, 0.0, told.lower / 2, None, seconds=2)
    with pytest.raises(NotProven, match="not in the domain"):
        prove(first, second, SMALL, metric, told.lower, told.upper, [7.0, 7.0], seconds=5)


@pytest.mark.parametrize("kind", ["rounded", "by a billionth", "one neuron other"])
def test_near_copies_are_proven_or_said_not_to_be(kind: str) -> None:
    """Where hardly a difference is left, a proof may be long: then there is none, but never a wrong one."""
    rng = np.random.default_rng(3)
    network = dense_network(rng, (2, 4, 4, 1))
    near = near_copy(rng, network, kind)
    told = found(network, near, SMALL, distance("l1"), 1e-3)
    try:
        proof = prove(network, near, SMALL, distance("l1"), told.lower, told.upper, told.witness, seconds=3)
    except NotProven:
        return
    assert accepted(network, near, SMALL, distance("l1"), proof) == proof.count


def test_a_network_goes_to_the_checker_and_back() -> None:
    for seed in range(10):
        network = random_network(np.random.default_rng(seed), 2, 2, 2)
        assert network_of(chain_of(network)).digest() == network.digest()


@pytest.mark.parametrize(("which", "jobs"), [*((which, 1) for which in MAKERS), ("selection", 2)])
def test_a_file_is_accepted_and_says_what_it_proves(which: str, jobs: int, tmp_path: Path) -> None:
    path = tmp_path / "certificate.zip"
    path.write_bytes(made(which).data)
    done: list[tuple[int, int]] = []
    proved = check(path, jobs=jobs, exactly=5, on_pair=lambda *so_far: done.append(so_far))
    count = len(proved.certificate.claims)
    assert done == [(k, count) for k in range(1, count + 1)]
    assert proved.nodes > 0
    assert f"{proved.nodes} nodes" in str(proved)
    assert ("Alg. 2" in str(proved)) == (which == "selection")
    for claim in proved.certificate.claims:
        lower, upper = made(which).intervals[claim.first, claim.second]
        assert claim.lower <= upper
        assert lower <= claim.upper


def subject_in(folder: Path) -> tuple[Subject, dict[tuple[int, int], Disagreement]]:
    first, second = dense(1, (2, 3, 1)), dense(2, (2, 3, 1))
    (folder / "model").write_bytes(b"no model")
    metric = distance("l1")
    return Subject([first, second], [Source(folder / "model")] * 2, SMALL, metric), {
        (0, 1): found(first, second, SMALL, metric)
    }


def test_a_certificate_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    subject, pairs = subject_in(tmp_path)
    path = tmp_path / "certificate.zip"
    path.write_bytes(b"what was there before")

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_certificate(path, subject, pairs, on_pair=broken)
    assert path.read_bytes() == b"what was there before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["certificate.zip", "model"]
    write_certificate(path, subject, pairs)
    check(path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    subject, pairs = subject_in(tmp_path)
    with pytest.raises(WorkStopped, match="cannot be written"):
        write_certificate(tmp_path / "no such folder" / "certificate.zip", subject, pairs)
    (tmp_path / "folder").mkdir()
    with pytest.raises(WorkStopped, match="cannot be written"):
        write_certificate(tmp_path / "folder", subject, pairs)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "model"]


def test_the_same_proof_gives_the_same_members(tmp_path: Path) -> None:
    subject, pairs = subject_in(tmp_path)
    contents = []
    for name in ("a.zip", "b.zip"):
        write_certificate(tmp_path / name, subject, pairs)
        with zipfile.ZipFile(tmp_path / name) as archive:
            contents.append({member: archive.read(member) for member in archive.namelist()})
    assert contents[0] == contents[1]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        check(tmp_path / "nothing.zip")
