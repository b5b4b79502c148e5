"""Which iterations of a loop may touch the same element.

The test is exact for indices that are affine in the loops, divisions and remainders of fused loops included, and
conservative beyond. Two accesses meet where their indices are equal; a loop is *pinned* by a pair of accesses when
that forces the loop's variable to be equal in both. Example: `C[io*32 + ii]` with ii in 0..32 pins io and ii, since
32*(io - io') + (ii - ii') = 0 leaves io = io' only; then ii = ii'. A loop that every conflicting pair pins carries no
dependence: its iterations may run in any order, or at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lpx.arith.analyzer import Analyzer
from lpx.expr import traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Binary, Expr, Var
from lpx.ir.hardware import is_prefetch
from lpx.ir.nodes import Block, For, Function
from lpx.records import record
from lpx.schedule import queries
from lpx.schedule.linear import Linear, Term, linear
from lpx.schedule.queries import Access, Path


@record(eq=False)
class Conflict:
    """Two accesses of one buffer, one of them a write, and the loops around both that they pin."""

    first: Access
    second: Access
    pinned: frozenset[Var]

    @property
    def buffer(self) -> Buffer:
        return self.first.buffer

    @property
    def is_accumulation(self) -> bool:
        """Whether the pair is one reduction adding up in one place."""
        block = self.first.block
        return (
            block is not None
            and block is self.second.block
            and any(a.kind == "reduce" for a in block.axes)
            and _same_indices(self.first, self.second)
        )

    def allows(self, loop: Var) -> bool:
        """Whether the pair lets iterations of `loop` be reordered: pinned, or the loop of a reduction adding up."""
        block = self.first.block
        return loop in self.pinned or (
            self.is_accumulation and block is not None and axis_kinds(block, self.first.path, loop) <= {"reduce"}
        )


def conflicts_within(function: Function, loop: For) -> tuple[Conflict, ...]:
    """Every pair of accesses under `loop` to a buffer that outlives one iteration, one of them a write.

    A prefetch is none.
    """
    path = queries.path_to(function, loop)
    private = queries.allocated_within(loop)
    outside = queries.loops_of(path[:-1])
    found = [a for a in queries.accesses(loop, path[:-1]) if a.buffer not in private and not is_prefetch(a.path[-1])]
    like = _representatives(found)
    solved: dict[tuple[Access, Access], frozenset[Var]] = {}
    conflicts: list[Conflict] = []
    for position, first in enumerate(found):
        for second in found[position:]:
            if first.buffer is not second.buffer or not (first.is_write or second.is_write):
                continue
            key = (like[first], like[second])
            if key not in solved:
                solved[key] = frozenset(pinned(function, *key, outside))
            conflicts.append(Conflict(first, second, solved[key]))
    return tuple(conflicts)


def _representatives(accesses: Sequence[Access]) -> dict[Access, Access]:
    """For each access the first that has the same indices under the same loops: what one pins, the other pins."""
    firsts: list[Access] = []
    found: dict[Access, Access] = {}
    for access in accesses:
        same = (f for f in firsts if f.buffer is access.buffer and _same_loops(f, access) and _same_indices(f, access))
        found[access] = next(same, access)
        if found[access] is access:
            firsts.append(access)
    return found


def _same_loops(first: Access, second: Access) -> bool:
    a, b = queries.loops_of(first.path), queries.loops_of(second.path)
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def axis_kinds(block: Block, path: Path, loop: Var) -> set[str]:
    """The kinds of a block's axes whose bindings mention `loop`."""
    return {
        axis.kind
        for axis, value in zip(block.axes, block.bindings, strict=True)
        if loop in traverse.free_vars(queries.bound_along(path[: path.index(block)], value))
    }


def pinned(function: Function, first: Access, second: Access, outside: Sequence[For]) -> set[Var]:
    """The loops around both accesses whose variables are equal whenever both touch one element.

    The loops `outside` are taken to be in the same iteration for both.
    """
    loops = {f.var: f for f in (*queries.loops_of(first.path), *queries.loops_of(second.path))}
    analyzer = queries.analyzer_of(function, loops.values())
    fixed = {f.var for f in outside}
    shared = _shared_loops(first.path, second.path)
    free = set(loops) - set(shared) - fixed
    moving = [v for v in shared if v not in fixed]
    return _Solver(analyzer, moving, free).solve(_equations(first, second))


def _shared_loops(first: Path, second: Path) -> list[Var]:
    shared: list[Var] = []
    for a, b in zip(first, second, strict=False):
        if a is not b:
            break
        if isinstance(a, For):
            shared.append(a.var)
    return shared


def _equations(first: Access, second: Access) -> list[tuple[Expr, Expr]]:
    """What is equal where both accesses touch one element."""
    equations: list[tuple[Expr, Expr]] = []
    if first.indices is not None and second.indices is not None:
        equations.extend(zip(first.indices, second.indices, strict=True))
    return equations


def _same_indices(first: Access, second: Access) -> bool:
    if first.indices is None or second.indices is None:
        return False
    return all(traverse.structural_equal(a, b) for a, b in zip(first.indices, second.indices, strict=True))


