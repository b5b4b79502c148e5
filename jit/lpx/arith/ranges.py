"""Constant bounds of polynomials, atoms and arbitrary integer expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.arith import interval as iv
from lpx.arith.atoms import Division, Extremum
from lpx.arith.interval import BOOLEAN, UNBOUNDED, Interval, point
from lpx.arith.polynomial import Polynomial
from lpx.dtypes import DType, index
from lpx.expr import nodes
from lpx.expr.nodes import Expr

if TYPE_CHECKING:
    from lpx.arith.context import Context


def of_polynomial(ctx: Context, p: Polynomial) -> Interval:
    """Bounds of the sum, adding up the bounds of its terms."""
    lo: int | None = 0
    hi: int | None = 0
    for monomial, k in p.terms.items():
        product = ctx.atom_interval(monomial[0]) if monomial else point(1)
        for number in monomial[1:]:
            product = iv.apply("mul", product, ctx.atom_interval(number))
        low, high = (product.lo, product.hi) if k > 0 else (product.hi, product.lo)
        lo = None if lo is None or low is None else lo + low * k
        hi = None if hi is None or high is None else hi + high * k
        if lo is None and hi is None:
            return UNBOUNDED
    return Interval(lo, hi)


def of_atom(ctx: Context, number: int) -> Interval:
    """Bounds of an atom from its range, its structure or the expression it stands for."""
    known = ctx.ranges.get(number)
    if known is not None:
        lo = None if known.low is None else ctx.interval(known.low).lo
        hi = None if known.high is None else ctx.interval(known.high).hi
        return Interval(lo, None if hi is None else hi - 1)
    match ctx.table.structures.get(number):
        case Division(op, dividend, divisor):
            return iv.apply(op, ctx.interval(dividend), ctx.interval(divisor))
        case Extremum(op, a, b):
            return iv.apply(op, ctx.interval(a), ctx.interval(b))
        case _:
            return of_expr(ctx, ctx.table.expr(number), inside=True)


def of_dtype(dtype: DType) -> Interval:
    """All values of a dtype; unbounded for `index`, whose arithmetic is taken as exact, and for floats."""
    if dtype.is_bool:
        return BOOLEAN
    if not dtype.is_integer or dtype == index:
        return UNBOUNDED
    return Interval(dtype.min_value, dtype.max_value)


def of_expr(ctx: Context, expr: Expr, inside: bool = False) -> Interval:
    """Bounds of an expression of any dtype, over all its lanes.

    Arithmetic that may leave the range of its dtype wraps, so its result can be anything. `inside`: look only at the
    operands of `expr`, since it is an opaque atom itself.
    """
    if not inside and expr.lanes == 1 and expr.dtype == index:
        return ctx.interval(ctx.polynomial(expr))
    everything = of_dtype(expr.dtype)
    if expr.dtype.is_float:
        return everything
    match expr:
        case nodes.Const(value=value):
            return point(int(value))
        case nodes.Binary(op=("min" | "max") as op, a=a, b=b):  # one of its operands, so it never wraps
            return iv.apply(op, of_expr(ctx, a), of_expr(ctx, b))
        case nodes.Binary(op=op, a=a, b=b):
            return _within_dtype(expr.dtype, iv.apply(op, of_expr(ctx, a), of_expr(ctx, b)))
        case nodes.Unary(op="neg", a=a):
            return _within_dtype(expr.dtype, of_expr(ctx, a).negated())
        case nodes.Select(a=a, b=b):
            return of_expr(ctx, a).join(of_expr(ctx, b))
        case nodes.Cast(value=value) if not value.dtype.is_float and not expr.dtype.is_bool:
            return _within_dtype(expr.dtype, of_expr(ctx, value))
        case nodes.Broadcast(value=value) | nodes.HorizontalReduce(op="min" | "max", value=value):
            return of_expr(ctx, value)
        case nodes.Ramp(base=base, stride=stride, lanes=lanes):
            last = iv.apply("mul", of_expr(ctx, stride), Interval(0, lanes - 1))
            return _within_dtype(expr.dtype, iv.apply("add", of_expr(ctx, base), last))
        case nodes.Shuffle(vectors=vectors):
            total = of_expr(ctx, vectors[0])
            for vector in vectors[1:]:
                total = total.join(of_expr(ctx, vector))
            return total
        case _:
            return everything


def _within_dtype(dtype: DType, result: Interval) -> Interval:
    if result.within(dtype.min_value, dtype.max_value):
        return result
    return of_dtype(dtype)
