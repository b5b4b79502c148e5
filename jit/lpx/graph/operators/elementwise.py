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

        def at(*indices: Expr) -> Expr:
            return scalar(*(shapes.read_broadcast(x, indices, shape) for x in operands), **attrs)

        return (te.compute(shape, at, name=name),)

    return register(Operator(name, "elementwise", define))


def _call(op: str) -> Scalar:
    return lambda *args: build.call(op, *args)


def _binary(op: BinaryOp) -> Scalar:
    return lambda a, b: build.binary(op, a, b)


def _compare(op: CompareOp) -> Scalar:
    return lambda a, b: build.compare(op, a, b)


def _cast(x: Expr, dtype: str) -> Expr:
    return build.cast(x, dtype)


def _sign(x: Expr) -> Expr:
    if x.dtype.is_bool:
        raise DTypeError("sign does not take bool")
    zero, one = build.const(0, x.dtype), build.const(1, x.dtype)
    if not x.dtype.is_signed and not x.dtype.is_float:
        return build.select(x > zero, one, zero)
    below = build.select(x < zero, build.const(-1, x.dtype), x)  # x itself: -0.0, 0.0 and NaN stay
    return build.select(x > zero, one, below)


def _clip(x: Expr, low: Expr, high: Expr) -> Expr:
    return build.minimum(build.maximum(x, low), high)


CALLS = (
    "sqrt floor ceil trunc rint abs copysign fma isnan isinf isfinite signbit popcount "
    "exp exp2 expm1 log log2 log10 log1p tanh sigmoid erf rsqrt cbrt sin cos tan asin acos atan "
    "sinh cosh asinh acosh atanh pow atan2 hypot fmod nextafter"
).split()
BINARY = (
    "add sub mul div floordiv floormod truncdiv truncmod min max bitand bitor bitxor shl shr"
).split()

for _name in CALLS:
    elementwise(_name, _call(_name))
for _name in BINARY:
    elementwise(_name, _binary(cast("BinaryOp", _name)))
for _name in ("eq", "ne", "lt", "le"):
    elementwise(_name, _compare(cast("CompareOp", _name)))
elementwise("identity", lambda x: x)
elementwise("neg", lambda x: -x)
elementwise("not", lambda x: ~x)
elementwise("cast", _cast)
elementwise("where", build.select)
elementwise("sign", _sign)
elementwise("clip", _clip)


def _define_full(_: Sequence[te.Tensor | None], attrs: Mapping[str, AttrValue]) -> Sequence[te.Tensor]:
    shape = cast("tuple[shapes.Dim, ...]", attrs["shape"])
    value = build.const(attrs["value"], dtypes.parse(attrs["dtype"]))
    return (te.compute(shape, lambda *_: value, name="full"),)


register(Operator("full", "elementwise", _define_full))
