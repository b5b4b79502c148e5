"""Floor division of polynomials: quotient and remainder in normal form.

Every identity used holds for all integers, negative ones included; where a side condition is needed it is proved.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from lpx.arith.atoms import Division
from lpx.arith.polynomial import ONE, ZERO, Monomial, Polynomial, atom, constant, exact_quotient, long_division

if TYPE_CHECKING:
    from lpx.arith.context import Context

Parts = tuple[Polynomial, Polynomial]


def divide(ctx: Context, dividend: Polynomial, divisor: Polynomial) -> Parts:
    """(Q, R) with Q = dividend // divisor and R = dividend % divisor. The divisor is not the constant 0."""
    if divisor.is_constant:
        return _by_constant(ctx, dividend, divisor.constant)
    if ctx.is_positive(divisor):
        return _by_positive(ctx, dividend, divisor)
    if ctx.is_positive(divisor.scaled(-1)):
        quotient, remainder = ctx.divide(dividend.scaled(-1), divisor.scaled(-1))
        return quotient, remainder.scaled(-1)
    return _irreducible(ctx, dividend, divisor)


def _by_constant(ctx: Context, dividend: Polynomial, c: int) -> Parts:
    if c < 0:
        quotient, remainder = ctx.divide(dividend.scaled(-1), constant(-c))
        return quotient, remainder.scaled(-1)
    outside: dict[Monomial, int] = {m: k // c for m, k in dividend.varying() if k % c == 0}
    inside: dict[Monomial, int] = {m: k for m, k in dividend.varying() if k % c != 0}
    whole, rest = divmod(dividend.constant, c)
    if whole:
        outside[ONE] = whole
    if rest:
        inside[ONE] = rest
    quotient, remainder = _residual(ctx, Polynomial(inside), c)
    return ctx.sum(Polynomial(outside), quotient), remainder


def _residual(ctx: Context, r: Polynomial, c: int) -> Parts:
    """r // c and r % c where no coefficient is a multiple of c and the constant is in [0, c)."""
    if r.is_constant:
        return ZERO, r
    bounds = ctx.interval(r)
    if bounds.lo is not None and bounds.hi is not None and bounds.lo // c == bounds.hi // c:
        return constant(bounds.lo // c), r.shifted(-(bounds.lo // c) * c)
    return _drop_low_part(ctx, r, c) or _flatten(ctx, r, constant(c)) or _irreducible(ctx, r, constant(c))


def _drop_low_part(ctx: Context, r: Polynomial, c: int) -> Parts | None:
    """With g dividing c and low + t*g in [t*g, t*g + g): (g*high + low) // c is (high + t) // (c/g)."""
    for g in sorted({gcd(k, c) for _, k in r.varying()}, reverse=True):
        if g == 1:
            break
        high = {m: k // g for m, k in r.varying() if k % g == 0}
        low = {m: k for m, k in r.varying() if k % g != 0}
        if r.constant // g:
            high[ONE] = r.constant // g
        if r.constant % g:
            low[ONE] = r.constant % g
        bounds = ctx.interval(Polynomial(low))
        if bounds.lo is None or bounds.hi is None or bounds.lo // g != bounds.hi // g:
            continue
        step = bounds.lo // g
        quotient, remainder = ctx.divide(Polynomial(high).shifted(step), constant(c // g))
        return quotient, ctx.sum(remainder.scaled(g), Polynomial(low).shifted(-step * g))
    return None


def _flatten(ctx: Context, r: Polynomial, divisor: Polynomial) -> Parts | None:
    """Divisions within a division by a positive divisor: one division by the product, or none."""
    return _mod_of_mod(ctx, r, divisor) or _quotient_of_quotient(ctx, r, divisor)


def _mod_of_mod(ctx: Context, r: Polynomial, divisor: Polynomial) -> Parts | None:
    """(x % a) // b is (x // b) % (a / b) and (x % a) % b is x % b, where b divides a."""
    number = r.single_atom()
    found = None if number is None else ctx.table.structures.get(number)
    if not isinstance(found, Division) or found.op != "floormod":
        return None
    factor = exact_quotient(found.divisor, divisor)
    if factor is None or not ctx.is_positive(factor):
        return None
    quotient, remainder = ctx.divide(found.dividend, divisor)
    return ctx.divide(quotient, factor)[1], remainder


def _quotient_of_quotient(ctx: Context, r: Polynomial, divisor: Polynomial) -> Parts | None:
    """(x // a + y) // b is (x + a*y) // (a*b) for positive a and b."""
    quotients = [m[0] for m, k in r.varying() if k == 1 and len(m) == 1 and _is_quotient(ctx, m[0])]
    if len(quotients) != 1:
        return None
    (number,) = quotients
    found = ctx.table.structures[number]
    if not isinstance(found, Division) or not ctx.is_positive(found.divisor):
        return None
    other = r - atom(number)
    quotient, _ = ctx.divide(found.dividend + other * found.divisor, found.divisor * divisor)
    return quotient, atom(ctx.table.division("floormod", r, divisor))


def _is_quotient(ctx: Context, number: int) -> bool:
    found = ctx.table.structures.get(number)
    return isinstance(found, Division) and found.op == "floordiv"


def _by_positive(ctx: Context, dividend: Polynomial, divisor: Polynomial) -> Parts:
    quotient, r = long_division(dividend, divisor)
    if r.is_zero:
        return quotient, ZERO
    if ctx.is_non_negative(r):
        if ctx.is_positive(divisor - r):
            return quotient, r
    elif ctx.is_positive(r.scaled(-1)) and ctx.is_non_negative(r + divisor):
        return quotient.shifted(-1), r + divisor
    inner, remainder = _flatten(ctx, r, divisor) or _irreducible(ctx, r, divisor)
    return ctx.sum(quotient, inner), remainder


def _irreducible(ctx: Context, dividend: Polynomial, divisor: Polynomial) -> Parts:
    quotient = ctx.table.division("floordiv", dividend, divisor)
    remainder = ctx.table.division("floormod", dividend, divisor)
    return ctx.atom_polynomial(quotient), ctx.atom_polynomial(remainder)