class _Solver:
    """Finds which variables two solutions of a set of equations must share.

    An equation `a(x) = b(y)` has x and y over the same loops in two iterations. Terms over one atom with one
    coefficient become a difference; what is left over is only known by its bounds.
    """

    def __init__(self, analyzer: Analyzer, moving: Sequence[Var], free: Iterable[Var]) -> None:
        self._analyzer = analyzer
        self._moving = tuple(moving)
        self._free = tuple(free)
        self._pinned: set[Expr] = {v for v in self._moving if analyzer.bounds(v).is_point}

    def solve(self, equations: list[tuple[Expr, Expr]]) -> set[Var]:
        """The variables pinned by all equations together: every one where they have no solution."""
        pending = list(equations)
        while pending:
            before = len(self._pinned)
            left: list[tuple[Expr, Expr]] = []
            for a, b in pending:
                remaining = self._solve_one(a, b)
                if remaining is None:
                    return set(self._moving)
                left.extend([(a, b)] if remaining else [])
            if len(self._pinned) == before:
                break
            pending = [*left, *((x, x) for x in self._rejoined())]
        return {v for v in self._moving if v in self._pinned}

    def _solve_one(self, a: Expr, b: Expr) -> int | None:
        """Pin what one equation pins. The number of terms it leaves open, None where it has no solution at all."""
        chosen = (*self._moving, *self._free)
        left, right = linear(self._analyzer, a, chosen), linear(self._analyzer, b, chosen)
        if left is None or right is None:
            return 0
        differences, offset = self._difference(left, right)
        if offset is None:
            return 0
        while True:
            solved = next((t for t in differences if self._is_forced(t, differences, *offset)), None)
            if solved is None:
                return len(differences) if self._can_vanish(differences, *offset) else None
            self._pinned.add(solved.atom)
            differences.remove(solved)

    def _difference(self, left: Linear, right: Linear) -> tuple[list[Term], tuple[Expr, Expr] | None]:
        """Terms that differ only in the iteration, and inclusive bounds of everything else on the left minus right."""
        free = frozenset(self._free)
        common = [
            t for t in left.terms
            if (other := right.term(t.atom)) is not None
            and not traverse.free_vars(t.atom) & free
            and self._analyzer.equal(t.coefficient, other.coefficient)
        ]  # fmt: skip
        atoms = {t.atom for t in common}
        bounds = (self._bounds(left, atoms), self._bounds(right, atoms))
        if bounds[0] is None or bounds[1] is None:
            return common, None
        low, high = bounds[0][0] - bounds[1][1], bounds[0][1] - bounds[1][0]
        open_terms = [t for t in common if t.atom not in self._pinned]
        return sorted(open_terms, key=_largest_first), (self._analyzer.simplify(low), self._analyzer.simplify(high))

    def _bounds(self, side: Linear, without: set[Expr]) -> tuple[Expr, Expr] | None:
        total = side.rest
        for term in side.terms:
            if term.atom not in without:
                total = total + term.coefficient * term.atom
        return self._analyzer.symbolic_bounds(total, (*self._moving, *self._free))

    def _is_forced(self, term: Term, terms: Sequence[Term], low: Expr, high: Expr) -> bool:
        """Whether everything but `term` is smaller than one step of it, so that its difference is 0."""
        rest = self._widened([t for t in terms if t is not term], low, high)
        step = self._magnitude(term.coefficient)
        if rest is None or step is None:
            return False
        return self._analyzer.prove(rest[1] < step) and self._analyzer.prove(-step < rest[0])

    def _can_vanish(self, terms: Sequence[Term], low: Expr, high: Expr) -> bool:
        """Whether terms and offset may add up to 0, as far as is known."""
        total = self._widened(terms, low, high)
        return total is None or not (self._analyzer.prove(total[0] > 0) or self._analyzer.prove(total[1] < 0))

    def _widened(self, terms: Sequence[Term], low: Expr, high: Expr) -> tuple[Expr, Expr] | None:
        """The bounds of the offset and all of `terms` together."""
        for term in terms:
            reach = self._reach(term)
            if reach is None:
                return None
            low, high = low - reach, high + reach
        return low, high

    def _reach(self, term: Term) -> Expr | None:
        """The largest difference that a term can have between two iterations."""
        bounds = self._analyzer.symbolic_bounds(term.atom, (*self._moving, *self._free))
        step = self._magnitude(term.coefficient)
        return None if bounds is None or step is None else step * (bounds[1] - bounds[0])

    def _magnitude(self, coefficient: Expr) -> Expr | None:
        if self._analyzer.prove(coefficient > 0):
            return coefficient
        return -coefficient if self._analyzer.prove(coefficient < 0) else None

    def _rejoined(self) -> list[Expr]:
        """What is pinned because its quotient and remainder by one divisor both are.

        The quotient of `x // c` by `d` may stand as `x // (c * d)`, which is the same.
        """
        divisions = [e for e in self._pinned if isinstance(e, Binary)]
        return [
            m.a
            for m in divisions
            for q in divisions
            if m.op == "floormod" and q.op == "floordiv" and self._is_quotient(q, m.a, m.b)
        ]

    def _is_quotient(self, quotient: Binary, dividend: Expr, divisor: Expr) -> bool:
        """Whether `quotient`, a floor division, is `dividend // divisor`."""
        if traverse.structural_equal(quotient.a, dividend):
            return traverse.structural_equal(quotient.b, divisor)
        if not isinstance(dividend, Binary) or dividend.op != "floordiv":
            return False
        whole = dividend.b * divisor
        return traverse.structural_equal(quotient.a, dividend.a) and self._analyzer.equal(quotient.b, whole)


def _largest_first(term: Term) -> int:
    """Terms of large steps are forced first; symbolic steps are taken to be larger than numbers."""
    step = queries.constant_value(term.coefficient)
    return -(1 << 62) if step is None else -abs(step)
