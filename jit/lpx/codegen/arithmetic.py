"""Arithmetic, comparison and selection on LLVM values of one element type."""

from __future__ import annotations

from lpx.codegen import types
from lpx.codegen.builder import Builder
from lpx.codegen.integers import divide, shift
from lpx.codegen.types import Value, floating
from lpx.dtypes import DType
from lpx.errors import InternalError
from lpx.expr.nodes import BinaryOp, CompareOp, UnaryOp

_INTEGER: dict[BinaryOp, str] = {
    "add": "add", "sub": "sub", "mul": "mul", "bitand": "and", "bitor": "or", "bitxor": "xor",
}  # fmt: skip
_FLOAT: dict[BinaryOp, str] = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_FLOAT_COMPARE: dict[CompareOp, str] = {"eq": "fcmp oeq", "ne": "fcmp une", "lt": "fcmp olt", "le": "fcmp ole"}


def binary(b: Builder, op: BinaryOp, dtype: DType, x: Value, y: Value) -> Value:
    """`x op y` of values of `dtype`. The integer divisions give some value where the divisor is zero; none traps."""
    if dtype.is_float:
        return _float_binary(b, op, dtype, x, y)
    if op in ("min", "max"):
        return _integer_extreme(b, op, dtype, x, y)
    if op in ("shl", "shr"):
        return shift(b, op, x, y, signed=dtype.is_signed)
    if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
        return divide(b, op, x, y, signed=dtype.is_signed)
    if op == "div":
        raise InternalError(f"true division of {dtype}")
    return b.binary(_INTEGER[op], x, y)


def unary(b: Builder, op: UnaryOp, dtype: DType, x: Value) -> Value:
    """`op x`; negation of a float flips its sign bit."""
    if op == "not":
        return b.with_int("xor", x, -1)
    if not dtype.is_float:
        return b.binary("sub", types.zero(x.type), x)
    require_arithmetic(op, dtype)
    return b.emit(x.type, f"fneg {b.flags}{x}")


def compare(b: Builder, op: CompareOp, dtype: DType, x: Value, y: Value) -> Value:
    """`x op y` as `i1`s."""
    if dtype.is_float:
        require_arithmetic(op, dtype)
        return b.compare(_FLOAT_COMPARE[op], x, y)
    sign = "s" if dtype.is_signed else "u"
    return b.compare(f"icmp {op}" if op in ("eq", "ne") else f"icmp {sign}{op}", x, y)


def require_arithmetic(what: str, dtype: DType) -> None:
    """Narrow floats are converted and moved, never computed with: a pass makes float32 arithmetic of it before."""
    if dtype.is_storage_only:
        raise InternalError(f"{what} of {dtype} reached code generation; it should be done in float32")


def _float_binary(b: Builder, op: BinaryOp, dtype: DType, x: Value, y: Value) -> Value:
    require_arithmetic(op, dtype)
    if op in ("min", "max"):
        return _float_extreme(b, op, x, y)
    if op not in _FLOAT:
        raise InternalError(f"{op} of {dtype}")
    return b.float_binary(_FLOAT[op], x, y)


def _float_extreme(b: Builder, op: BinaryOp, x: Value, y: Value) -> Value:
    """The smaller or larger float: NaN when either is, the first of equal ones (zeros of two signs).

    x86's `minps y, x` is `y < x ? y : x`, and so `x` where either is NaN: a NaN in `x` comes out by itself. One in `y`
    is put into `x` before, unless `y` is a constant; that look at `y` is not on the path through an accumulator `x`.
    """
    if not is_constant(y) or _is_nan(y):
        x = b.select(b.compare("fcmp uno", y, y), y, x)
    predicate = "fcmp olt" if op == "min" else "fcmp ogt"
    return b.select(b.compare(predicate, y, x), y, x)


def is_constant(value: Value) -> bool:
    """Whether the operand is written as a constant."""
    return value.ref[0] not in "%@"


def _is_nan(constant: Value) -> bool:
    return floating(constant.type, float("nan")).ref == constant.ref


def _integer_extreme(b: Builder, op: BinaryOp, dtype: DType, x: Value, y: Value) -> Value:
    if dtype.is_bool:
        return b.binary("and" if op == "min" else "or", x, y)
    return b.intrinsic(f"{'s' if dtype.is_signed else 'u'}{op}", x.type, (x, y))
