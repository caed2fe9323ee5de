"""Eight numbers at once, compiled: one instruction serves eight boxes.

`Lanes` are eight float64 and `Mask` eight booleans, in registers. They have Python's operators, mixed with plain
numbers too, and the functions below. Arrays of them have a last axis of eight and are read and written row by row.
Outside compiled code the same functions work on numpy's arrays of eight.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, ConcreteTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model
from numba.np.arrayobj import make_array

__all__ = [
    "MAGIC",
    "WIDE",
    "Lanes",
    "Mask",
    "absolute",
    "any_of",
    "exponent",
    "greater",
    "lesser",
    "load",
    "mantissa",
    "select",
    "splat",
    "square_root",
    "store",
    "two_to_the",
]

Lanes = npt.NDArray[np.float64]  # (8,), as type checkers and plain Python see it
Mask = npt.NDArray[np.bool_]

WIDE = 8
MAGIC = 1.5 * 2.0**52  # added to a small number: the last bits are its nearest integer


def load(array: Lanes, row: int) -> Lanes:
    """One row of an array (rows, 8)."""
    return np.array(array[row])


def store(array: Lanes, row: int, value: Lanes | float) -> None:
    """Write one row of an array (rows, 8)."""
    array[row] = value


def splat(value: float) -> Lanes:
    """The same number eight times."""
    return np.full(WIDE, value)


def select(condition: Mask, first: Lanes | float, second: Lanes | float) -> Lanes:
    """Lane by lane the first where the condition holds, and the second elsewhere."""
    return np.where(condition, first, second)


def lesser(first: Lanes | float, second: Lanes | float) -> Lanes:
    """What Python's min gives in every lane: the first, if either is NaN."""
    return np.where(second < first, second, first)


def greater(first: Lanes | float, second: Lanes | float) -> Lanes:
    """What Python's max gives in every lane: the first, if either is NaN."""
    return np.where(second > first, second, first)


def absolute(value: Lanes) -> Lanes:
    """Without the sign."""
    return np.abs(value)


def square_root(value: Lanes) -> Lanes:
    """Correctly rounded."""
    return np.sqrt(value)


def any_of(condition: Mask) -> bool:
    """Whether it holds in some lane."""
    return bool(condition.any())


def two_to_the(value: Lanes) -> Lanes:
    """2 to the nearest integer, for numbers of a few hundred at most; for others, anything."""
    return np.exp2(np.rint(value))


def exponent(value: Lanes) -> Lanes:
    """Of a positive normal number: the integer e with value = mantissa * 2^e."""
    return np.frexp(value)[1] - 1.0


def mantissa(value: Lanes) -> Lanes:
    """Of a positive normal number: in [1, 2)."""
    return 2 * np.frexp(value)[0]


class _LanesType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Lanes")


class _MaskType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Mask")


_LANES, _MASK, _NUMBER = _LanesType(), _MaskType(), types.float64
_VECTOR, _BITS = ir.VectorType(ir.DoubleType(), WIDE), ir.VectorType(ir.IntType(1), WIDE)
_INTEGERS = ir.VectorType(ir.IntType(64), WIDE)
_PAIRS = ((_LANES, _LANES), (_LANES, _NUMBER), (_NUMBER, _LANES))

Emit = Callable[..., Any]  # (builder, *vectors) -> vector


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@register_model(_MaskType)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _BITS)


def _widened(builder: Any, kind: Any, value: Any) -> Any:
    """A plain number becomes eight."""
    if kind != _NUMBER:
        return value
    nothing, first = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    order = ir.Constant(ir.VectorType(ir.IntType(32), WIDE), [0] * WIDE)
    return builder.shuffle_vector(builder.insert_element(nothing, value, first), nothing, order)


def _lower(function: Any, kinds: Sequence[Any], emit: Emit) -> None:
    """The machine code of a function or operator of lanes and numbers."""

    @lower_builtin(function, *kinds)
    def lowered(_: Any, builder: Any, sig: Any, values: Sequence[Any]) -> Any:
        return emit(builder, *(_widened(builder, k, v) for k, v in zip(sig.args, values, strict=True)))


def _define(function: Any, emit: Emit, result: Any, operands: Sequence[tuple[Any, ...]] = _PAIRS) -> None:
    """Type and machine code of a function or operator, for each kind of operands."""

    @infer_global(function)
    class _Typing(ConcreteTemplate):
        cases = tuple(signature(result, *kinds) for kinds in operands)

    for kinds in operands:
        _lower(function, kinds, emit)


def _arithmetic(instruction: str) -> Emit:
    """Products and sums may be fused, as in all compiled code here."""
    return lambda builder, a, b: getattr(builder, instruction)(a, b, flags=("contract",))


def _ordered(comparison: str) -> Emit:
    return lambda builder, a, b: builder.fcmp_ordered(comparison, a, b)


