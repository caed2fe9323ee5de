"""What mutants of the engine had shown to be untested: splits by inputs alone, prices' rounding, compiled clipping."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from random_networks import dense_network, sampled_maximum

from karenina.domain import Box
from karenina.engine import Engine, Settings
from karenina.engine.branching import split
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes
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


def test_what_clipping_cut_off_counts_towards_the_upper_end() -> None:
    """Coarse goals and few starts: the maximum lies above the best value that was found, in what was cut off."""
    settings = Settings(threads=1, starts=1, ascent=0, steps=1, programmes=0)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        network = dense_network(rng, (2, 12, 12, 1))
        query = Query((network,), (Case(Box([-1.0, -1.0], [1.0, 1.0]), np.ones(1)),))
        answer = Engine("cpu", settings).answer(query, Goal(1.0))
        assert sampled_maximum(query, rng, 4000) <= answer.upper
