"""The batched dual simplex method against HiGHS: multipliers give the optimum, or prove that there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina.engine.simplex import maximise

highspy = pytest.importorskip("highspy")
Tensor = torch.Tensor


def optimum(a: Tensor, lower: Tensor, upper: Tensor, rows: Tensor, offsets: Tensor) -> float | None:
    """HiGHS's answer to one problem; None where nothing is feasible."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for i in range(len(a)):
        solver.addVar(float(lower[i]), float(upper[i]))
        solver.changeColCost(i, float(a[i]))
    for row, offset in zip(rows, offsets, strict=True):
        index = np.arange(len(a), dtype=np.int32)
        solver.addRow(-float(offset), highspy.kHighsInf, len(a), index, row.numpy())
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    return float(solver.getInfo().objective_function_value)


def bound(a: Tensor, lower: Tensor, upper: Tensor, rows: Tensor, offsets: Tensor, prices: Tensor) -> Tensor:
    """The Lagrangian bound that multipliers give, (problems,)."""
    slope = a + (prices[:, None] @ rows).squeeze(1)
    return (slope * torch.where(slope >= 0, upper, lower)).sum(1) + (prices * offsets).sum(1)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_multipliers_reach_the_optimum_or_prove_there_is_none(seed: int, n: int, m: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    a, rows, offsets = normal(6, n), normal(6, m, n), normal(6, m) * 0.5 + 0.3
    lower, upper = -normal(6, n).abs(), normal(6, n).abs()
    drop = torch.full((6,), 7.0, dtype=torch.float64)
    prices, x = maximise(a, lower, upper, rows, offsets, drop, 200)
    found = bound(a, lower, upper, rows, offsets, prices)
    free = (a * torch.where(a >= 0, upper, lower)).sum(1)
    assert (prices >= 0).all()
    assert ((lower <= x) & (x <= upper)).all()
    for i in range(6):
        best = optimum(a[i], lower[i], upper[i], rows[i], offsets[i])
        if best is None:
            assert found[i] < free[i] - 6.9
        else:
            assert found[i] == pytest.approx(best, abs=1e-6)
            assert a[i] @ x[i] == pytest.approx(best, abs=1e-6)
            assert (rows[i] @ x[i] + offsets[i] >= -1e-7).all()


def test_stopped_early_the_multipliers_are_still_a_bound() -> None:
    generator = torch.Generator().manual_seed(1)
    a, rows = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((1, 6), (1, 9, 6)))
    offsets = torch.full((1, 9), 0.2, dtype=torch.float64)
    lower, upper = -torch.ones(1, 6, dtype=torch.float64), torch.ones(1, 6, dtype=torch.float64)
    best = optimum(a[0], lower[0], upper[0], rows[0], offsets[0])
    assert best is not None
    for rounds in range(12):
        prices, _ = maximise(a, lower, upper, rows, offsets, torch.ones(1, dtype=torch.float64), rounds)
        assert bound(a, lower, upper, rows, offsets, prices)[0] >= best - 1e-9
