"""What mutants of the engine had shown to be untested: splits by inputs alone, and the rounding of neurons' prices."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from karenina.domain import Box
from karenina.engine.branching import split
from karenina.engine.joint import Joint
from karenina.engine.nodes import Nodes
from karenina.network import RELU, Layer, Network
from karenina.query import Case, Query


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
