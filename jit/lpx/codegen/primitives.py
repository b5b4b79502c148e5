"""Primitive operations of `lpx.expr.ops`: one instruction where the processor has it, else an exact expansion.

No operation may become a call of a C library: the expansions use additions, comparisons and bit operations only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lpx.codegen import types
from lpx.codegen.arithmetic import require_arithmetic
from lpx.codegen.builder import Builder
from lpx.codegen.fused import multiply_add
from lpx.codegen.integers import absolute, count_zeros, multiply_high
from lpx.codegen.types import Type, Value, floating
from lpx.dtypes import DType
from lpx.errors import InternalError

_Unary = Callable[[Builder, Value], Value]
_INFINITY = float("inf")


def emit_primitive(b: Builder, name: str, dtype: DType, args: Sequence[Value]) -> Value:
    """Operation `name` on operands of `dtype`."""
    if dtype.is_float:
        require_arithmetic(name, dtype)
    match name, tuple(args):
        case "abs", (x,):
            return b.intrinsic("fabs", x.type, (x,)) if dtype.is_float else absolute(b, x, signed=dtype.is_signed)
        case "copysign", (x, y):
            return b.intrinsic("copysign", x.type, (x, y))
        case "fma", (x, y, z):
            return multiply_add(b, x, y, z)
        case "unlikely", (x,):
            return x
        case "popcount", (x,):
            return b.intrinsic("ctpop", x.type, (x,))
        case "clz", (x,):
            return count_zeros(b, "ctlz", x)
        case "ctz", (x,):
            return count_zeros(b, "cttz", x)
        case "mulhi", (x, y):
            return multiply_high(b, x, y, signed=dtype.is_signed)
        case _, (x,) if name in _UNARY:
            return _UNARY[name](b, x)
        case _:
            raise InternalError(f"no emitter for the primitive {name} of {len(args)} operand(s)")


def _square_root(b: Builder, x: Value) -> Value:
    return b.intrinsic("sqrt", x.type, (x,))


def _is_nan(b: Builder, x: Value) -> Value:
    return b.compare("fcmp uno", x, x)


def _is_infinite(b: Builder, x: Value) -> Value:
    return b.compare("fcmp oeq", _magnitude(b, x), floating(x.type, _INFINITY))


def _is_finite(b: Builder, x: Value) -> Value:
    return b.compare("fcmp olt", _magnitude(b, x), floating(x.type, _INFINITY))


def _sign_bit(b: Builder, x: Value) -> Value:
    kind = x.type.of(f"i{x.type.bits}")
    return b.compare("icmp slt", b.reinterpret(x, kind), types.zero(kind))


def _magnitude(b: Builder, x: Value) -> Value:
    return b.intrinsic("fabs", x.type, (x,))


# --- rounding to integers ---------------------------------------------------------------------------------------------


def _rint(b: Builder, x: Value) -> Value:
    if b.capabilities.rounds:
        return b.intrinsic("roundeven", x.type, (x,))
    return _keep_large(b, x, b.intrinsic("copysign", x.type, (_rounded_magnitude(b, x), x)))


def _floor(b: Builder, x: Value) -> Value:
    return b.intrinsic("floor", x.type, (x,)) if b.capabilities.rounds else _round_down(b, x, "fcmp ogt", "fsub")


def _ceil(b: Builder, x: Value) -> Value:
    return b.intrinsic("ceil", x.type, (x,)) if b.capabilities.rounds else _round_down(b, x, "fcmp olt", "fadd")


def _round_down(b: Builder, x: Value, too_far: str, step: str) -> Value:
    """Round to nearest, then go back by one where that went past `x`. The sign of `x` stays, also of a zero."""
    nearest = b.intrinsic("copysign", x.type, (_rounded_magnitude(b, x), x))
    one = _select_one(b, b.compare(too_far, nearest, x), x.type)
    moved = b.emit(x.type, f"{step} {nearest}, {one.ref}")
    return _keep_large(b, x, b.intrinsic("copysign", x.type, (moved, x)))


def _trunc(b: Builder, x: Value) -> Value:
    if b.capabilities.rounds:
        return b.intrinsic("trunc", x.type, (x,))
    size = _magnitude(b, x)
    nearest = _rounded_magnitude(b, x)
    one = _select_one(b, b.compare("fcmp ogt", nearest, size), x.type)
    towards_zero = b.emit(x.type, f"fsub {nearest}, {one.ref}")
    return _keep_large(b, x, b.intrinsic("copysign", x.type, (towards_zero, x)))


def _rounded_magnitude(b: Builder, x: Value) -> Value:
    """|x| to the nearest integer, ties to even: adding 2**(precision - 1) pushes the fraction out of the mantissa."""
    magic = floating(x.type, _first_integer(x.type))
    shifted = b.emit(x.type, f"fadd {_magnitude(b, x)}, {magic.ref}")
    return b.emit(x.type, f"fsub {shifted}, {magic.ref}")


def _keep_large(b: Builder, x: Value, rounded: Value) -> Value:
    """`rounded` where `x` can have a fraction; `x` itself where it is an integer by its size, infinite or NaN."""
    small = b.compare("fcmp olt", _magnitude(b, x), floating(x.type, _first_integer(x.type)))
    return b.select(small, rounded, x)


def _first_integer(kind: Type) -> float:
    """From here on every float is an integer."""
    return 2.0**23 if kind.element == "float" else 2.0**52


def _select_one(b: Builder, condition: Value, kind: Type) -> Value:
    return b.select(condition, floating(kind, 1.0), types.zero(kind))


_UNARY: dict[str, _Unary] = {
    "sqrt": _square_root,
    "floor": _floor,
    "ceil": _ceil,
    "trunc": _trunc,
    "rint": _rint,
    "isnan": _is_nan,
    "isinf": _is_infinite,
    "isfinite": _is_finite,
    "signbit": _sign_bit,
}