def _intrinsic(name: str) -> Emit:
    def emit(builder: Any, value: Any) -> Any:
        kind, full_name = ir.FunctionType(_VECTOR, [_VECTOR]), f"llvm.{name}.v{WIDE}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, full_name), [value])

    return emit


def _whole(value: int) -> Any:
    return ir.Constant(_INTEGERS, [value] * WIDE)


def _any_of(builder: Any, condition: Any) -> Any:
    return builder.icmp_unsigned("!=", builder.bitcast(condition, ir.IntType(WIDE)), ir.Constant(ir.IntType(WIDE), 0))


def _two_to_the(builder: Any, value: Any) -> Any:
    shifted = builder.bitcast(builder.fadd(value, ir.Constant(_VECTOR, [MAGIC] * WIDE)), _INTEGERS)
    return builder.bitcast(builder.shl(builder.add(shifted, _whole(1023)), _whole(52)), _VECTOR)


def _exponent(builder: Any, value: Any) -> Any:
    biased = builder.lshr(builder.bitcast(value, _INTEGERS), _whole(52))
    return builder.sitofp(builder.sub(biased, _whole(1023)), _VECTOR)


def _mantissa(builder: Any, value: Any) -> Any:
    bits = builder.and_(builder.bitcast(value, _INTEGERS), _whole((1 << 52) - 1))
    return builder.bitcast(builder.or_(bits, _whole(1023 << 52)), _VECTOR)


for _symbols, _name in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv, operator.itruediv), "fdiv"),
):
    for _symbol in _symbols:
        _define(_symbol, _arithmetic(_name), _LANES)
for _symbol, _name in ((operator.gt, ">"), (operator.ge, ">="), (operator.lt, "<"), (operator.le, "<=")):
    _define(_symbol, _ordered(_name), _MASK)
_define(operator.eq, _ordered("=="), _MASK)
_define(operator.ne, lambda builder, a, b: builder.fcmp_unordered("!=", a, b), _MASK)
_define(operator.neg, lambda builder, a: builder.fneg(a), _LANES, [(_LANES,)])
_define(operator.and_, lambda builder, a, b: builder.and_(a, b), _MASK, [(_MASK, _MASK)])
_define(operator.or_, lambda builder, a, b: builder.or_(a, b), _MASK, [(_MASK, _MASK)])
_define(lesser, lambda builder, a, b: builder.select(builder.fcmp_ordered("<", b, a), b, a), _LANES)
_define(greater, lambda builder, a, b: builder.select(builder.fcmp_ordered(">", b, a), b, a), _LANES)
_CHOICES = [(_MASK, *kinds) for kinds in (*_PAIRS, (_NUMBER, _NUMBER))]
_define(select, lambda builder, condition, a, b: builder.select(condition, a, b), _LANES, _CHOICES)
_define(splat, lambda _, value: value, _LANES, [(_NUMBER,)])
_define(absolute, _intrinsic("fabs"), _LANES, [(_LANES,)])
_define(square_root, _intrinsic("sqrt"), _LANES, [(_LANES,)])
_define(any_of, _any_of, types.boolean, [(_MASK,)])
_define(two_to_the, _two_to_the, _LANES, [(_LANES,)])
_define(exponent, _exponent, _LANES, [(_LANES,)])
_define(mantissa, _mantissa, _LANES, [(_LANES,)])


def _is_band(kind: Any) -> bool:
    return isinstance(kind, types.Array) and kind.ndim == 2 and kind.layout == "C" and kind.dtype == _NUMBER


@infer_global(load)
class _Load(AbstractTemplate):
    def generic(self, kinds: Sequence[Any], _: Any) -> Any:
        return signature(_LANES, kinds[0], types.intp) if _is_band(kinds[0]) else None


@infer_global(store)
class _Store(AbstractTemplate):
    def generic(self, kinds: Sequence[Any], _: Any) -> Any:
        known = _is_band(kinds[0]) and kinds[2] in (_LANES, _NUMBER)
        return signature(types.void, kinds[0], types.intp, kinds[2]) if known else None


def _place(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    first = builder.mul(row, ir.Constant(row.type, WIDE))
    pointer = builder.gep(make_array(kind)(context, builder, array).data, [first])
    return builder.bitcast(pointer, _VECTOR.as_pointer())


@lower_builtin(load, types.Array, types.intp)
def _lower_load(context: Any, builder: Any, sig: Any, values: Sequence[Any]) -> Any:
    return builder.load(_place(context, builder, sig.args[0], *values), align=8)


@lower_builtin(store, types.Array, types.intp, _LANES)
@lower_builtin(store, types.Array, types.intp, _NUMBER)
def _lower_store(context: Any, builder: Any, sig: Any, values: Sequence[Any]) -> Any:
    array, row, value = values
    pointer = _place(context, builder, sig.args[0], array, row)
    builder.store(_widened(builder, sig.args[2], value), pointer, align=8)
    return context.get_dummy_value()
