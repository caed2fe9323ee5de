"""What mutants of the engine had shown to be untested: splits by inputs alone, prices' rounding, compiled clipping,
boxes that are shared out.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from random_networks import dense_network

from karenina.domain import Box
from karenina.engine import Settings
from karenina.engine.branching import split
from karenina.engine.cases import Cases
from karenina.engine.compiled_search import CompiledSearch
from karenina.engine.heaps import shared_out, size_of, with_room
from karenina.engine.incumbent import Incumbent
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes
from karenina.engine.packed import Heap
from karenina.engine.search import Search
from karenina.engine.tighten import Bounder
from karenina.network import RELU, Layer, Network
from karenina.query import Case, Goal, Query


@pytest.mark.parametrize("axis", [0, 1])
def test_both_halves_of_boxes_that_inputs_split_are_kept(axis: int) -> None:
    """In torch, where no node of the batch is split by a neuron."""
    network = Network((Layer.of(np.ones((3, 2)), np.zeros(3), RELU), Layer.of(np.ones((1, 3)), np.zeros(1))))
    lower, upper = torch.zeros(4, 2, dtype=torch.float64), torch.ones(4, 2, dtype=torch.float64)
    nodes = Nodes.roots(lower, upper, 0, 3).with_(split=torch.full((4,), axis))
    children = split(Joint.of((network,), torch.device("cpu")), nodes)
    assert len(children) == 8
    ends = {
        (child[0][axis].item(), child[1][axis].item()) for child in zip(children.lower, children.upper, strict=True)
    }
    assert ends == {(0.0, 0.5), (0.5, 1.0)}


def test_prices_of_neurons_allow_for_their_rounding() -> None:
    """At an input whose neuron is on its kink but for a last digit, a high price must not push the bound below."""
    pytest.importorskip("numba")
    from packed_boxes import node_on, pack, root_of

    from karenina.engine.dive import RIGHT, certify
    from karenina.engine.packed import Prices

    tried = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        weight, x = rng.normal(size=3), rng.normal(size=3)
        product = sum((Fraction(a) * Fraction(b) for a, b in zip(weight, x, strict=True)), Fraction(0))
        bias = float(np.nextafter(float(-product), np.inf))
        network = Network((Layer.of([weight], [bias], RELU), Layer.of([[1.0]], [0.0])))
        packed = pack(Query((network,), (Case(Box(x, x), np.ones(1)),)))
        node = node_on(packed, root_of(packed))
        tried += int(node.splittable[0])
        dual = Prices(np.full(1, np.nan), np.zeros(1), np.array([1e9]), np.zeros(1), np.zeros(0))
        assert not node.splittable[0] or product + Fraction(bias) <= certify(packed.net, node, np.array([RIGHT]), dual)
    assert tried > 10


def test_compiled_clipping_cuts_off_only_what_cannot_exceed_the_target() -> None:
    """The linear bound is slope @ x + constant: what is cut off lies below the target, and little else is kept."""
    pytest.importorskip("numba")
    from packed_boxes import pack, root_of

    from karenina.engine.explore import clip
    from karenina.engine.tighten_box import new_steps

    for seed in range(40):
        rng = np.random.default_rng(seed)
        lower = rng.normal(size=2)
        upper = lower + rng.random(2)
        network = Network((Layer.of(rng.normal(size=(3, 2)), np.zeros(3), RELU), Layer.of(np.ones((1, 3)), [0.0])))
        packed = pack(Query((network,), (Case(Box(lower, upper), np.ones(1)),)))
        room, steps = root_of(packed), new_steps(packed.net, packed.ask)
        slope = rng.normal(size=2) * rng.choice([1e-300, 1e-6, 1.0], size=2)
        steps.best_total[:] = slope
        bound = float(np.abs(slope).sum())
        target = bound - float(rng.random()) * float((np.abs(slope) * (upper - lower)).max())
        clip(room, steps, bound, target)
        x = rng.uniform(lower, upper, (2000, 2))
        value = bound - np.abs(slope * (x - np.where(slope > 0, upper, lower))).sum(1)
        outside = ((x < room.lower) | (x > room.upper)).any(1)
        assert (value[outside] <= target).all()


@pytest.mark.parametrize("abreast", [False, True])
def test_what_clipping_cut_off_is_not_forgotten(abreast: bool) -> None:
    """After the first box: outside what is kept of it, nothing attains more than the best value or what was closed."""
    pytest.importorskip("numba")
    cpu, above, goal = torch.device("cpu"), 0, Goal(1.0)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        network = dense_network(rng, (2, 6, 1))
        query = Query((network,), (Case(Box([-1.0, -1.0], [1.0, 1.0]), np.ones(1)),))
        joint = Joint.of(query.networks, cpu)
        cases, rounding = Cases.of(query, joint, cpu)
        search = CompiledSearch(
            Bounder(joint, cases, rounding),
            Incumbent(query, joint, cases),
            goal,
            Settings(programmes=0, abreast=abreast),
        )
        search._plant_once()
        (heap,) = search._heaps
        if not heap.filled[0]:
            continue
        slot, x = heap.order[0], rng.uniform(-1, 1, (2000, 2))
        values = query.outputs(x)[((x < heap.lower[slot]) | (x > heap.upper[slot])).any(1), 0]
        above += int((values > search.incumbent.value).any())
        assert (values <= max(search.incumbent.value, search.closed)).all()
    assert above > 0  # else the test could not fail


@pytest.mark.parametrize(
    ("more", "most", "slots"), [(1, 0, 12), (2, 0, 24), (2, 20, 24), (2, 500, 500), (2, 10**6, 768)]
)
def test_a_heap_grows_where_there_is_no_room(more: int, most: int, slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, or by much at once; all that it holds is where it was."""
    monkeypatch.setattr("karenina.engine.heaps.LARGE", 0)
    rng, full = np.random.default_rng(0), 11
    fields: Any = [rng.random((12, 3)) if name in Heap._fields[6:] else rng.random(12) for name in Heap._fields[2:]]
    heap = Heap(np.array([full]), rng.permutation(12), *fields)
    grown = with_room(heap, more, most)
    assert len(grown.order) == slots
    assert sorted(grown.order.tolist()) == list(range(slots))
    assert np.array_equal(grown.order[:12], heap.order)
    for before, after in zip(heap[2:], grown[2:], strict=True):
        assert after.shape == (slots, *before.shape[1:])
        assert np.array_equal(after[:12], before)
    assert size_of(grown) > 0
    assert size_of(grown._replace(filled=np.array([0]))) == 0


