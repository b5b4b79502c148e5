"""Constant folding with the exact semantics of each dtype.

Integers wrap, floats round once per operation to nearest even (float16, bfloat16 and float8 by way of float32, as
compiled code does). Not folded: division by zero (a run-time error), NaN results and minima of zeros of unlike sign,
whose bits depend on the machine, and shifts by negative amounts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from lpx import dtypes
from lpx.arith.interval import truncdiv
from lpx.dtypes import DType
from lpx.expr import nodes
from lpx.expr.build import round_to
from lpx.expr.nodes import Const, Expr

_COMPARISONS: dict[nodes.CompareOp, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
}


_TESTS: dict[str, Callable[[float], bool]] = {
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
}


def fold(node: Expr) -> Const | None:
    """The constant a scalar node of constant operands is; None when it has other operands or must not be folded."""
    match node:
        case nodes.Binary(dtype=dtype, op=op, a=Const(value=a), b=Const(value=b)):
            return _made(
                dtype, _float_binary(op, a, b, dtype) if dtype.is_float else _binary(op, int(a), int(b), dtype)
            )
        case nodes.Compare(op=op, a=Const(value=a), b=Const(value=b)):
            return Const(dtypes.bool_, 1, _COMPARISONS[op](a, b))
        case nodes.Unary(dtype=dtype, op=op, a=Const(value=a)):
            return _made(dtype, _unary(op, a, dtype))
        case nodes.Cast(dtype=dtype, value=Const(value=value)):
            return _made(dtype, convert(value, dtype))
        case nodes.Call(op=called, args=(Const(value=value),)) if called.name in _TESTS:
            return Const(dtypes.bool_, 1, _TESTS[called.name](value))
        case _:
            return None


def convert(value: float, dtype: DType) -> float | None:
    """A number converted as `Cast` does: floats truncate and saturate to integers, integers wrap, floats round."""
    if dtype.is_bool:
        return int(value != 0)
    if dtype.is_float:
        return round_to(_to_double(value) if isinstance(value, int) and dtype.bits < 64 else float(value), dtype)
    if not dtype.is_integer:
        return None
    if isinstance(value, int):
        return dtype.wrap(value)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return dtype.max_value if value > 0 else dtype.min_value
    return min(max(math.trunc(value), dtype.min_value), dtype.max_value)


def _made(dtype: DType, value: float | None) -> Const | None:
    if value is None:
        return None
    if dtype.is_bool:
        return Const(dtype, 1, bool(value))
    if not dtype.is_float:
        return Const(dtype, 1, value)
    keeps = not math.isnan(value) and (dtype.name != "float8_e4m3fn" or not math.isinf(value))
    return Const(dtype, 1, value) if keeps else None


def _to_double(value: int) -> float:
    """An integer as a double rounded to odd, so that rounding on to a narrower dtype rounds correctly."""
    excess = abs(value).bit_length() - 53
    if excess <= 0:
        return float(value)
    kept = abs(value) >> excess
    sticky = kept | ((kept << excess) != abs(value))
    return math.copysign(float(sticky << excess), value)


def _unary(op: nodes.UnaryOp, a: float, dtype: DType) -> float | None:
    if op == "neg":
        return -a if dtype.is_float else dtype.wrap(-int(a))
    return (not a) if dtype.is_bool else dtype.wrap(~int(a))


def _float_binary(op: nodes.BinaryOp, a: float, b: float, dtype: DType) -> float | None:
    if op in ("min", "max"):
        return _float_extremum(op, a, b)
    compute = _FLOAT_OPERATIONS.get(op)
    if compute is None:
        return None
    exact = compute(float(a), float(b))
    return round_to(round_to(exact, dtypes.float32), dtype) if dtype.bits < 32 else round_to(exact, dtype)


def _float_extremum(op: nodes.BinaryOp, a: float, b: float) -> float | None:
    if math.isnan(a) or math.isnan(b) or (a == b and math.copysign(1, a) != math.copysign(1, b)):
        return None
    return min(a, b) if op == "min" else max(a, b)


def _float_div(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


_FLOAT_OPERATIONS: dict[nodes.BinaryOp, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _float_div,
}


def _binary(op: nodes.BinaryOp, a: int, b: int, dtype: DType) -> int | None:
    if op in ("shl", "shr"):
        return _shift(op, a, b, dtype)
    if op in ("floordiv", "floormod", "truncdiv", "truncmod") and b == 0:
        return None
    compute = _INTEGER_OPERATIONS.get(op)
    return None if compute is None else dtype.wrap(compute(a, b))


def _shift(op: nodes.BinaryOp, a: int, amount: int, dtype: DType) -> int | None:
    if amount < 0:
        return None
    if op == "shl":
        return dtype.wrap(a << amount) if amount < dtype.bits else 0
    return a >> min(amount, dtype.bits)


_INTEGER_OPERATIONS: dict[nodes.BinaryOp, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": truncdiv,
    "truncmod": lambda a, b: a - truncdiv(a, b) * b,
    "min": min,
    "max": max,
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
}
