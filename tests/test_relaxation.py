"""Relaxations: on every interval, at every slope of their range, both lines enclose the activation.

The oracle computes in extended precision, so that all the tolerance there is goes to the lines' own rounding.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_networks import ALL

from karenina.engine.relaxation import Lines, Side, relax
from karenina.engine.rounding import LINE, UNIT
from karenina.network import Activation, Layer

Long = npt.NDArray[np.longdouble]

ACTIVATIONS = (
    *ALL,
    Activation("leaky_relu", (0.0,)),
    Activation("leaky_relu", (1.0,)),
    Activation("leaky_relu", (-1e3,)),
    Activation("clip", (0.0, 6.0)),
    Activation("clip", (-7.0, -2.0)),
    Activation("clip", (1.0, 1.0 + 2**-52)),
    Activation("elu", (1e-3,)),
    Activation("elu", (50.0,)),
)
SPECIAL = (0.0, -1.0, 0.5, 1.0, 6.0, -7.0, -2.0, 1e-300, -1e-300, 5e-324, 1e-9, -1e-9, 20.0, -20.0, 1e18, -1e18)
ends = st.one_of(st.sampled_from(SPECIAL), st.floats(-10, 10), st.floats(-1e3, 1e3), st.floats(-1e300, 1e300))
widths = st.one_of(st.sampled_from((0.0, 5e-324, 1e-310, 1e-16, 1e-12, 9e-7, 1e-6, 1.1e-6)), st.floats(0, 1e-3))
intervals = st.one_of(
    st.tuples(ends, ends).map(lambda pair: (min(pair), max(pair))),
    st.tuples(ends, widths).map(lambda pair: (pair[0], pair[0] + pair[1])),
    st.tuples(ends, widths).map(lambda pair: (pair[0] - pair[1], pair[0])),
)


def exactly(activation: Activation, z: Long) -> Long:
    """The activation in extended precision, written independently of the network's."""
    value: Long = z
    match activation.name:
        case "relu":
            value = np.where(z > 0, z, 0 * z)
        case "leaky_relu":
            value = np.where(z < 0, np.longdouble(activation.parameters[0]) * z, z)
        case "abs":
            value = np.where(z < 0, -z, z)
        case "clip":
            low, high = (np.longdouble(p) for p in activation.parameters)
            value = np.where(z < low, low, np.where(z > high, high, z))
        case "elu":
            value = np.where(z < 0, np.longdouble(activation.parameters[0]) * np.expm1(np.where(z < 0, z, 0 * z)), z)
        case "tanh":
            value = np.tanh(z)
        case "sigmoid":
            value = (1 + np.tanh(z / 2)) / 2
        case "softplus":
            value = np.where(z > 0, z, 0 * z) + np.log1p(np.exp(-np.abs(z)))
    return value


def inside(lo: float, hi: float, kinks: tuple[float, ...]) -> Long:
    """Points of [lo, hi]: evenly spread, dense towards both ends and 0, and the kinks."""
    a, b = np.longdouble(lo), np.longdouble(hi)
    part = np.linspace(0, 1, 401).astype(np.longdouble)
    decades = np.logspace(-20, 0, 101).astype(np.longdouble)
    moderate = np.concatenate([np.linspace(-60, 60, 1201), np.logspace(-12, 2, 141), -np.logspace(-12, 2, 141)])
    spread = [a + part * (b - a), a + decades * (b - a), b - decades * (b - a)]
    everything = np.concatenate([*spread, moderate.astype(np.longdouble), np.array(kinks, dtype=np.longdouble)])
    clipped: Long = np.minimum(np.maximum(everything, a), b)
    return clipped


def allowed(activation: Activation, lo: float, hi: float) -> float:
    """The error that `rounding` adds for a relaxation's lines, without its factor of safety."""
    reach = max(abs(lo), abs(hi))
    at_zero = float(exactly(activation, np.zeros(1, dtype=np.longdouble))[0])
    points = max(map(abs, activation.parameters)) if activation.name == "clip" else 0.0
    return LINE * UNIT * (2 * activation.lipschitz * reach + abs(at_zero) + points) + 1e-290


def lines_of(activation: Activation, lo: float, hi: float) -> Lines:
    return relax(Layer.of([[1.0]], [0.0], activation), *(torch.tensor([v], dtype=torch.float64) for v in (lo, hi)))


