"""The atoms of polynomials: what each stands for, and how a polynomial is written as an expression.

A `Division` or `Extremum` remembers its operands as polynomials, so that proofs can look inside. What is recorded
here holds whatever the ranges of variables are; what depends on ranges lives in a `Context`.
"""

from __future__ import annotations

from typing import Literal

from lpx import dtypes
from lpx.arith.interner import ADD_COST, LEAF_COST, MUL_COST, NEG_COST, Interner
from lpx.arith.polynomial import Monomial, Polynomial
from lpx.expr import nodes, traverse
from lpx.expr.nodes import Expr
from lpx.records import record

DivisionOp = Literal["floordiv", "floormod"]
ExtremumOp = Literal["min", "max"]


@record
class Division:
    """The atom is `dividend op divisor`."""

    op: DivisionOp
    dividend: Polynomial
    divisor: Polynomial


@record
class Extremum:
    """The atom is the smaller or larger of two polynomials."""

    op: ExtremumOp
    a: Polynomial
    b: Polynomial


Structure = Division | Extremum


def operands(structure: Structure) -> tuple[Polynomial, Polynomial]:
    """The two polynomials a structure is made of."""
    if isinstance(structure, Division):
        return structure.dividend, structure.divisor
    return structure.a, structure.b


class AtomTable:
    """Atoms with their structure. `exact` holds those whose arithmetic never wraps: variables, and what is structured.

    Other atoms (loads, casts, calls) are values of the user's data, for which 64-bit arithmetic may wrap around.
    """

    __slots__ = ("_by_structure", "_variables", "exact", "interner", "structures")

    def __init__(self) -> None:
        self.interner = Interner()
        self.structures: dict[int, Structure] = {}
        self.exact: set[int] = set()
        self._by_structure: dict[object, int] = {}
        self._variables: dict[int, frozenset[int]] = {}

    def expr(self, number: int) -> Expr:
        """The expression an atom stands for."""
        return self.interner.exprs[number]

    def plain(self, expr: Expr) -> int:
        """The atom of an expression that is not looked into."""
        number = self.interner.number(expr)
        if isinstance(expr, nodes.Var):
            self.exact.add(number)
        return number

    def variables(self, number: int) -> frozenset[int]:
        """The numbers of the variables in an atom's expression."""
        found = self._variables.get(number)
        if found is None:
            free = traverse.free_vars(self.interner.exprs[number])
            found = self._variables[number] = frozenset(self.interner.number(v) for v in free)
        return found

    def division(self, op: DivisionOp, dividend: Polynomial, divisor: Polynomial) -> int:
        """The atom `dividend op divisor`; the operands must be exact."""
        return self._structured((op, dividend.key, divisor.key), Division(op, dividend, divisor))

    def extremum(self, op: ExtremumOp, a: Polynomial, b: Polynomial) -> int:
        """The atom min(a, b) or max(a, b); the operands must be exact."""
        return self._structured((op, frozenset((a.key, b.key))), Extremum(op, a, b))

    def _structured(self, key: object, structure: Structure) -> int:
        found = self._by_structure.get(key)
        if found is not None:
            return found
        a, b = operands(structure)
        number = self.interner.number(_binary(structure.op, self.emit(a), self.emit(b)))
        self._by_structure[key] = number
        self.structures[number] = structure
        self.exact.add(number)
        return number

    def cost(self, polynomial: Polynomial) -> int:
        """The cost of `emit(polynomial)`, without building it."""
        terms = polynomial.terms
        if not terms:
            return LEAF_COST
        costs = self.interner.costs
        total = ADD_COST * (len(terms) - 1)
        has_positive = False
        for monomial, coefficient in terms.items():
            has_positive = has_positive or coefficient > 0
            if not monomial:
                total += LEAF_COST
                continue
            for number in monomial:
                total += costs[number]
            total += MUL_COST * (len(monomial) - 1)
            if coefficient not in (1, -1):
                total += MUL_COST + LEAF_COST
        if not has_positive and next((k for m, k in terms.items() if m), 0) == -1:
            total += NEG_COST
        return total

    def emit(self, polynomial: Polynomial) -> Expr:
        """The polynomial as an expression: a positive term, then the others in order, the constant last."""
        terms = [*polynomial.varying(), *((m, k) for m, k in polynomial.terms.items() if not m)]
        if not terms:
            return nodes.Const(dtypes.index, 1, 0)
        first = next((i for i, (_, k) in enumerate(terms) if k > 0), None)
        if first is None:
            total = self._negative_first(*terms[0])
            rest = terms[1:]
        else:
            total = self._term(*terms[first])
            rest = terms[:first] + terms[first + 1 :]
        for monomial, coefficient in rest:
            op: nodes.BinaryOp = "add" if coefficient > 0 else "sub"
            total = _binary(op, total, self._term(monomial, abs(coefficient)))
        return total

    def _negative_first(self, monomial: Monomial, coefficient: int) -> Expr:
        if coefficient == -1 and monomial:
            return nodes.Unary(dtypes.index, 1, "neg", self._term(monomial, 1))
        return self._term(monomial, coefficient)

    def _term(self, monomial: Monomial, coefficient: int) -> Expr:
        if not monomial:
            return nodes.Const(dtypes.index, 1, coefficient)
        product = self.expr(monomial[0])
        for number in monomial[1:]:
            product = _binary("mul", product, self.expr(number))
        if coefficient == 1:
            return product
        return _binary("mul", product, nodes.Const(dtypes.index, 1, coefficient))


def _binary(op: nodes.BinaryOp, a: Expr, b: Expr) -> Expr:
    return nodes.Binary(dtypes.index, 1, op, a, b)
