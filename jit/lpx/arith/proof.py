"""Proofs that a polynomial is not negative, by replacing atoms with bounds until constants remain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lpx.arith.atoms import Division, Extremum
from lpx.arith.interval import Interval
from lpx.arith.polynomial import Polynomial, constant

if TYPE_CHECKING:
    from lpx.arith.context import Context

_MAX_STEPS = 96
_MAX_FACTS = 2


def is_non_negative(ctx: Context, p: Polynomial) -> bool:
    """Whether p >= 0 follows from what the context knows; False when no proof was found."""
    return _Search(ctx).holds(p, _MAX_FACTS)


class _Search:
    """One proof attempt, with a budget of steps."""

    __slots__ = ("ctx", "steps")

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.steps = _MAX_STEPS

    def holds(self, p: Polynomial, facts: int) -> bool:
        """Whether p >= 0, using at most `facts` assumed inequalities."""
        self.steps -= 1
        bounds = self.ctx.interval(p)
        if bounds.lo is not None and bounds.lo >= 0:
            return True
        if self.steps <= 0 or (bounds.hi is not None and bounds.hi < 0):
            return False
        return self._by_elimination(p, facts) or (facts > 0 and self._by_fact(p, facts))

    def _by_fact(self, p: Polynomial, facts: int) -> bool:
        """p >= 0 follows from fact >= 0 and k*p - c*fact >= 0 for positive k and c."""
        for fact in self.ctx.facts:
            for monomial, c in fact.varying():
                k = p.terms.get(monomial, 0)
                if k and (k > 0) == (c > 0) and self.holds(p.scaled(abs(c)).plus(fact, -abs(k)), facts - 1):
                    return True
        return False

    def _by_elimination(self, p: Polynomial, facts: int) -> bool:
        """Replace one atom by a bound that makes p smaller (or by each of its cases)."""
        for number in _elimination_order(self.ctx, p):
            split = p.split_by(number)
            if split is None:
                continue
            factor, rest = split
            sign = self.sign(factor)
            if sign == 0:
                continue
            combine, options = self._options(number, factor, rest, sign)
            candidates = list(options)
            if candidates:
                return combine(self.holds(option, facts) for option in candidates)
        return False

    def sign(self, factor: Polynomial) -> int:
        """1 or -1 when `factor` is proved to be >= 0 or <= 0, else 0."""
        if factor.is_constant:
            return 1 if factor.constant > 0 else -1
        if self.ctx.is_non_negative(factor):
            return 1
        return -1 if self.ctx.is_non_negative(factor.scaled(-1)) else 0

    def _options(
        self, number: int, factor: Polynomial, rest: Polynomial, sign: int
    ) -> tuple[Callable[[Iterator[bool]], bool], Iterator[Polynomial]]:
        match self.ctx.table.structures.get(number):
            case Extremum(op, a, b):
                either = (op == "max") == (sign > 0)
                return (any if either else all), iter((factor * a + rest, factor * b + rest))
            case Division() as found if self.ctx.is_positive(found.divisor):
                bounds = _quotient_bounds if found.op == "floordiv" else _remainder_bounds
                return any, bounds(self.ctx, found, factor, rest, sign)
            case _:
                return any, self._range_bound(number, factor, rest, sign)

    def _range_bound(self, number: int, factor: Polynomial, rest: Polynomial, sign: int) -> Iterator[Polynomial]:
        bound = variable_bound(self.ctx, number, upper=sign < 0)
        if bound is not None:
            yield factor * bound + rest


def _quotient_bounds(
    ctx: Context, found: Division, factor: Polynomial, rest: Polynomial, sign: int
) -> Iterator[Polynomial]:
    """d * (q // d) is at most q and at least q - d + 1; and q // d grows with q."""
    low = found.dividend - found.divisor.shifted(-1)
    yield factor * (low if sign > 0 else found.dividend) + rest * found.divisor
    bound = extreme(ctx, found.dividend, None, upper=sign < 0)
    if bound is not None and not bound.same(found.dividend):
        yield factor * ctx.divide(bound, found.divisor)[0] + rest


def _remainder_bounds(
    ctx: Context, found: Division, factor: Polynomial, rest: Polynomial, sign: int
) -> Iterator[Polynomial]:
    if sign > 0:
        yield rest
        return
    yield factor * found.divisor.shifted(-1) + rest
    if ctx.is_non_negative(found.dividend):
        yield factor * found.dividend + rest


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
    """An upper (or lower) bound of p without `variables` (None: without any variable that has a range).

    None when a variable is unbounded in the direction needed, or occurs in a way that is not understood.
    """
    search = _Search(ctx)
    for _ in range(_MAX_STEPS):
        number = next((n for n in _elimination_order(ctx, p) if _depends(ctx, n, variables)), None)
        if number is None:
            return p
        split = p.split_by(number)
        sign = 0 if split is None else search.sign(split[0])
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
                return number in ctx.ranges
            return not variables.isdisjoint(ctx.table.variables(number))


def _mentions(ctx: Context, p: Polynomial, variables: frozenset[int] | None) -> bool:
    return any(_depends(ctx, number, variables) for number in p.atoms())


def _elimination_order(ctx: Context, p: Polynomial) -> list[int]:
    """Divisions and extrema first, then variables, the one whose range was given last before those it refers to."""
    structures = ctx.table.structures
    return sorted(p.atoms(), key=lambda n: (n in structures, ctx.order(n), n), reverse=True)
