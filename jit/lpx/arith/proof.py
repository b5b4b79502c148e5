"""Proofs that a polynomial is not negative, by replacing atoms with bounds until constants remain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from lpx.arith.atoms import Division, Extremum
from lpx.arith.interval import Interval
from lpx.arith.polynomial import Polynomial, constant

if TYPE_CHECKING:
    from lpx.arith.context import Context

_MAX_FACTS = 2
_MAX_ELIMINATIONS = 32


def search(ctx: Context, p: Polynomial) -> bool:
    """Whether p >= 0 follows from what the context knows; False when no proof was found."""
    return _holds(ctx, p, _MAX_FACTS)


def _holds(ctx: Context, p: Polynomial, facts: int) -> bool:
    """Whether p >= 0, using at most `facts` assumed inequalities."""
    bounds = ctx.interval(p)
    if bounds.is_non_negative or bounds.is_negative:
        return bounds.is_non_negative
    if not ctx.spend_step():
        return False
    return _by_elimination(ctx, p, facts) or (facts > 0 and _by_fact(ctx, p, facts))


def _by_fact(ctx: Context, p: Polynomial, facts: int) -> bool:
    """p >= 0 follows from fact >= 0 and k*p - c*fact >= 0 for positive k and c."""
    for fact in ctx.facts:
        for monomial, c in fact.varying():
            k = p.terms.get(monomial, 0)
            if k and (k > 0) == (c > 0) and _holds(ctx, p.scaled(abs(c)).plus(fact, -abs(k)), facts - 1):
                return True
    return False


def _by_elimination(ctx: Context, p: Polynomial, facts: int) -> bool:
    """Replace one atom by a bound that makes p smaller (or by each of its cases)."""
    for number in _elimination_order(ctx, p):
        split = p.split_by(number)
        sign = 0 if split is None else _sign(ctx, split[0])
        if split is None or sign == 0:
            continue
        found = _replacements(ctx, number, *split, sign)
        if found is not None:
            combine, candidates = found
            return combine(_holds(ctx, candidate, facts) for candidate in candidates)
    return False


def _sign(ctx: Context, factor: Polynomial) -> int:
    """1 or -1 when `factor` is proved to be >= 0 or <= 0, else 0."""
    if factor.is_constant:
        return 1 if factor.constant > 0 else -1
    if ctx.is_non_negative(factor):
        return 1
    return -1 if ctx.is_non_negative(factor.scaled(-1)) else 0


def _replacements(
    ctx: Context, number: int, factor: Polynomial, rest: Polynomial, sign: int
) -> tuple[Callable[[Iterable[bool]], bool], Iterable[Polynomial]] | None:
    """What factor * atom + rest is at least, and whether `any` or `all` of these must be >= 0; None: not known."""
    match ctx.table.structures.get(number):
        case Extremum(op, a, b):
            either = (op == "max") == (sign > 0)
            return (any if either else all), [factor * a + rest, factor * b + rest]
        case Division(op, dividend, divisor) if ctx.is_positive(divisor):
            bounds = _quotient_bounds if op == "floordiv" else _remainder_bounds
            return any, bounds(ctx, dividend, divisor, factor, rest, sign)
        case _:
            bound = variable_bound(ctx, number, upper=sign < 0)
            return None if bound is None else (any, [factor * bound + rest])


def _quotient_bounds(
    ctx: Context, dividend: Polynomial, divisor: Polynomial, factor: Polynomial, rest: Polynomial, sign: int
) -> Iterator[Polynomial]:
    """d * (q // d) is at most q and at least q - d + 1; and q // d grows with q."""
    yield factor * (dividend - divisor.shifted(-1) if sign > 0 else dividend) + rest * divisor
    bound = extreme(ctx, dividend, None, upper=sign < 0)
    if bound is not None and not bound.same(dividend):
        yield factor * ctx.divide(bound, divisor)[0] + rest


def _remainder_bounds(
    ctx: Context, dividend: Polynomial, divisor: Polynomial, factor: Polynomial, rest: Polynomial, sign: int
) -> Iterator[Polynomial]:
    """q % d is at least 0, at most d - 1, and at most q where q is not negative."""
    if sign > 0:
        yield rest
        return
    yield factor * divisor.shifted(-1) + rest
    if ctx.is_non_negative(dividend):
        yield factor * dividend + rest


def variable_bound(ctx: Context, number: int, upper: bool) -> Polynomial | None:
    """The inclusive symbolic bound of a variable: that of its range, else a constant that facts give."""
    known = ctx.ranges.get(number)
    if known is not None:
        if upper and known.high is not None:
            return known.high.shifted(-1)
        if not upper and known.low is not None:
            return known.low
    limits = ctx.atom_interval(number)
    limit = limits.hi if upper else limits.lo
    return None if limit is None else constant(limit)


def extreme(ctx: Context, p: Polynomial, variables: frozenset[int] | None, upper: bool) -> Polynomial | None:
    """An upper (or lower) bound of p without `variables`.

    Without a set of variables, those give way that have a range to which no other range refers. None when a variable
    is unbounded in the direction needed, or occurs in a way that is not understood.
    """
    for _ in range(_MAX_ELIMINATIONS):
        number = next((n for n in _elimination_order(ctx, p) if _depends(ctx, n, variables)), None)
        if number is None:
            return p
        split = p.split_by(number)
        sign = 0 if split is None else _sign(ctx, split[0])
        if split is None or sign == 0:
            return None
        bound = _atom_bound(ctx, number, variables, upper == (sign > 0))
        if bound is None:
            return None
        p = split[0] * bound + split[1]
    return None


def correlated_interval(ctx: Context, p: Polynomial) -> Interval:
    """Constant bounds of p after its variables gave way to their symbolic bounds; example: i - n is < 0 for i < n."""
    low, high = extreme(ctx, p, None, upper=False), extreme(ctx, p, None, upper=True)
    return Interval(
        None if low is None else ctx.interval(low).lo,
        None if high is None else ctx.interval(high).hi,
    )


def _atom_bound(ctx: Context, number: int, variables: frozenset[int] | None, upper: bool) -> Polynomial | None:
    match ctx.table.structures.get(number):
        case Extremum(op, a, b):
            low, high = extreme(ctx, a, variables, upper), extreme(ctx, b, variables, upper)
            return None if low is None or high is None else ctx.extremum(op, low, high)
        case Division("floordiv", dividend, divisor) if not _mentions(ctx, divisor, variables):
            bound = extreme(ctx, dividend, variables, upper)
            return None if bound is None or not ctx.is_positive(divisor) else ctx.divide(bound, divisor)[0]
        case Division("floormod", _, divisor) if not _mentions(ctx, divisor, variables):
            if not ctx.is_positive(divisor):
                return None
            return divisor.shifted(-1) if upper else constant(0)
        case None:
            return variable_bound(ctx, number, upper)
        case _:
            limits = ctx.atom_interval(number)
            limit = limits.hi if upper else limits.lo
            return None if limit is None else constant(limit)


def _depends(ctx: Context, number: int, variables: frozenset[int] | None) -> bool:
    """Whether an atom is one of `variables`, or contains one."""
    match ctx.table.structures.get(number):
        case Division(_, a, b) | Extremum(_, a, b):
            return _mentions(ctx, a, variables) or _mentions(ctx, b, variables)
        case _:
            if variables is None:
                return number in ctx.ranges and number not in ctx.parameters
            return not variables.isdisjoint(ctx.table.variables(number))


def _mentions(ctx: Context, p: Polynomial, variables: frozenset[int] | None) -> bool:
    return any(_depends(ctx, number, variables) for number in p.atoms())


def _elimination_order(ctx: Context, p: Polynomial) -> list[int]:
    """Divisions and extrema first, then variables, the one whose range was given last before those it refers to.

    A variable whose range refers to a division or extremum of p gives way before that: i < (n + 1) // 2 is used whole.
    """
    structures = ctx.table.structures
    structured = {n for n in p.atoms() if n in structures}

    def urgency(number: int) -> int:
        if number in structures:
            return 1
        known = ctx.ranges.get(number) if structured else None
        bounds = () if known is None else (known.low, known.high)
        return 2 if any(b is not None and not structured.isdisjoint(b.atoms()) for b in bounds) else 0

    return sorted(p.atoms(), key=lambda n: (urgency(n), ctx.order(n), n), reverse=True)
