"""Elementwise operators: operands of one dtype broadcast against each other, NumPy's way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from lpx import dtypes, te
from lpx.errors import DTypeError
from lpx.expr import build
from lpx.expr.nodes import BinaryOp, CompareOp, Expr
from lpx.graph import shapes
from lpx.graph.operator import AttrValue, Operator, register

Scalar = Callable[..., Expr]


def elementwise(name: str, scalar: Scalar) -> Operator:
    """Register an operator that applies `scalar(*elements, **attrs)` at each position of the broadcast shape."""

    def define(inputs: Sequence[te.Tensor | None], attrs: Mapping[str, AttrValue]) -> Sequence[te.Tensor]:
        operands = [x for x in inputs if x is not None]
        shape = shapes.broadcast_shapes([x.shape for x in operands])

        def at(*i: Expr) -> Expr:
            return scalar(*(shapes.read_broadcast(x, i, shape) for x in operands), **attrs)

        return (te.compute(shape, at, name=name),)

    return register(Operator(name, "elementwise", define))


def _call(op: str) -> Scalar:
    def scalar(*elements: Expr) -> Expr:
        return build.call(op, *elements)

    return scalar


def _binary(op: BinaryOp) -> Scalar:
    def scalar(a: Expr, b: Expr) -> Expr:
        return build.binary(op, a, b)

    return scalar


def _compare(op: CompareOp) -> Scalar:
    def scalar(a: Expr, b: Expr) -> Expr:
        return build.compare(op, a, b)

    return scalar


def _identity(x: Expr) -> Expr:
    return x


def _neg(x: Expr) -> Expr:
    return -x


def _not(x: Expr) -> Expr:
    return ~x


def _cast(x: Expr, dtype: str) -> Expr:
    return build.cast(x, dtype)


def _bitcast(x: Expr, dtype: str) -> Expr:
    return build.bitcast(x, dtype)


def _sign(x: Expr) -> Expr:
    if x.dtype.is_bool:
        raise DTypeError("sign does not take bool", hint="cast it to an integer first")
    zero, one = build.const(0, x.dtype), build.const(1, x.dtype)
    if not x.dtype.is_signed and not x.dtype.is_float:
        return build.select(x > zero, one, zero)
    below = build.select(x < zero, build.const(-1, x.dtype), x + zero)  # NaN stays, -0.0 becomes 0.0
    return build.select(x > zero, one, below)


def _clip(x: Expr, low: Expr, high: Expr) -> Expr:
    return build.minimum(build.maximum(x, low), high)


CALLS = (
    "sqrt floor ceil trunc rint abs copysign fma isnan isinf isfinite signbit popcount "
    "exp exp2 expm1 log log2 log10 log1p tanh sigmoid erf erfc rsqrt cbrt sin cos tan asin acos atan "
    "sinh cosh asinh acosh atanh pow atan2 hypot fmod"
).split()
BINARY = "add sub mul div floordiv floormod truncdiv truncmod min max bitand bitor bitxor shl shr".split()
COMPARE = "eq ne lt le".split()

for _name in CALLS:
    elementwise(_name, _call(_name))
for _name in BINARY:
    elementwise(_name, _binary(cast("BinaryOp", _name)))
for _name in COMPARE:
    elementwise(_name, _compare(cast("CompareOp", _name)))
_OTHERS: dict[str, Scalar] = {
    "identity": _identity,
    "neg": _neg,
    "not": _not,
    "cast": _cast,
    "bitcast": _bitcast,
    "where": build.select,
    "sign": _sign,
    "clip": _clip,
}
for _name, _scalar in _OTHERS.items():
    elementwise(_name, _scalar)


def _define_full(_: Sequence[te.Tensor | None], attrs: Mapping[str, AttrValue]) -> Sequence[te.Tensor]:
    """`value` everywhere; it may be an extent, which is only known at run time where symbolic."""
    shape = cast("tuple[shapes.Dim, ...]", attrs["shape"])
    value = build.cast(attrs["value"], dtypes.parse(attrs["dtype"]))

    def at(*_: Expr) -> Expr:
        return value

    return (te.compute(shape, at, name="full"),)


register(Operator("full", "elementwise", _define_full))
