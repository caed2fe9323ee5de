"""Eight numbers at once: compiled code says what numpy does, for all operations, mixed with plain numbers too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

pytest.importorskip("numba")

import numba

from karenina.engine.lanes import (
    WIDE,
    absolute,
    any_of,
    exponent,
    greater,
    lesser,
    load,
    mantissa,
    select,
    splat,
    square_root,
    store,
    two_to_the,
)

Array = npt.NDArray[np.float64]
anything = st.floats(allow_nan=True, allow_infinity=True, width=64)
rows = arrays(np.float64, (2, WIDE), elements=anything)


def jit(function: Callable[..., Any]) -> Any:
    return numba.njit(error_model="numpy")(function)


@jit
def arithmetic(a: Array, number: float, out: Array) -> None:
    x, y = load(a, 0), load(a, 1)
    store(out, 0, x + y)
    store(out, 1, x - number)
    store(out, 2, number * y)
    store(out, 3, x / y)
    store(out, 4, -x)
    store(out, 5, absolute(x))
    store(out, 6, square_root(absolute(y)))
    store(out, 7, splat(number))
    store(out, 8, number)
    plus, minus, times, over = (
        load(a, 0),
        load(a, 0),
        load(a, 0),
        load(a, 0),
    )  # apart from each other: products and sums may be fused
    plus += y
    minus -= y
    times *= y
    over /= y
    store(out, 9, plus)
    store(out, 10, minus)
    store(out, 11, times)
    store(out, 12, over)


@jit
def comparisons(a: Array, number: float, out: Array) -> int:
    x, y = load(a, 0), load(a, 1)
    store(out, 0, select(x > y, 1.0, 0.0))
    store(out, 1, select(x >= number, x, 0.0))
    store(out, 2, select(number < y, 0.0, y))
    store(out, 3, select(x <= y, x, y))
    store(out, 4, select(x == y, 1.0, 0.0))
    store(out, 5, select(x != y, 1.0, 0.0))
    store(out, 6, select((x > y) & (x > number), 1.0, 0.0))
    store(out, 7, select((x > y) | (x > number), 1.0, 0.0))
    store(out, 8, lesser(x, y))
    store(out, 9, greater(x, y))
    store(out, 10, lesser(number, y))
    store(out, 11, greater(x, number))
    return 1 if any_of(x > y) else 0


@jit
def powers(a: Array, out: Array) -> None:
    store(out, 0, two_to_the(load(a, 0)))
    store(out, 1, exponent(load(a, 1)))
    store(out, 2, mantissa(load(a, 1)))


@given(rows, anything)
@settings(max_examples=100, deadline=None)
def test_arithmetic_is_numpys(a: Array, number: float) -> None:
    ours, theirs = np.zeros((13, WIDE)), np.zeros((13, WIDE))
    arithmetic(a, number, ours)
    with np.errstate(all="ignore"):
        arithmetic.py_func(a, number, theirs)
    assert np.array_equal(ours, theirs, equal_nan=True)


@given(rows, anything)
@settings(max_examples=100, deadline=None)
def test_comparisons_are_numpys(a: Array, number: float) -> None:
    ours, theirs = np.zeros((12, WIDE)), np.zeros((12, WIDE))
    assert comparisons(a, number, ours) == comparisons.py_func(a, number, theirs)
    assert np.array_equal(ours, theirs, equal_nan=True)
    for lane in range(WIDE):  # as Python has it, NaN and all
        assert np.array_equal(ours[8, lane], min(a[0, lane], a[1, lane]), equal_nan=True)
        assert np.array_equal(ours[9, lane], max(a[0, lane], a[1, lane]), equal_nan=True)


@given(
    arrays(np.float64, WIDE, elements=st.integers(-300, 300).map(float)),
    arrays(np.float64, WIDE, elements=st.floats(1e-300, 1e300)),
)
@settings(max_examples=100, deadline=None)
def test_powers_and_mantissas_are_exact(whole: Array, positive: Array) -> None:
    ours, theirs, a = np.zeros((3, WIDE)), np.zeros((3, WIDE)), np.stack([whole, positive])
    powers(a, ours)
    powers.py_func(a, theirs)
    assert np.array_equal(ours, theirs)
    assert np.array_equal(ours[2] * np.exp2(ours[1]), positive)
