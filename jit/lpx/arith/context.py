"""What an analyzer knows, with everything derived from it cached.

A `Context` is written only while it is being made; afterwards it merely remembers answers. The reasoning is in the
modules this class hands over to: `canonical` (expressions to polynomials), `division`, `ranges` and `proof`.
"""

from __future__ import annotations

from lpx.arith import canonical, decide, division, proof, ranges
from lpx.arith.atoms import AtomTable, ExtremumOp
from lpx.arith.interval import UNBOUNDED, Interval
from lpx.arith.polynomial import Monomial, Polynomial, atom, constant
from lpx.dtypes import index
from lpx.expr.nodes import Expr
from lpx.records import record

_MAX_STEPS = 128
_MAX_NESTING = 4
"""A proof may need the sign of a factor, which is a proof of its own, and so on this deep."""

INDEX_MIN, INDEX_MAX = index.min_value, index.max_value


@record
class Range:
    """A variable lies in [low, high); None means unbounded. Later `order`s may refer to variables of earlier ones."""

    low: Polynomial | None
    high: Polynomial | None
    order: int


class Context:
    """Ranges of variables and facts, and caches of polynomials, intervals, quotients and proofs."""

    __slots__ = (
        "_divisions", "_intervals", "_nesting", "_polynomials", "_proofs", "_simplified", "_steps", "_under",
        "facts", "limits", "negated", "parameters", "ranges", "table", "truths",
    )  # fmt: skip

    def __init__(self, table: AtomTable) -> None:
        self.table = table
        self.ranges: dict[int, Range] = {}
        self.parameters: frozenset[int] = frozenset()
        self.limits: dict[int, Interval] = {}
        self.facts: tuple[Polynomial, ...] = ()
        self.truths: frozenset[int] = frozenset()
        self.negated: frozenset[int] = frozenset()
        self._nesting = 0
        self._steps = 0
        self._polynomials: dict[int, Polynomial] = {}
        self._intervals: dict[object, Interval] = {}
        self._divisions: dict[object, tuple[Polynomial, Polynomial]] = {}
        self._proofs: dict[object, bool] = {}
        self._simplified: dict[int, Expr] = {}
        self._under: dict[tuple[int, bool], Context] = {}

    def forget(self) -> None:
        """Drop cached answers, after new knowledge."""
        for answers in (
            self._polynomials, self._intervals, self._divisions, self._proofs, self._simplified, self._under,
        ):  # fmt: skip
            answers.clear()

    def copy(self) -> Context:
        """A context that knows the same and has empty caches."""
        new = Context(self.table)
        new.ranges = dict(self.ranges)
        new.parameters = self.parameters
        new.limits = dict(self.limits)
        new.facts = self.facts
        new.truths = self.truths
        new.negated = self.negated
        return new

    def under(self, cond: Expr, holds: bool) -> Context:
        """A context that knows as well that `cond` is true, or false."""
        key = (self.table.interner.number(cond), holds)
        found = self._under.get(key)
        if found is None:
            found = self._under[key] = self.copy()
            decide.assume(found, cond, holds)
        return found

    @property
    def simplified(self) -> dict[int, Expr]:
        """Simplified expressions by number."""
        return self._simplified

    def polynomial(self, expr: Expr) -> Polynomial:
        """The normal form of a scalar index expression."""
        number = self.table.interner.number(expr)
        found = self._polynomials.get(number)
        if found is None:
            found = self._polynomials[number] = canonical.polynomial(self, expr)
        return found

    def interval(self, p: Polynomial) -> Interval:
        """Constant bounds of a polynomial, from its terms one by one."""
        found = self._intervals.get(p.key)
        if found is None:
            found = self._intervals[p.key] = ranges.of_polynomial(self, p)
        return found

    def atom_interval(self, number: int) -> Interval:
        """Constant bounds of an atom."""
        found = self._intervals.get(number)
        if found is None:
            limit = self.limits.get(number, UNBOUNDED)
            found = self._intervals[number] = ranges.of_atom(self, number).meet(limit)
        return found

    def divide(self, dividend: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Floor quotient and remainder, both in normal form; the operands must be exact."""
        key = (dividend.key, divisor.key)
        found = self._divisions.get(key)
        if found is None:
            found = self._divisions[key] = division.divide(self, dividend, divisor)
        return found

    def sum(self, a: Polynomial, b: Polynomial) -> Polynomial:
        """a + b in normal form."""
        return canonical.recombine(self, a + b)

    def extremum(self, op: ExtremumOp, a: Polynomial, b: Polynomial) -> Polynomial:
        """min(a, b) or max(a, b) in normal form; the operands must be exact."""
        return canonical.extremum(self, op, a, b)

    def is_non_negative(self, p: Polynomial) -> bool:
        """Whether p >= 0 is proved."""
        if p.is_constant:
            return p.constant >= 0
        bounds = self.interval(p)
        if bounds.is_non_negative or bounds.is_negative:
            return bounds.is_non_negative
        found = self._proofs.get(p.key)
        return self._search(p) if found is None else found

    def _search(self, p: Polynomial) -> bool:
        """Look for a proof of p >= 0; within another search, on what is left of its steps."""
        if self._nesting >= _MAX_NESTING:
            return False
        if self._nesting == 0:
            self._steps = _MAX_STEPS
        self._proofs[p.key] = False  # a proof must not rest on itself
        self._nesting += 1
        found = proof.search(self, p)
        self._nesting -= 1
        if found or self._steps > 0:
            self._proofs[p.key] = found
        else:
            del self._proofs[p.key]  # another time there may be more steps left
        return found

    def spend_step(self) -> bool:
        """Count one step of a proof; False when there are none left."""
        self._steps -= 1
        return self._steps >= 0

    def is_positive(self, p: Polynomial) -> bool:
        """Whether p >= 1 is proved."""
        return self.is_non_negative(p.shifted(-1))

    def is_exact(self, p: Polynomial) -> bool:
        """Whether the value of p never wraps around: it has no data in it, or provably small data."""
        exact = self.table.exact
        if all(number in exact for monomial in p.terms for number in monomial):
            return True
        return self.interval(p).within(INDEX_MIN, INDEX_MAX)

    def set_range(self, number: int, low: Polynomial | None, high: Polynomial | None) -> None:
        """Note low <= variable < high (only while this context is being made)."""
        if number in self.ranges:
            self._forget_variable(number)
        last = next(reversed(self.ranges.values()), None)
        self.ranges[number] = Range(low, high, 0 if last is None else last.order + 1)
        self.parameters = self.parameters.union(*(bound.atoms() for bound in (low, high) if bound is not None))
        self.forget()
        if low is not None and high is not None:
            self.assume_non_negative((high - low).shifted(-1))

    def _forget_variable(self, number: int) -> None:
        """Drop what is known of a variable that gets a new meaning, and all that refers to it."""
        variables = self.table.variables

        def refers(*bounds: Polynomial | None) -> bool:
            return any(number in variables(n) for bound in bounds if bound is not None for n in bound.atoms())

        self.ranges = {n: r for n, r in self.ranges.items() if n != number and not refers(r.low, r.high)}
        self.limits = {n: limit for n, limit in self.limits.items() if number not in variables(n)}
        self.facts = tuple(fact for fact in self.facts if not refers(fact))
        self.truths = frozenset(n for n in self.truths if number not in variables(n))
        self.negated = frozenset(n for n in self.negated if number not in variables(n))

    def limit(self, number: int, interval: Interval) -> None:
        """Note constant bounds of an atom (only while this context is being made)."""
        self.limits[number] = self.limits.get(number, UNBOUNDED).meet(interval)

    def assume_non_negative(self, p: Polynomial) -> None:
        """Note p >= 0 (only while this context is being made)."""
        terms = list(p.varying())
        if len(terms) == 1 and len(terms[0][0]) == 1:
            (number,), coefficient = terms[0]
            bound = -(p.constant // coefficient) if coefficient > 0 else p.constant // -coefficient
            self.limit(number, Interval(bound, None) if coefficient > 0 else Interval(None, bound))
        elif terms:
            self.facts = (*self.facts, p)
            if len(terms) == 1 and terms[0][1] > 0 > p.constant:
                self._assume_positive_factors(terms[0][0])
        self.forget()

    def _assume_positive_factors(self, monomial: Monomial) -> None:
        """A product of non-negative factors that is positive has positive factors, example m*n > 0."""
        if all(self.atom_interval(number).is_non_negative for number in monomial):
            for number in monomial:
                self.limit(number, Interval(1, None))

    def order(self, number: int) -> int:
        """When the range of a variable was given; -1 for an atom without one."""
        found = self.ranges.get(number)
        return -1 if found is None else found.order

    def atom_polynomial(self, number: int) -> Polynomial:
        """An atom, or its value where only one is possible."""
        interval = self.atom_interval(number)
        if interval.is_point and interval.lo is not None:
            return constant(interval.lo)
        return atom(number)
