"""The kernels: as plain C++ where there is a compiler, on a GPU where there is one, against the engine and samples."""

from __future__ import annotations

import ctypes
import itertools
import math
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from random_networks import ALL, PIECEWISE_LINEAR, dense_network, feasible_values, points, random_network

from karenina import Engine, Goal, PairTask, disagreement_table, measure_here
from karenina.distance import L1
from karenina.domain import Box, Domain
from karenina.engine.asked import Asked, Pairs, near_pairs
from karenina.engine.compiled_search import ALIKE, CompiledSearch, near_copies
from karenina.engine.fused import FusedSearch, answer_together, fits
from karenina.engine.kernels import Shape
from karenina.network import RELU, Layer, Network
from karenina.query import Answer, Case, Query, Status

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to try the kernels with")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


class Host:
    """The kernels for a warp of one lane, as a shared library."""

    def __init__(self, shape: Shape, folder: Path) -> None:
        source, library = folder / "fused.cpp", folder / "fused.so"
        source.write_text(shape.source())
        command = ["g++", "-O1", "-DHOST", "-fPIC", "-shared", "-Wno-unknown-pragmas", "-o", str(library), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        self._library = ctypes.CDLL(str(library))

    def launch(self, name: str, world: torch.Tensor, *more: int | torch.Tensor) -> None:
        pointers = (world, *more)
        arguments = [
            ctypes.c_void_p(p.data_ptr()) if isinstance(p, torch.Tensor) else ctypes.c_int(p) for p in pointers
        ]
        getattr(self._library, name)(*arguments)


@pytest.fixture
def host(tmp_path: Path) -> Callable[..., list[Answer]]:
    """Answers by the kernels as C++."""

    def answers(queries: list[Query], goal: Goal, slots: int = 20_000, limit: float = 60.0) -> list[Answer]:
        shape = fits(queries[0], goal)
        assert shape is not None
        asked = Asked.of(queries, [goal] * len(queries), shape.constraints)
        search = FusedSearch(asked, shape, torch.device("cpu"), slots)
        search.run(Host(shape, tmp_path), time.perf_counter() + limit)
        return search.answers(1.0)

    return answers


def pairs_of(rng: np.random.Generator, networks: list[Network], constraints: int) -> list[Query]:
    """Both signs of every pair's difference on a box, under constraints that the middle satisfies."""
    size = networks[0].input_size
    centre, radius = rng.normal(size=size), rng.random(size) * 1.5
    domain, queries = Domain(Box(centre - radius, centre + radius)), []
    for pair in itertools.combinations(networks, 2):
        middle = np.concatenate([network(centre) for network in pair])
        rows = rng.normal(size=(constraints, len(middle)))
        outputs = pair[0].output_size
        objectives = [sign * np.concatenate([np.ones(outputs), -np.ones(outputs)]) for sign in (1.0, -1.0)]
        queries.append(
            Query.maximise(
                pair, domain, objectives, constraints=rows, constraint_offsets=rng.random(constraints) - rows @ middle
            )
        )
    return queries


def check(query: Query, found: Answer, rng: np.random.Generator, goal: Goal) -> None:
    """The answer against the CPU's, samples, and its own witness."""
    ours = Engine("cpu").answer(query, goal)
    assert max(found.lower, ours.lower) <= min(found.upper, ours.upper)
    assert found.status is ours.status
    for case in query.cases:
        assert feasible_values(query, case, points(case.box, rng, 2000)).max(initial=-math.inf) <= found.upper
    if found.witness is not None:
        assert found.case is not None
        case, outputs = query.cases[found.case], query.outputs(found.witness)
        assert case.value(outputs) >= found.lower
        assert (case.slack(outputs) >= 0).all()
        assert (case.box.lower <= found.witness).all()
        assert (found.witness <= case.box.upper).all()


@needs_compiler
@pytest.mark.parametrize(("sizes", "constraints"), [((2, 5, 1), 0), ((3, 6, 5, 2), 2), ((2, 4, 4, 4, 1), 1)])
def test_the_kernels_answer_as_the_engine_does(
    host: Callable[..., list[Answer]], sizes: tuple[int, ...], constraints: int
) -> None:
    rng, goal = np.random.default_rng(sum(sizes)), Goal(1e-4)
    queries = pairs_of(rng, [dense_network(rng, sizes) for _ in range(4)], constraints)
    for query, found in zip(queries, host(queries, goal), strict=True):
        assert found.status is Status.EXACT
        check(query, found, rng, goal)


@needs_compiler
@pytest.mark.parametrize("seed", range(6))
def test_the_kernels_know_all_activations(host: Callable[..., list[Answer]], seed: int) -> None:
    rng, goal = np.random.default_rng(seed), Goal(1e-2)
    network = random_network(rng, 2, 1, 2, ALL if seed % 2 else PIECEWISE_LINEAR)
    layers = [
        Layer(rng_like(layer.weight, rng), rng_like(layer.bias, rng), layer.activations) for layer in network.layers
    ]
    (query,) = pairs_of(rng, [network, Network(tuple(layers))], 0)
    (found,) = host([query], goal)
    check(query, found, rng, goal)


def rng_like(tensor: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    return torch.tensor(rng.normal(size=tuple(tensor.shape)) * 0.7)


@needs_compiler
def test_constraints_that_nothing_satisfies_are_told(host: Callable[..., list[Answer]]) -> None:
    rng = np.random.default_rng(0)
    (query,) = pairs_of(rng, [dense_network(rng, (2, 4, 1)) for _ in range(2)], 1)
    cases = [Case(c.box, c.objective, 0.0, c.constraints, c.constraint_offsets - 1e3) for c in query.cases]
    (found,) = host([Query(query.networks, tuple(cases))], Goal(1e-3))
    assert found.status is Status.INFEASIBLE
    assert found.witness is None


@needs_compiler
def test_without_room_the_interval_is_wide_and_true(host: Callable[..., list[Answer]]) -> None:
    rng, goal = np.random.default_rng(5), Goal(1e-6)
    queries = pairs_of(rng, [dense_network(rng, (4, 8, 8, 1)) for _ in range(2)], 0)
    (narrow,), (wide,) = host(queries, goal), host(queries, goal, slots=3)
    assert narrow.status is Status.EXACT
    assert wide.status is Status.TIME_LIMIT
    assert wide.lower <= narrow.upper <= wide.upper + 1e-6


@needs_compiler
def test_with_little_room_the_lowest_nodes_are_given_up(host: Callable[..., list[Answer]]) -> None:
    rng, goal = np.random.default_rng(5), Goal(1e-6)
    queries = pairs_of(rng, [dense_network(rng, (4, 8, 8, 1)) for _ in range(3)], 0)
    exact, widths = host(queries, goal), []
    for slots in (12, 48):
        found = host(queries, goal, slots=slots)
        for each, true in zip(found, exact, strict=True):
            assert true.status is Status.EXACT
            assert each.lower <= true.upper
            assert true.lower <= each.upper
            assert each.status is (Status.EXACT if each.upper - each.lower <= 1e-6 else Status.TIME_LIMIT)
        widths.append(sum(each.upper - each.lower for each in found))
    assert widths[1] < widths[0]
    assert widths[0] > 1e-5  # something was given up


@needs_compiler
def test_the_nodes_with_most_to_lose_come_first(
    host: Callable[..., list[Answer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, goal = np.random.default_rng(5), Goal(1e-6)
    queries = pairs_of(rng, [dense_network(rng, (4, 8, 8, 1)) for _ in range(3)], 0)
    depth_first = host(queries, goal)  # all of a generation at once: nothing is left to choose from
    monkeypatch.setattr("karenina.engine.fused.MOST_AT_ONCE", 4)
    true, seen = FusedSearch._highest_on_top, []

    def watched(search: FusedSearch, still_open: int) -> None:
        before = sorted(search._stack[:still_open].tolist())
        true(search, still_open)
        assert sorted(search._stack[:still_open].tolist()) == before
        nodes = search._stack[:still_open].long()
        query = search._query[search._case[nodes].long()].long()
        seen.append((search._bound[nodes] - search.best[query]).diff())

    monkeypatch.setattr(FusedSearch, "_highest_on_top", watched)
    for query, found, other in zip(queries, host(queries, goal), depth_first, strict=True):
        check(query, found, rng, goal)
        assert found.status is other.status is Status.EXACT
    assert len(seen) > 1
    assert all((each >= 0).all() for each in seen)


@needs_compiler
def test_overflow_proves_nothing(host: Callable[..., list[Answer]]) -> None:
    up, down = Layer.of([[1e150], [-1e150]], [0.0, 0.0], RELU), Layer.of([[1e150, -1e150]], [0.0])
    query = Query.maximise(
        (Network((up, down)), Network((Layer.of([[1.0], [2.0]], [0.0, 0.0], RELU), Layer.of([[1.0, 1.0]], [0.0])))),
        Domain(Box([-1.0], [1.0])),
        [np.array([1.0, -1.0])],
    )
    (found,) = host([query], Goal(1e-3))
    assert found.upper >= 1e299


@pytest.fixture
def gpu_of_one_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that believes the compiled C++ to be a GPU."""
    made: dict[Shape, Host] = {}

    def kernels(shape: Shape, _: torch.device) -> Host:
        return made.setdefault(shape, Host(shape, tmp_path))

    for module in ("fused", "engine"):
        monkeypatch.setattr(f"karenina.engine.{module}.gpu_kernels", kernels)
    monkeypatch.setattr("karenina.engine.fused._slots", lambda shape, cases: 20_000)  # noqa: ARG005
    monkeypatch.setattr(Engine, "answers_all", property(lambda engine: engine is here))
    here = Engine("cpu")
    return here


@needs_compiler
@pytest.mark.parametrize("distance", ["l1", "linf"])
def test_many_pairs_are_answered_as_one_by_one(
    gpu_of_one_lane: Engine, monkeypatch: pytest.MonkeyPatch, distance: str
) -> None:
    rng, goal = np.random.default_rng(7), Goal(1e-3)
    networks = [dense_network(rng, (2, 4, 2)).named(f"n{k}") for k in range(5)]
    networks.append(slightly_other(networks[0], rng).named("copy"))  # for the CPU
    networks.append(Network(networks[1].layers, "same"))
    domain = Domain([Box([-1.0, -1.0], [1.0, 1.0]), Box([2.0, 2.0], [3.0, 4.0])])
    tasks = [PairTask(i, j, goal) for i, j in itertools.combinations((0, 1, 2, 4, 5, 6), 2)]
    one_by_one = dict(measure_here(networks, domain, distance, gpu_of_one_lane)(tasks))
    asked = count_calls(monkeypatch, Asked, "of_pairs")
    monkeypatch.setattr("karenina.disagreement.measure.MANY", 1)
    together = dict(measure_here(networks, domain, distance, gpu_of_one_lane)(tasks))
    assert asked == [len(tasks)]
    assert list(together) == list(one_by_one) == tasks
    for task, found in together.items():
        alone = one_by_one[task]
        assert (found.lower, found.upper, found.status) == (alone.lower, alone.upper, alone.status)
        assert found.witness is not None
        assert found.outputs is not None
        np.testing.assert_array_equal(found.witness, alone.witness)
        pair = networks[task.first], networks[task.second]
        for network, output in zip(pair, found.outputs, strict=True):
            np.testing.assert_allclose(output, network(found.witness), rtol=1e-12)


def slightly_other(network: Network, rng: np.random.Generator) -> Network:
    noise = [torch.tensor(rng.normal(size=tuple(layer.weight.shape))) * 0.01 for layer in network.layers]
    pairs = zip(network.layers, noise, strict=True)
    return Network(tuple(Layer(layer.weight + n, layer.bias, layer.activations) for layer, n in pairs))


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[int]:
    """The lengths of what the class method is given, call by call."""
    seen: list[int] = []
    true = getattr(owner, name)

    def counted(given: Pairs) -> object:
        seen.append(len(given))
        return true(given)

    monkeypatch.setattr(owner, name, counted)
    return seen


@needs_compiler
def test_near_copies_get_no_time_beyond_the_limit(gpu_of_one_lane: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    first = dense_network(rng, (2, 4, 2))
    networks = [first, slightly_other(first, rng), dense_network(rng, (2, 4, 2))]
    domain, places = Domain(Box([-1.0, -1.0], [1.0, 1.0])), np.array([[0, 1], [0, 2]])
    (query,), *_ = L1().queries(networks[0], networks[1], domain)
    asked = Pairs(networks, places, [Goal(1e-3)] * 2, query.cases, query.floor)
    exact = gpu_of_one_lane.answer_pairs(asked)
    monkeypatch.setattr(CompiledSearch, "run", None)  # whoever asks the CPU fails
    copies, _ = gpu_of_one_lane.answer_pairs(replace(asked, goals=[Goal(1e-3, time_limit=0.0)] * 2))
    assert copies.status is Status.TIME_LIMIT
    assert copies.lower <= exact[0].upper
    assert copies.upper >= exact[0].lower
    assert copies.upper - copies.lower > 1e-3


@needs_compiler
def test_pairs_are_searched_in_parts_where_memory_is_short(
    gpu_of_one_lane: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(8)
    networks = [dense_network(rng, (2, 4, 1)) for _ in range(5)]
    domain, goals = Domain(Box([-1.0, -1.0], [1.0, 1.0])), [Goal(1e-2)] * 10
    (query,), *_ = L1().queries(networks[0], networks[1], domain)
    places = np.array(list(itertools.combinations(range(5), 2)))
    pairs = Pairs(networks, places, goals, query.cases, query.floor)
    whole = gpu_of_one_lane.answer_pairs(pairs)
    asked = count_calls(monkeypatch, Asked, "of_pairs")
    monkeypatch.setattr("karenina.engine.fused._slots", lambda shape, cases: 4000 if cases <= 6 else 2 * cases - 1)  # noqa: ARG005
    parts = gpu_of_one_lane.answer_pairs(pairs)
    assert max(asked) == 3
    assert sum(asked) == 10
    assert [(a.lower, a.upper) for a in whole] == [(a.lower, a.upper) for a in parts]


def test_near_pairs_are_the_near_copies() -> None:
    rng = np.random.default_rng(9)
    networks = [dense_network(rng, (3, 6, 2)) for _ in range(4)]
    networks += [slightly_other(network, rng) for network in networks]
    places = np.array(list(itertools.combinations(range(8), 2)))
    near = near_pairs(networks, places, ALIKE)
    for (i, j), alike in zip(places, near, strict=True):
        query = Query.maximise((networks[i], networks[j]), Domain(Box([0.0] * 3, [1.0] * 3)), [np.ones(4)])
        assert alike == near_copies(query)
    assert 4 <= near.sum() < len(near)


def test_questions_that_do_not_fit_are_asked_alone() -> None:
    rng = np.random.default_rng(1)
    small, large = dense_network(rng, (2, 3, 1)), dense_network(rng, (2, 4, 1))
    query = Query.maximise((small, large), Domain(Box([0.0, 0.0], [1.0, 1.0])), [np.array([1.0, -1.0])])
    assert fits(query, Goal()) is None
    assert fits(query, Goal(threshold=0.0)) is None
    asked: list[Query] = []

    def alone(question: Query, goal: Goal) -> Answer:
        asked.append(question)
        return Engine("cpu").answer(question, goal)

    (answer,) = answer_together([(query, Goal())], torch.device("cpu"), alone)
    assert asked == [query]
    assert answer.status is Status.EXACT


@needs_gpu
@pytest.mark.parametrize("distance", ["l1", "c-distance"])
def test_a_table_on_the_gpu_is_the_cpus(distance: str) -> None:
    rng = np.random.default_rng(2)
    networks = [dense_network(rng, (4, 16, 8, 1)).named(f"n{k}") for k in range(6)]
    domain = Domain([Box([-1.0] * 4, [1.0] * 4), Box([2.0] * 4, [3.0] * 4)])
    tables = [
        disagreement_table(networks, domain, distance, goal=Goal(1e-4), backend=Engine(device))
        for device in ("cuda", "cuda", "cpu")
    ]
    for i, j in itertools.combinations(range(6), 2):
        first, again, theirs = (table.disagreement(i, j) for table in tables)
        assert (first.lower, first.upper) == (again.lower, again.upper)  # nothing depends on the order of threads
        assert max(first.lower, theirs.lower) <= min(first.upper, theirs.upper)
        assert first.status is theirs.status


@needs_gpu
def test_many_pairs_on_the_gpu_are_answered_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    networks = [dense_network(rng, (4, 16, 8, 1)).named(f"n{k}") for k in range(8)]
    domain, goal = Domain([Box([-1.0] * 4, [1.0] * 4), Box([2.0] * 4, [3.0] * 4)]), Goal(1e-4)
    few = disagreement_table(networks, domain, goal=goal, backend=Engine("cuda"))
    asked = count_calls(monkeypatch, Asked, "of_pairs")
    monkeypatch.setattr("karenina.disagreement.measure.MANY", 1)
    many = disagreement_table(networks, domain, goal=goal, backend=Engine("cuda"))
    assert sum(asked) == 28
    np.testing.assert_array_equal(many.lower, few.lower)
    np.testing.assert_array_equal(many.upper, few.upper)


@needs_gpu
def test_more_cases_than_fit_on_the_gpu_are_split_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    queries = pairs_of(rng, [dense_network(rng, (2, 4, 1)) for _ in range(4)], 0)
    monkeypatch.setattr("karenina.engine.fused._slots", lambda *_: 8)
    engine = Engine("cuda")
    for query, found in zip(queries, engine.answer_all([(query, Goal(1e-2)) for query in queries]), strict=True):
        check(query, found, rng, Goal(1e-2))
