"""Scalar index expressions as polynomials in normal form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lpx.arith.atoms import Division, ExtremumOp
from lpx.arith.polynomial import ZERO, Polynomial, atom, constant, without
from lpx.expr import nodes
from lpx.expr.nodes import Expr

if TYPE_CHECKING:
    from lpx.arith.context import Context

_MAX_TERMS = 64
_MAX_DEGREE = 6
_MAX_COEFFICIENT = (1 << 63) - 1
_MAX_SHIFT = 62


def polynomial(ctx: Context, expr: Expr) -> Polynomial:
    """The normal form of `expr`, an opaque atom where there is none that is exact."""
    match expr:
        case nodes.Const(value=value):
            return constant(int(value))
        case nodes.Var():
            return ctx.atom_polynomial(ctx.table.plain(expr))
        case nodes.Unary(op="neg", a=a):
            found = ctx.polynomial(a).scaled(-1)
        case nodes.Binary(op=op, a=a, b=b) if op in _HANDLERS:
            result = _HANDLERS[op](ctx, ctx.polynomial(a), ctx.polynomial(b))
            if result is None:
                return _opaque(ctx, expr)
            found = result
        case nodes.Select(a=a, b=b) if ctx.polynomial(a).same(ctx.polynomial(b)):
            return ctx.polynomial(a)
        case _:
            return _opaque(ctx, expr)
    return found if _is_writable(found) else _opaque(ctx, expr)


def extremum(ctx: Context, op: ExtremumOp, a: Polynomial, b: Polynomial) -> Polynomial:
    """min or max of exact polynomials, with shared terms taken out: min(i*4 + 3, i*4 + j) = i*4 + min(3, j)."""
    difference = a - b
    if ctx.is_non_negative(difference):
        return a if op == "max" else b
    if ctx.is_non_negative(difference.scaled(-1)):
        return b if op == "max" else a
    shared = Polynomial({m: k for m, k in a.varying() if b.terms.get(m) == k})
    rest_a, rest_b = a - shared, b - shared
    return shared + atom(ctx.table.extremum(op, rest_a, rest_b))


def recombine(ctx: Context, p: Polynomial) -> Polynomial:
    """Join quotients with remainders: (x // d)*d + x % d is x, and ((x // c) % d)*c + x % c is x % (c*d)."""
    structures = ctx.table.structures
    for monomial, coefficient in p.terms.items():
        for number in monomial:
            found = structures.get(number)
            if not isinstance(found, Division) or found.op != "floormod":
                continue
            outer = Polynomial({without(monomial, (number,)): coefficient})
            joined = _join_quotient(ctx, p, number, found, outer) or _join_remainders(ctx, p, number, found, outer)
            if joined is not None:
                return recombine(ctx, joined)
    return p


def _join_quotient(ctx: Context, p: Polynomial, number: int, mod: Division, outer: Polynomial) -> Polynomial | None:
    quotient, remainder = ctx.divide(mod.dividend, mod.divisor)
    if remainder.single_atom() != number:
        return None
    wanted = outer * mod.divisor * quotient
    if not _covers(p, wanted):
        return None
    return p - wanted - outer * atom(number) + outer * mod.dividend


def _join_remainders(ctx: Context, p: Polynomial, number: int, mod: Division, outer: Polynomial) -> Polynomial | None:
    if not ctx.is_positive(mod.divisor):
        return None
    quotient, _ = ctx.divide(mod.dividend, mod.divisor)
    for other in p.atoms():
        upper = ctx.table.structures.get(other)
        if not isinstance(upper, Division) or upper.op != "floormod" or not upper.dividend.same(quotient):
            continue
        wanted = outer * mod.divisor * atom(other)
        if _covers(p, wanted) and ctx.is_positive(upper.divisor):
            _, whole = ctx.divide(mod.dividend, mod.divisor * upper.divisor)
            return p - wanted - outer * atom(number) + outer * whole
    return None


def _covers(p: Polynomial, part: Polynomial) -> bool:
    """Whether `part` can be taken from p such that no coefficient changes sign."""
    if part.is_zero:
        return False
    for monomial, coefficient in part.terms.items():
        have = p.terms.get(monomial, 0)
        if abs(have) < abs(coefficient) or (have > 0) != (coefficient > 0):
            return False
    return True


def _opaque(ctx: Context, expr: Expr) -> Polynomial:
    return ctx.atom_polynomial(ctx.table.plain(expr))


def _is_writable(p: Polynomial) -> bool:
    return len(p.terms) <= _MAX_TERMS and all(
        -_MAX_COEFFICIENT <= k <= _MAX_COEFFICIENT and len(m) <= _MAX_DEGREE for m, k in p.terms.items()
    )


def _add(ctx: Context, a: Polynomial, b: Polynomial) -> Polynomial | None:
    return recombine(ctx, a + b)


def _sub(ctx: Context, a: Polynomial, b: Polynomial) -> Polynomial | None:
    return recombine(ctx, a - b)


def _mul(ctx: Context, a: Polynomial, b: Polynomial) -> Polynomial | None:
    if len(a.terms) * len(b.terms) > _MAX_TERMS:
        return None
    return a * b if a.is_constant or b.is_constant else recombine(ctx, a * b)


def _quotient(ctx: Context, a: Polynomial, b: Polynomial) -> Polynomial | None:
    if b.is_zero or not ctx.is_exact(a) or not ctx.is_exact(b):
        return None
    return ctx.divide(a, b)[0]


def _remainder(ctx: Context, a: Polynomial, b: Polynomial) -> Polynomial | None:
    if b.is_zero or not ctx.is_exact(a) or not ctx.is_exact(b):
        return None
    return ctx.divide(a, b)[1]


def _truncating(floored: Callable[[Context, Polynomial, Polynomial], Polynomial | None]) -> Handler:
    """Where both operands are known not to be negative, truncating division is flooring division."""

    def handle(ctx: Context, a: Polynomial, b: Polynomial) -> Polynomial | None:
        if not ctx.is_exact(a) or not ctx.is_exact(b) or not ctx.is_positive(b) or not ctx.is_non_negative(a):
            return None
        return floored(ctx, a, b)

    return handle


def _extremum(op: ExtremumOp) -> Handler:
    def handle(ctx: Context, a: Polynomial, b: Polynomial) -> Polynomial | None:
        if a.same(b):
            return a
        return extremum(ctx, op, a, b) if ctx.is_exact(a) and ctx.is_exact(b) else None

    return handle


def _shl(ctx: Context, a: Polynomial, b: Polynomial) -> Polynomial | None:
    return a.scaled(1 << b.constant) if b.is_constant and 0 <= b.constant <= _MAX_SHIFT else None


def _shr(ctx: Context, a: Polynomial, b: Polynomial) -> Polynomial | None:
    if not b.is_constant or not 0 <= b.constant <= _MAX_SHIFT:
        return None
    return _quotient(ctx, a, constant(1 << b.constant))


def _bitand(ctx: Context, a: Polynomial, b: Polynomial) -> Polynomial | None:
    """x & (2**k - 1) is x % 2**k in two's complement, whatever the sign of x."""
    if a.is_constant:
        a, b = b, a
    mask = b.constant
    if not b.is_constant or mask < 0 or mask & (mask + 1):
        return None
    return ZERO if mask == 0 else _remainder(ctx, a, constant(mask + 1))


Handler = Callable[["Context", Polynomial, Polynomial], Polynomial | None]

_HANDLERS: dict[nodes.BinaryOp, Handler] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "floordiv": _quotient,
    "floormod": _remainder,
    "truncdiv": _truncating(_quotient),
    "truncmod": _truncating(_remainder),
    "min": _extremum("min"),
    "max": _extremum("max"),
    "shl": _shl,
    "shr": _shr,
    "bitand": _bitand,
}
