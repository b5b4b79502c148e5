"""Affine forms as others see them: a constant plus coefficients times products of expressions."""

from __future__ import annotations

from lpx.expr import traverse
from lpx.expr.nodes import Expr, Var
from lpx.records import record


@record
class Term:
    """coefficient * the product of `atoms`: variables, or opaque expressions such as divisions."""

    coefficient: int
    atoms: tuple[Expr, ...]


@record
class AffineForm:
    """constant + the sum of `terms`, with no two terms over the same atoms and no zero coefficient.

    A term of more than one atom comes from a product with a symbolic extent, example i*n + j.
    """

    constant: int
    terms: tuple[Term, ...]

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def is_linear(self) -> bool:
        """Whether every term is a constant times a single atom."""
        return all(len(term.atoms) == 1 for term in self.terms)

    def coefficient(self, var: Var) -> int | None:
        """The constant factor of `var`: 0 where it does not occur, None where it occurs in any other way."""
        found = 0
        for term in self.terms:
            if len(term.atoms) == 1 and term.atoms[0] is var:
                found = term.coefficient
            elif any(var in traverse.free_vars(atom) for atom in term.atoms):
                return None
        return found

    def without(self, var: Var) -> AffineForm:
        """The form with the term of `var` alone left out."""
        kept = tuple(t for t in self.terms if not (len(t.atoms) == 1 and t.atoms[0] is var))
        return AffineForm(self.constant, kept)