def line(side: Side, share: float, z: Long) -> Long:
    """The side's line at z, its slope at that share of its range."""
    low, high, point, value = (np.longdouble(t.item()) for t in side)
    slope = low + np.longdouble(share) * (high - low)
    result: Long = value + slope * (z - point)
    return result


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@given(intervals)
@settings(max_examples=60, deadline=None)
@example((-1.0, 1.0))
@example((0.0, 0.0))
@example((-1e18, 1e18))
@example((-5e-324, 5e-324))
@example((-1e-7, 1e-7))
@example((0.0, 1e300))
@example((-1e300, 0.0))
@example((-1e300, 1e300))
@example((18.0, 40.0))
@example((-800.0, 1.0))
def test_both_lines_enclose_the_activation(activation: Activation, interval: tuple[float, float]) -> None:
    lo, hi = interval
    z = inside(lo, hi, activation.kinks)
    lines, true, slack = lines_of(activation, lo, hi), exactly(activation, z), allowed(activation, lo, hi)
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        assert (line(lines.upper, share, z) - true).min() >= -slack
        assert (true - line(lines.lower, share, z)).min() >= -slack


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@given(intervals)
@settings(max_examples=40, deadline=None)
def test_slopes_lie_between_the_activations_own(activation: Activation, interval: tuple[float, float]) -> None:
    low, high = activation.slopes
    rounding = 8 * UNIT * max(1.0, activation.lipschitz)
    for side in lines_of(activation, *interval)[:2]:
        assert side.low.item() >= low - rounding
        assert side.high.item() <= high + rounding
        assert side.low.item() <= side.high.item()


@given(st.floats(-5, 5), st.floats(0, 5))
@settings(max_examples=100, deadline=None)
def test_lines_at_the_starting_slope_are_lines_of_the_range(lo: float, width: float) -> None:
    for activation in ACTIVATIONS:
        lines = lines_of(activation, lo, lo + width)
        for side in lines[:2]:
            slope, intercept = lines.fixed(side)
            assert side.low <= slope <= side.high
            assert intercept.item() == (side.value - slope * side.point).item()


@pytest.mark.parametrize("activation", [a for a in ACTIVATIONS if a.piecewise_linear], ids=str)
def test_a_piecewise_linear_activation_away_from_its_kinks_is_its_own_relaxation(activation: Activation) -> None:
    edges = [-20.0, *activation.kinks, 20.0]
    for lo, hi in itertools.pairwise(edges):
        z = inside(lo, hi, ())
        lines, true = lines_of(activation, lo, hi), exactly(activation, z)
        for share in (0.0, 1.0):
            for side in lines[:2]:
                assert np.abs(line(side, share, z) - true).max() <= 4 * allowed(activation, lo, hi)


def test_mixed_layers_relax_each_neuron_as_its_own_activation_does() -> None:
    rng = np.random.default_rng(0)
    lo = torch.as_tensor(rng.normal(size=(3, len(ACTIVATIONS))))
    hi = lo + torch.as_tensor(rng.random((3, len(ACTIVATIONS))))
    size = len(ACTIVATIONS)
    layer = Layer.of(np.eye(size), np.zeros(size), tuple((activation, 1) for activation in ACTIVATIONS))
    mixed = relax(layer, lo, hi)
    for i, activation in enumerate(ACTIVATIONS):
        alone = relax(Layer.of([[1.0]], [0.0], activation), lo[:, i : i + 1], hi[:, i : i + 1])
        for a, b in zip(
            (*mixed.upper, *mixed.lower, mixed.start), (*alone.upper, *alone.lower, alone.start), strict=True
        ):
            assert torch.equal(a[:, i : i + 1], b)


@pytest.mark.parametrize("activation", [a for a in ACTIVATIONS if a.lipschitz <= 1], ids=str)
def test_the_widest_intervals_that_rounding_allows_are_enclosed(activation: Activation) -> None:
    """Beyond them 2 * reach overflows, and the engine says so instead of bounding anything."""
    lo, hi = -8.9e307, 8.9e307
    z = inside(lo, hi, activation.kinks)
    lines, true, slack = lines_of(activation, lo, hi), exactly(activation, z), allowed(activation, lo, hi)
    assert np.isfinite(slack)
    for share in (0.0, 1.0):
        assert (line(lines.upper, share, z) - true).min() >= -slack
        assert (true - line(lines.lower, share, z)).min() >= -slack
