"""Whether iterations of a loop may be interleaved statement by statement."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from lpx.arith.affine import AffineForm, Term
from lpx.arith.analyzer import Analyzer
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Call, Expr, Load, Var
from lpx.ir import nodes, traverse
from lpx.ir.hardware import PREFETCH
from lpx.ir.nodes import For, Stmt
from lpx.records import record


def can_interleave(loop: For, lanes: int) -> bool:
    """Whether running each statement of the body for all `lanes` iterations, then the next one, changes nothing.

    That is so when no two iterations touch the same element of a buffer that the body writes. A store that is the only
    access to its buffer, and in no loop of its own, may write where it likes, since lanes store in order.
    """
    accesses = _Accesses(loop)
    if accesses.has_opaque:
        return False
    analyzer = Analyzer()
    return all(
        _is_one_ordered_store(found) or _lanes_are_apart(loop.var, lanes, found, accesses.bound, analyzer)
        for found in accesses.of_written()
    )


@record
class _Access:
    indices: tuple[Expr, ...]
    is_store: bool
    is_repeated: bool


class _Accesses:
    """The accesses in the body of a loop, by buffer; buffers allocated inside are private to an iteration."""

    def __init__(self, loop: For) -> None:
        self.has_opaque = False
        self.bound: set[Var] = set()
        self._private: set[Buffer] = set()
        self._found: dict[Buffer, list[_Access]] = {}
        self._visit(loop.body, is_repeated=False)

    def of_written(self) -> list[list[_Access]]:
        """The accesses to each buffer that is written."""
        shared = [found for buffer, found in self._found.items() if buffer not in self._private]
        return [found for found in shared if any(access.is_store for access in found)]

    def _visit(self, stmt: Stmt, is_repeated: bool) -> None:
        for expr in traverse.expressions(stmt):
            self._add_reads(expr, is_repeated)
        match stmt:
            case nodes.Store(buffer=buffer, indices=indices) | nodes.AtomicUpdate(buffer=buffer, indices=indices):
                self._found.setdefault(buffer, []).append(_Access(indices, True, is_repeated))
            case nodes.Alloc(buffer=buffer):
                self._private.add(buffer)
            case nodes.Let(var=var) | For(var=var):
                self.bound.add(var)
            case nodes.AsyncCopy() | nodes.CallFunction() | nodes.Barrier():
                self.has_opaque = True
            case _:
                pass
        inside = is_repeated or isinstance(stmt, For | nodes.While)
        for child in traverse.substatements(stmt):
            self._visit(child, inside)

    def _add_reads(self, expr: Expr, is_repeated: bool) -> None:
        for node in expr_traverse.walk(expr):
            if isinstance(node, Load):
                self._found.setdefault(node.buffer, []).append(_Access(node.indices, False, is_repeated))
            elif isinstance(node, Call) and node.op.kind in ("hardware", "extern") and node.op.name != PREFETCH.name:
                self.has_opaque = self.has_opaque or any(isinstance(arg, AddressOf) for arg in node.args)


def _is_one_ordered_store(found: Sequence[_Access]) -> bool:
    return len(found) == 1 and not found[0].is_repeated


def _lanes_are_apart(lane: Var, lanes: int, found: Sequence[_Access], bound: set[Var], analyzer: Analyzer) -> bool:
    """Whether along some axis no two lanes meet, whatever values the variables in `bound` have in each."""
    rank = len(found[0].indices)
    return any(
        _axis_is_apart(lane, lanes, [analyzer.affine(access.indices[axis]) for access in found], bound)
        for axis in range(rank)
    )


def _axis_is_apart(lane: Var, lanes: int, forms: Sequence[AffineForm | None], bound: set[Var]) -> bool:
    """Index k*lane + fixed + g*(anything) + constant, with k, fixed and g the same for all: do two lanes ever meet?"""
    factors: set[int | None] = set()
    fixed: set[frozenset[tuple[int, tuple[int, ...]]]] = set()
    constants: set[int] = set()
    step = 0
    for form in forms:
        if form is None:
            return False
        factors.add(form.coefficient(lane))
        rest = form.without(lane)
        free = [term for term in rest.terms if _is_free(term, bound)]
        step = gcd(step, *(term.coefficient for term in free))
        fixed.add(frozenset(_key(term) for term in rest.terms if not _is_free(term, bound)))
        constants.add(rest.constant)
    factor = next(iter(factors))
    if len(factors) != 1 or len(fixed) != 1 or not factor:
        return False
    shifts = {a - b for a in constants for b in constants}
    distances = {factor * apart + shift for apart in range(1, lanes) for shift in shifts}
    return all(distance % step if step else distance for distance in distances)


def _is_free(term: Term, bound: set[Var]) -> bool:
    """Whether a term may differ between two moments of the loop other than through the lane."""
    return any(
        isinstance(node, Load) or (isinstance(node, Var) and node in bound)
        for atom in term.atoms
        for node in expr_traverse.walk(atom)
    )


def _key(term: Term) -> tuple[int, tuple[int, ...]]:
    return term.coefficient, tuple(sorted(id(atom) for atom in term.atoms))