def test_sharing_out_loses_no_box() -> None:
    rng, names = np.random.default_rng(0), ("bound", "case", "axis", "near", "lower", "upper", "low", "high", "slopes")
    for count in (1, 3, 4, 9):
        shapes = [(), (), (), (), (2,), (2,), (3,), (3,), (3,), (1,)]
        fields = [rng.random((count, *shape)) for shape in shapes]
        heap = Heap(np.array([count]), rng.permutation(count), *fields)  # type: ignore[arg-type]
        parts = shared_out([heap], 4)
        found = np.concatenate([part.bound[part.order[: part.filled[0]]] for part in parts])
        assert sorted(found) == sorted(fields[0])
        for part in parts:
            for slot in part.order[: part.filled[0]]:
                place = int(np.flatnonzero(fields[0] == part.bound[slot])[0])
                for name, field in zip(names, fields, strict=False):
                    assert np.array_equal(getattr(part, name)[slot], field[place])


def test_boxes_that_cannot_shrink_leave_their_bound_behind() -> None:
    """In torch: what float64 has to give is part of `upper`."""
    network = Network((Layer.of([[1.0]], [0.0], RELU), Layer.of([[1.0]], [0.0])))
    query, cpu = Query((network,), (Case(Box([1.0], [1.0]), np.ones(1)),)), torch.device("cpu")
    joint = Joint.of(query.networks, cpu)
    cases, rounding = Cases.of(query, joint, cpu)
    search = Search(Bounder(joint, cases, rounding), Incumbent(query, joint, cases), Goal(), Settings())
    stuck = Nodes.roots(cases.lower, cases.upper, 0, 1).with_(bound=torch.tensor([5.0], dtype=torch.float64))
    assert not len(search._splittable(stuck))
    assert search.closed == 5.0
