"""The two MILP solvers, behind one function each: a `Programme` and a `Request` in, a `Solved` out.

Both minimise the negated objective, without its offset, on the threads asked for, and print nothing. The
libraries are imported when they are first used.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from karenina.backends.big_m import Programme
from karenina.errors import InputError, MissingExtra
from karenina.query import Status

__all__ = ["FEASIBILITY", "Request", "Solved", "gurobi", "highs", "library"]

Array = npt.NDArray[np.float64]

# Integrality counts for as much as M = 1000 and more in a big-M row, so the usual 1e-5 or 1e-6 will not do.
FEASIBILITY = 1e-9


@dataclass(frozen=True)
class Request:
    """When a solver may stop. Solutions below `cutoff` are of no interest; one at `target` is enough."""

    gap: float
    seconds: float
    threads: int
    cutoff: float = -math.inf
    target: float = math.inf


@dataclass(frozen=True, eq=False)
class Solved:
    """`upper` bounds the maximum, or is the cutoff where nothing exceeds it.

    `status` is EXACT where the solver did what was asked, INFEASIBLE, TIME_LIMIT, or FAILED with a note.
    """

    status: Status
    upper: float = math.inf
    x: Array | None = None  # all variables
    nodes: int = 0
    note: str = ""


def library(name: str, extra: str) -> ModuleType:
    """The optional library, or MissingExtra."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(name, extra) from error


def _highs_model(highspy: Any, programme: Programme) -> Any:
    """The programme as HiGHS takes it: sparse, by rows."""
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = programme.rows.shape
    model.col_cost_ = -programme.objective
    model.col_lower_, model.col_upper_ = programme.lower, programme.upper
    model.row_lower_ = np.full(len(programme.limits), -highspy.kHighsInf)
    model.row_upper_ = programme.limits
    row, column = np.nonzero(programme.rows)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    counts = np.bincount(row, minlength=len(programme.limits))
    model.a_matrix_.start_ = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    model.a_matrix_.index_ = column.astype(np.int32)
    model.a_matrix_.value_ = programme.rows[row, column]
    kinds = highspy.HighsVarType
    model.integrality_ = [kinds.kInteger if binary else kinds.kContinuous for binary in programme.binary]
    return model


def _highs_options(programme: Programme, request: Request) -> dict[str, Any]:
    options: dict[str, Any] = {
        "output_flag": False,
        "threads": request.threads,
        "mip_abs_gap": request.gap,
        "mip_rel_gap": 0.0,
        "time_limit": request.seconds,
        "mip_feasibility_tolerance": FEASIBILITY,
        "primal_feasibility_tolerance": FEASIBILITY,
        "dual_feasibility_tolerance": FEASIBILITY,
        "small_matrix_value": 1e-12,
    }
    if request.cutoff > -math.inf:
        options["objective_bound"] = programme.offset - request.cutoff
    if request.target < math.inf:
        options["objective_target"] = programme.offset - request.target
    return options


def highs(programme: Programme, request: Request) -> Solved:
    """Ask HiGHS."""
    highspy = library("highspy", "milp")
    solver = highspy.Highs()
    for name, value in _highs_options(programme, request).items():
        solver.setOptionValue(name, value)
    if solver.passModel(_highs_model(highspy, programme)) == highspy.HighsStatus.kError:
        return Solved(Status.FAILED, note="HiGHS refused the model")
    solver.run()
    return _highs_result(highspy, solver, programme, request)


def _highs_result(highspy: Any, solver: Any, programme: Programme, request: Request) -> Solved:
    ended, statuses, info = solver.getModelStatus(), highspy.HighsModelStatus, solver.getInfo()
    if ended in (statuses.kInfeasible, statuses.kUnboundedOrInfeasible):
        return _nothing_found(request)
    finished = ended in (statuses.kOptimal, statuses.kObjectiveTarget, statuses.kObjectiveBound)
    if not finished and ended != statuses.kTimeLimit:
        return Solved(Status.FAILED, note=f"HiGHS stopped: {solver.modelStatusToString(ended)}")
    bound = info.mip_dual_bound
    if not programme.binary.any():
        bound = info.objective_function_value if ended == statuses.kOptimal else -math.inf
    # Once nothing beats the cutoff, HiGHS calls whatever it holds optimal: its bound alone would be too low.
    upper = max(programme.offset - bound, request.cutoff)
    x = np.array(solver.getSolution().col_value) if solver.getSolution().value_valid else None
    return Solved(Status.EXACT if finished else Status.TIME_LIMIT, upper, x, max(0, int(info.mip_node_count)))


def _gurobi_model(gurobipy: Any, environment: Any, programme: Programme, request: Request) -> Any:
    """The programme as Gurobi takes it."""
    model = gurobipy.Model(env=environment)
    kinds = np.where(programme.binary, "B", "C")
    variables = model.addMVar(
        len(programme.objective), lb=programme.lower, ub=programme.upper, obj=-programme.objective, vtype=kinds
    ).tolist()
    for row, limit in zip(programme.rows, programme.limits.tolist(), strict=True):
        used = np.flatnonzero(row)
        terms = gurobipy.LinExpr(row[used].tolist(), [variables[i] for i in used])
        model.addLConstr(terms, gurobipy.GRB.LESS_EQUAL, limit)
    settings = {"Threads": request.threads, "MIPGap": 0.0, "MIPGapAbs": request.gap}
    settings |= {"IntFeasTol": FEASIBILITY, "FeasibilityTol": FEASIBILITY, "OptimalityTol": FEASIBILITY}
    if request.seconds < math.inf:
        settings["TimeLimit"] = request.seconds
    if request.cutoff > -math.inf:
        settings["Cutoff"] = programme.offset - request.cutoff
    if request.target < math.inf:
        settings["BestObjStop"] = programme.offset - request.target
    for name, value in settings.items():
        model.setParam(name, value)
    return model


def _gurobi_result(gurobipy: Any, model: Any, programme: Programme, request: Request) -> Solved:
    ended, codes = model.Status, gurobipy.GRB
    if ended in (codes.INFEASIBLE, codes.INF_OR_UNBD, codes.CUTOFF):
        return _nothing_found(request)
    finished = ended in (codes.OPTIMAL, codes.USER_OBJ_LIMIT)
    if not finished and ended != codes.TIME_LIMIT:
        return Solved(Status.FAILED, note=f"Gurobi stopped with status {ended}")
    bound = model.ObjBound if model.IsMIP else (model.ObjVal if ended == codes.OPTIMAL else -math.inf)
    x = np.array(model.getAttr("X")) if model.SolCount else None
    upper = max(programme.offset - bound, request.cutoff)
    return Solved(Status.EXACT if finished else Status.TIME_LIMIT, upper, x, int(model.NodeCount))


def gurobi(programme: Programme, request: Request) -> Solved:
    """Ask Gurobi; its free licence takes 2000 variables and 2000 rows."""
    gurobipy = library("gurobipy", "gurobi")
    try:
        with (
            gurobipy.Env(params={"OutputFlag": 0}) as environment,
            _gurobi_model(gurobipy, environment, programme, request) as model,
        ):
            model.optimize()
            return _gurobi_result(gurobipy, model, programme, request)
    except gurobipy.GurobiError as error:
        rows, variables = programme.rows.shape
        size = f"{variables} variables and {rows} rows"
        raise InputError(f"Gurobi cannot take this query of {size} ({error}); the back end highs can") from error


def _nothing_found(request: Request) -> Solved:
    if request.cutoff > -math.inf:
        return Solved(Status.EXACT, request.cutoff)
    return Solved(Status.INFEASIBLE, -math.inf)
