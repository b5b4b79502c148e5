"""Index expressions as sums of coefficient * atom over chosen variables: what dependence tests and regions work on.

An atom is a variable, or a division or remainder that mentions one, as fused loops leave behind: `f // n`, `f % n`.
Coefficients may be symbolic, as long as they are free of the variables.
"""

from __future__ import annotations

from collections.abc import Iterable

from lpx.arith.affine import Term as AffineTerm
from lpx.arith.analyzer import Analyzer
from lpx.expr import build, traverse
from lpx.expr.nodes import Expr, Var
from lpx.records import record

ZERO = build.const(0)
ONE = build.const(1)


@record(eq=False)
class Term:
    """`coefficient * atom`; the atom mentions chosen variables, the coefficient does not."""

    atom: Expr
    coefficient: Expr


@record(eq=False)
class Linear:
    """The sum of `terms` (no two over one atom) and of `rest`, which is free of the chosen variables."""

    terms: tuple[Term, ...]
    rest: Expr

    def term(self, atom: Expr) -> Term | None:
        """The term over `atom`, if there is one."""
        return next((t for t in self.terms if t.atom is atom), None)


def linear(analyzer: Analyzer, expr: Expr, variables: Iterable[Var]) -> Linear | None:
    """`expr` as a sum over `variables`; None where a product or a read of memory mentions several of them.

    Atoms of forms made by one analyzer (and those derived from it) are the same objects where structurally equal.
    """
    form = analyzer.affine(expr)
    if form is None:
        return None
    chosen = frozenset(variables)
    coefficients: dict[Expr, Expr] = {}
    rest: Expr = build.const(form.constant)
    for term in form.terms:
        varying = [a for a in term.atoms if traverse.free_vars(a) & chosen]
        if not varying:
            rest = rest + _product(term, term.atoms)
        elif len(varying) > 1:
            return None
        else:
            fixed = _product(term, tuple(a for a in term.atoms if a is not varying[0]))
            known = coefficients.get(varying[0])
            coefficients[varying[0]] = fixed if known is None else known + fixed
    return Linear(tuple(Term(atom, analyzer.simplify(k)) for atom, k in coefficients.items()), analyzer.simplify(rest))


def _product(term: AffineTerm, atoms: tuple[Expr, ...]) -> Expr:
    result: Expr = build.const(term.coefficient)
    for atom in atoms:
        result = result * atom
    return result
