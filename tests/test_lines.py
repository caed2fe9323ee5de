"""Compiled lines against `relaxation`, and slopes of differences against chords."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import ALL

from karenina.engine.exact import evaluate_exactly
from karenina.engine.joint import Joint
from karenina.engine.packing import pack_weights
from karenina.engine.relaxation import envelope_slopes, relax, turned
from karenina.engine.rounding import Rounding
from karenina.network import Activation, Layer, Network

pytest.importorskip("numba")

from karenina.engine import lines
from karenina.engine.box import hidden_bounds
from karenina.engine.explore import explore
from karenina.engine.lines import activation as compiled_activation
from karenina.engine.lines import envelope_slope, has_one_kink, slope_at, slope_range, turn, write_lines

ODD = (
    Activation("leaky_relu", (-0.7342819,)),
    Activation("leaky_relu", (3.1,)),
    Activation("clip", (0.0, 6.0)),
    Activation("clip", (0.25, 0.2500001)),
    Activation("clip", (-3.0, -1.0)),
    Activation("elu", (5.0,)),
)
EVERY = (*ALL, *ODD)
SMOOTH = tuple(activation for activation in EVERY if not activation.piecewise_linear)
# An elu of alpha > 1 is neither convex nor concave at its kink: no envelope of it is known.
ENVELOPED = tuple(each for each in SMOOTH if each.name != "elu" or each.parameters[0] <= 1)
ends = st.one_of(
    st.sampled_from([-3.0, -1.0, 0.0, 0.25, 0.5, 6.0, -0.0, 1e-9, -1e-9, 5e-324, 1e-300, 40.0, -40.0, 800.0, -800.0]),
    st.floats(-10, 10),
)
widths = st.one_of(st.just(0.0), st.sampled_from([1e-12, 1e-7, 1e-6, 1.1e-6, 1e-3]), st.floats(0, 100))


@cache
def kinds_of(activation: Activation) -> np.ndarray:
    """The activation as compiled code knows it."""
    network = Network((Layer.of([[1.0]], [0.0], activation), Layer.of([[1.0]], [0.0])))
    joint, zero = Joint.of((network,), torch.device("cpu")), torch.zeros(1, dtype=torch.float64)
    return pack_weights(joint, Rounding.of(joint, zero, zero)).kinds


def exactly(z: float) -> torch.Tensor:
    return torch.tensor([z], dtype=torch.float64)


def torch_lines(activation: Activation, low: float, high: float) -> tuple[list[float], float]:
    """The eight numbers and the start as `relaxation` has them."""
    layer = Layer.of([[1.0]], [0.0], activation)
    bounds = (torch.tensor([end], dtype=torch.float64) for end in (low, high))
    upper, lower, start = relax(layer, *bounds)
    return [t.item() for t in (*upper, *lower)], start.item()


@pytest.mark.parametrize("activation", EVERY, ids=str)
@given(low=ends, width=widths)
@settings(max_examples=30, deadline=None)
def test_lines_are_those_of_the_relaxation(activation: Activation, low: float, width: float) -> None:
    high, lines = low + width, np.full((8, 3), np.nan)
    start = write_lines(kinds_of(activation), 0, low, high, lines, np.empty((4, 3)), 1)
    expected, expected_start = torch_lines(activation, low, high)
    scale = 1 + max(abs(low), abs(high))
    assert start == pytest.approx(expected_start, rel=1e-9, abs=1e-12)
    if activation.piecewise_linear:
        assert lines[:, 1].tolist() == pytest.approx(expected, rel=1e-11, abs=1e-13 * scale)
    elif width > 1e-3:  # which of two ends a chord touches is all the same
        assert lines[[0, 1, 4, 5], 1].tolist() == pytest.approx([expected[k] for k in (0, 1, 4, 5)], rel=1e-11)
        for k in (0, 4):
            ours, theirs = (t[k + 3] - t[k] * t[k + 2] for t in (lines[:, 1].tolist(), expected))
            assert ours == pytest.approx(theirs, rel=1e-11, abs=1e-13 * scale)
    else:  # a narrow chord's slope is all rounding, and so are its intercepts: compare what the lines say at the ends
        for z in (low, high):
            ours = [lines[k + 3, 1] + lines[k, 1] * (z - lines[k + 2, 1]) for k in (0, 4)]
            theirs = [expected[k + 3] + expected[k] * (z - expected[k + 2]) for k in (0, 4)]
            assert ours == pytest.approx(theirs, abs=1e-9 * scale)
    assert np.isnan(lines[:, [0, 2]]).all()


@pytest.mark.parametrize("activation", EVERY, ids=str)
@given(low=ends, width=widths, slope=st.floats(0, 1), at=st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_lines_enclose_the_activation(
    activation: Activation, low: float, width: float, slope: float, at: float
) -> None:
    """With any slope in range, at both ends, the kinks and between."""
    high, lines, kinds = low + width, np.empty((8, 1)), kinds_of(activation)
    write_lines(kinds, 0, low, high, lines, np.empty((4, 1)), 0)
    points = [low, high, min(low + at * width, high), *(kink for kink in activation.kinks if low <= kink <= high)]
    for z in points:
        value, slack = compiled_activation(kinds, 0, z), 1e-14 * (1 + max(abs(low), abs(high)))
        for side, sign in ((0, 1), (4, -1)):
            least, most, point, middle = lines[side : side + 4, 0].tolist()
            assert least <= most
            assert sign * value <= sign * (middle + (least + slope * (most - least)) * (z - point)) + slack


@pytest.mark.parametrize("activation", SMOOTH, ids=str)
@given(low=ends, width=widths, slope=st.floats(-0.5, 1.5), at=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_lines_turned_to_any_slope_enclose_a_smooth_activation(
    activation: Activation, low: float, width: float, slope: float, at: float
) -> None:
    high, lines, curve, kinds = low + width, np.empty((8, 1)), np.empty((4, 1)), kinds_of(activation)
    write_lines(kinds, 0, low, high, lines, curve, 0)
    turn(kinds, 0, low, high, slope, lines, curve, 0)
    layer, tensors = Layer.of([[1.0]], [0.0], activation), [exactly(t) for t in (low, high, slope)]
    theirs = turned(layer, relax(layer, *tensors[:2]), *tensors)
    tilts = [lines[0, 0], theirs.upper.low.item()]
    assert tilts[0] == pytest.approx(tilts[1], abs=1e-9)
    columns = lines[:, 0].tolist(), [t.item() for t in (*theirs.upper, *theirs.lower)]
    slack = 1e-14 * (1 + max(abs(low), abs(high)))
    for z in (low, high, min(low + at * width, high), *(k for k in (0.0,) if low <= k <= high)):
        value = compiled_activation(kinds, 0, z)
        for column in columns:
            for side, sign in ((0, 1), (4, -1)):
                least, most, point, middle = column[side : side + 4]
                assert least == most
                assert sign * value <= sign * (middle + least * (z - point)) + slack


@pytest.mark.parametrize("activation", ENVELOPED, ids=str)
@given(low=ends, width=st.floats(0.01, 8), at=st.floats(0, 1), above=st.booleans())
@settings(max_examples=60, deadline=None)
def test_lines_of_the_envelopes_slope_are_the_lowest_at_their_point(
    activation: Activation, low: float, width: float, at: float, above: bool
) -> None:
    high, z, kinds = low + width, low + at * width, kinds_of(activation)
    lines, curve = np.empty((8, 1)), np.empty((4, 1))
    chord, side, sign = write_lines(kinds, 0, low, high, lines, curve, 0), 0 if above else 4, 1 if above else -1

    def height(slope: float) -> float:
        turn(kinds, 0, low, high, slope, lines, curve, 0)
        return float(sign * (lines[side + 3, 0] + lines[side, 0] * (z - lines[side + 2, 0])))

    best = envelope_slope(kinds, 0, low, high, z, above, chord)
    layer, tensors = Layer.of([[1.0]], [0.0], activation), (exactly(low), exactly(high))
    there = envelope_slopes(layer, relax(layer, *tensors), tensors[0], tensors[1], exactly(z), torch.tensor([above]))
    theirs = there.item()
    assert best == pytest.approx(theirs, abs=1e-9)
    lowest = min(height(slope) for slope in np.linspace(curve[2, 0], curve[3, 0], 200))
    gap = height(chord) - sign * compiled_activation(kinds, 0, z)
    assert height(best) <= lowest + 0.02 * gap + 1e-9


@pytest.mark.parametrize("activation", EVERY, ids=str)
@given(z=ends)
@settings(max_examples=30, deadline=None)
def test_activations_and_derivatives_are_those_of_the_network(activation: Activation, z: float) -> None:
    kinds, tensor = kinds_of(activation), torch.tensor([z], dtype=torch.float64)
    # Of a sigmoid the last digit of 1/2 may be off: the rounding analysis allows for |activation(0)|.
    assert compiled_activation(kinds, 0, z) == pytest.approx(activation(tensor).item(), rel=1e-15, abs=1.2e-16)
    if z not in activation.kinks:
        assert slope_at(kinds, 0, z) == pytest.approx(activation.derivative(tensor).item(), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("activation", [a for a in EVERY if a.piecewise_linear], ids=str)
@given(low=ends, width=widths, a=st.floats(0, 1), b=st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_chords_in_rationals_have_slopes_in_range(
    activation: Activation, low: float, width: float, a: float, b: float
) -> None:
    high = low + width
    least, most = slope_range(kinds_of(activation), 0, low, high)
    network = Network((Layer.of([[1.0]], [0.0], activation),))
    inside = [low, high, *(min(max(low + t * width, low), high) for t in (a, b))]
    points = [*inside, *(kink for kink in activation.kinks if low <= kink <= high)]
    at = {z: evaluate_exactly(network, [z])[0] for z in points}
    for p in points:
        for q in points:
            rise, run = at[q] - at[p], Fraction(q) - Fraction(p)
            assert min(Fraction(least) * run, Fraction(most) * run) <= rise
            assert rise <= max(Fraction(least) * run, Fraction(most) * run)


@pytest.mark.parametrize("activation", EVERY, ids=str)
@given(low=ends, width=widths, a=st.floats(0, 1), b=st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_chords_have_slopes_in_range(activation: Activation, low: float, width: float, a: float, b: float) -> None:
    high, kinds = low + width, kinds_of(activation)
    least, most = slope_range(kinds, 0, low, high)
    p, q = sorted(min(max(low + t * width, low), high) for t in (a, b))
    rise = compiled_activation(kinds, 0, q) - compiled_activation(kinds, 0, p)
    slack = 4e-16 * (abs(p) + abs(q) + 1)  # of the two values
    assert least * (q - p) - slack <= rise <= most * (q - p) + slack
    lipschitz = activation.lipschitz
    assert -lipschitz - 1e-11 * lipschitz <= least <= most <= lipschitz * (1 + 1e-11)


@pytest.mark.parametrize("activation", EVERY, ids=str)
def test_slope_ranges_are_no_wider_than_dense_chords_say(activation: Activation) -> None:
    rng, kinds = np.random.default_rng(0), kinds_of(activation)
    for _ in range(20):
        low, high = sorted(rng.uniform(-3, 3, size=2).tolist())
        kinks = [kink for kink in activation.kinks if low < kink < high]
        z = np.unique([*np.linspace(low, high, 20_001), *kinks])
        slopes = np.diff(activation(torch.as_tensor(z)).numpy()) / np.diff(z)
        least, most = slope_range(kinds, 0, low, high)
        assert least == pytest.approx(slopes.min(), abs=2e-3)
        assert most == pytest.approx(slopes.max(), abs=2e-3)


@pytest.mark.parametrize("activation", EVERY, ids=str)
@given(low=ends, width=widths)
@settings(max_examples=30, deadline=None)
def test_a_kink_inside_is_counted(activation: Activation, low: float, width: float) -> None:
    high = low + width
    bends = [kink for kink in activation.kinks if low < kink < high]
    if activation.piecewise_linear and activation.slopes[0] != activation.slopes[1]:
        assert has_one_kink(kinds_of(activation), 0, low, high) == (len(bends) == 1)
    else:
        assert not has_one_kink(kinds_of(activation), 0, low, high)


def test_machine_code_is_kept_only_while_no_compiled_module_changes() -> None:
    """Numba itself would look at the one file of each function, though its code holds that of others."""
    folder = Path(lines.__file__).parent
    here = {path.name for path in folder.glob("*.py") if "@compiled" in path.read_text(encoding="utf-8")}
    assert {"lines.py", "box.py", "explore.py", "dive.py"} <= here
    assert all("from karenina.engine.lines import" in (folder / name).read_text() for name in here - {"lines.py"})
    for function in (write_lines, hidden_bounds, explore):
        assert function._cache._cache_file._source_stamp == lines.SOURCES  # type: ignore[union-attr]
