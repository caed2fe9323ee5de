"""The checker's activations, held against a hundred digits: whatever the slope and the range, no value lies outside."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from certificates import KINDS, NEARLY, truth

from karenina.checker.activations import Kind
from karenina.checker.chain import exact
from karenina.checker.refusal import Refused

Array = npt.NDArray[Any]
TINY = 5e-324
EDGES = (
    0.0,
    -0.0,
    TINY,
    -TINY,
    2.3e-308,
    1e-300,
    -1e-300,
    1e-17,
    -1e-17,
    1.0,
    -1.0,
    0.5,
    -0.5,
    20.0,
    -20.0,
    40.0,
    -40.0,
)
FAR = (709.0, -709.0, 745.0, -746.0, 1e4, -1e4, 10001.0, 1e5, -1e5, 1e16, -1e16, 1e150, -1e150)
SLOPES = (0.0, 1.0, -1.0, 0.5, 0.25, 1e-3, 1 - 1e-12, 1 + 1e-12, TINY, -1e-300, 1e-17, 30.0, -1e10, 1e150, 2.5, 0.9999)
IDS = [f"{kind.name}{kind.parameters or ''}" for kind in KINDS]


def random_ranges(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Tiny, huge, one-sided, of zero width, denormal, about a kink."""
    centre = np.concatenate([rng.normal(size=count) * 10.0 ** rng.integers(-8, 3, size=count), EDGES, FAR])
    width = np.abs(rng.normal(size=len(centre))) * 10.0 ** rng.integers(-320, 3, size=len(centre))
    width[rng.random(len(centre)) < 0.1] = 0.0
    low = np.where(rng.random(len(centre)) < 0.3, centre, centre - width)
    low = np.where(rng.random(len(centre)) < 0.1, np.minimum(0.0, centre), low)
    return low, np.maximum(low, centre + width)


def random_slopes(rng: np.random.Generator, kind: Kind, low: Array, high: Array) -> Array:
    """Any, tangents and chords among them."""
    slopes = rng.choice([*SLOPES, *rng.normal(size=8)], size=len(low))
    points = low + rng.random(len(low)) * (high - low)
    step = 1e-6
    tangent = [float(truth(kind, Fraction(z) + Fraction(step)) - truth(kind, Fraction(z))) / step for z in points]
    return np.where(rng.random(len(low)) < 0.4, tangent, slopes)


def points_in(low: float, high: float, kind: Kind, slope: np.float64) -> list[Fraction]:
    """Ends, kinks, some between them, and where the activation is about as steep as the slope."""
    a, b = Fraction(low), Fraction(high)
    inner = [a + (b - a) * Fraction(k, 6) for k in range(7)]
    steep = slope / (kind.parameters[0] or 1.0) if kind.name == "elu" else slope
    with np.errstate(all="ignore"):
        level, flat = np.arctanh(np.sqrt(1 - slope)), 2 * np.arctanh(np.sqrt(1 - 4 * slope))
        special = [0.0, *kind.parameters, level, -level, flat, -flat, np.log(steep), np.log(slope / (1 - slope))]
    return [*inner, *(Fraction(z) for z in special if low <= z <= high and math.isfinite(z))]


def holds(kind: Kind, low: Any, value: Fraction, high: Any) -> bool:
    """Whether bounds are not wrong about a value; NaN and infinity say nothing."""
    off = Fraction(0) if kind.linear else NEARLY
    below = not math.isfinite(low) or Fraction(low) <= value + off
    return below and (not math.isfinite(high) or value - off <= Fraction(high))


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_values_enclose_the_truth(kind: Kind) -> None:
    rng = np.random.default_rng(1)
    z = np.concatenate([EDGES, FAR, rng.normal(size=150) * 10.0 ** rng.integers(-20, 3, size=150)])
    rounded, exactly = kind.values(z), kind.values(exact(z))
    for k, point in enumerate(z):
        value = truth(kind, Fraction(point))
        assert rounded[0][k] <= rounded[1][k]
        assert holds(kind, rounded[0][k], value, rounded[1][k]), (point, "rounded")
        assert holds(kind, exactly[0][k], value, exactly[1][k]), (point, "exact")
        assert exactly[1][k] - exactly[0][k] <= Fraction(1, 10**30), "exact values are nearly so"


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_extremes_enclose_all_values(kind: Kind) -> None:
    rng = np.random.default_rng(2)
    low, high = random_ranges(rng, 80)
    slope = random_slopes(rng, kind, low, high)
    with np.errstate(all="ignore"):
        rounded = kind.extremes(slope, low, high)
    some = rng.random(len(low)) < 0.4  # fractions take their time
    exactly = kind.extremes(exact(slope[some]), exact(low[some]), exact(high[some]))
    place = np.cumsum(some) - 1
    for k in range(len(low)):
        for z in points_in(low[k], high[k], kind, slope[k]):
            value = truth(kind, z) - Fraction(slope[k]) * z
            told = kind, slope[k], low[k], high[k], float(z)
            assert holds(kind, rounded[0][k], value, rounded[1][k]), told
            if some[k]:
                assert holds(kind, exactly[0][place[k]], value, exactly[1][place[k]]), (told, "exact")


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_extremes_are_close_where_nothing_is_hard(kind: Kind) -> None:
    """Else the tests above could pass with bounds that say nothing."""
    rng = np.random.default_rng(3)
    low = rng.normal(size=40)
    high, slope = low + rng.random(40) * 2, rng.random(40)
    least, most = kind.extremes(slope, low, high)
    for k in range(40):
        values = [truth(kind, z) - Fraction(slope[k]) * z for z in points_in(low[k], high[k], kind, slope[k])]
        assert float(max(values)) == pytest.approx(most[k], abs=5e-2)
        assert float(min(values)) == pytest.approx(least[k], abs=5e-2)


@pytest.mark.parametrize("slope", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", KINDS[1:], ids=IDS[1:])
def test_a_slope_that_is_no_number_proves_nothing(kind: Kind, slope: float) -> None:
    with np.errstate(all="ignore"):
        least, most = kind.extremes(np.full(3, slope), np.array([-1.0, 0.0, 0.5]), np.array([2.0, 1.0, 0.5]))
    assert not np.isfinite(least).any()
    assert not np.isfinite(most).any()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("sine", ()),
        ("relu", (1.0,)),
        ("clip", (1.0, 0.0)),
        ("clip", (0.0, 0.0)),
        ("clip", (0.0,)),
        ("elu", (-1.0,)),
        ("elu", (math.nan,)),
        ("leaky_relu", (math.inf,)),
        ("leaky_relu", ()),
    ],
)
def test_other_activations_are_refused(name: str, parameters: tuple[float, ...]) -> None:
    with pytest.raises(Refused):
        Kind(name, parameters)
