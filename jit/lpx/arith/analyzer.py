"""The analyzer: ranges of variables and facts, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable

from lpx.arith import decide, proof, ranges, rewriter
from lpx.arith.affine import AffineForm, Term
from lpx.arith.atoms import AtomTable
from lpx.arith.context import Context
from lpx.arith.interval import Interval
from lpx.arith.polynomial import ONE, Polynomial, constant
from lpx.dtypes import bool_, index
from lpx.errors import InternalError
from lpx.expr import nodes
from lpx.expr.nodes import Axis, Expr, Var

Bound = Expr | int | None


class Analyzer:
    """Immutable knowledge about variables and conditions.

    Answers hold for every value of the variables that the ranges and facts allow. Arithmetic in `index` is taken as
    exact (it does not wrap) where all leaves are variables and constants; values read from memory or cast from other
    dtypes may wrap, and are reasoned about only where their bounds exclude it. A fact that reads memory must stay
    true for as long as the analyzer is used.

    Analyzers made by `with_*` share one table of expressions, which lives as long as any of them.
    """

    __slots__ = ("context",)

    def __init__(self, context: Context | None = None) -> None:
        self.context = Context(AtomTable()) if context is None else context  # for this package only

    def with_range(self, var: Var, low: Bound, high: Bound) -> Analyzer:
        """Also know low <= var < high; None is unbounded. Bounds may be symbolic, over variables known before.

        A variable that has a range already gets a new meaning: all that was known of it is dropped. Since `var` has a
        value, low < high becomes a fact.
        """
        context = self.context.copy()
        context.set_range(context.table.plain(var), self._bound(low), self._bound(high))
        return Analyzer(context)

    def with_axis(self, axis: Axis) -> Analyzer:
        """Also know that the axis' variable runs over its extent."""
        return self.with_range(axis.var, 0, axis.extent)

    def with_fact(self, cond: Expr) -> Analyzer:
        """Also know that the bool expression `cond` holds (in every lane)."""
        context = self.context.copy()
        decide.assume(context, cond, holds=True)
        return Analyzer(context)

    def simplify(self, expr: Expr) -> Expr:
        """An equal expression that is cheaper to compute; the same object when there is nothing to gain."""
        return rewriter.simplify(self.context, expr)

    def prove(self, cond: Expr) -> bool:
        """Whether the bool expression `cond` certainly holds (in every lane). False means only: not proved."""
        return decide.decide(self.context, cond) is True

    def bounds(self, expr: Expr) -> Interval:
        """Constant bounds of an integer or bool expression, over all lanes; infinite for floats."""
        context = self.context
        if expr.dtype != index or expr.lanes != 1:
            return ranges.of_expr(context, expr)
        p = context.polynomial(expr)
        naive = context.interval(p)
        if naive.is_point or not context.is_exact(p):
            return naive
        return naive.meet(proof.correlated_interval(context, p))

    def symbolic_bounds(self, expr: Expr, variables: Iterable[Var]) -> tuple[Expr, Expr] | None:
        """Inclusive lower and upper bounds of a scalar index expression, without `variables`.

        Each of `variables` takes all values of its range. None when a bound is infinite or not understood.
        """
        gone = tuple(variables)
        low = self.lower_bound(expr, gone)
        high = None if low is None else self.upper_bound(expr, gone)
        return None if low is None or high is None else (low, high)

    def lower_bound(self, expr: Expr, variables: Iterable[Var]) -> Expr | None:
        """The lower one of `symbolic_bounds`."""
        return self._extreme(expr, variables, upper=False)

    def upper_bound(self, expr: Expr, variables: Iterable[Var]) -> Expr | None:
        """The upper one of `symbolic_bounds`."""
        return self._extreme(expr, variables, upper=True)

    def _extreme(self, expr: Expr, variables: Iterable[Var], upper: bool) -> Expr | None:
        context = self.context
        p = context.polynomial(expr)
        if not context.is_exact(p):
            return None
        found = proof.extreme(context, p, frozenset(context.table.plain(v) for v in variables), upper)
        return None if found is None else context.table.emit(found)

    def affine(self, expr: Expr) -> AffineForm | None:
        """A scalar index expression as a sum of products; None for other dtypes and vectors."""
        if expr.dtype != index or expr.lanes != 1:
            return None
        table = self.context.table
        p = self.context.polynomial(expr)
        terms = tuple(Term(k, tuple(table.expr(n) for n in m)) for m, k in p.varying())
        return AffineForm(p.terms.get(ONE, 0), terms)

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two scalar expressions of one dtype are proved to be always equal."""
        return decide.decide(self.context, nodes.Compare(bool_, 1, "eq", a, b)) is True

    def _bound(self, bound: Bound) -> Polynomial | None:
        if bound is None or isinstance(bound, int):
            return None if bound is None else constant(bound)
        if bound.dtype != index or bound.lanes != 1:
            raise InternalError(f"a bound of a range must be a scalar {index}, not {bound.dtype} x {bound.lanes}")
        return self.context.polynomial(bound)
