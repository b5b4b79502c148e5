"""Index safety: every read of a definition stays within its tensor, by proof or, where data decides, by a check."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from lpx import dtypes
from lpx.arith.analyzer import Analyzer
from lpx.errors import IndexRangeError
from lpx.expr import build, traverse
from lpx.expr.nodes import Cast, Compare, Const, Expr, Load, Select
from lpx.ir.printer import print_expr
from lpx.records import record
from lpx.source import Span
from lpx.te.shapes import knowledge
from lpx.te.tensor import AxisVar, open_frames


@record(eq=False)
class IndexCheck:
    """A condition that must hold at run time wherever a definition is computed."""

    cond: Expr
    message: str
    span: Span | None


def check_indices(
    exprs: Sequence[Expr], axes: Iterable[AxisVar], spans: Mapping[Expr, Span | None], span: Span | None
) -> tuple[IndexCheck, ...]:
    """The run-time checks that the reads in `exprs` need, in the order in which they are to be made.

    An index without data in it must be proved; the conditions of the `te.where`s around a read help. The times of the
    scans whose steps are being written are known as the `axes` are.

    Raises: IndexRangeError when an index cannot be proved to stay within its tensor.
    """
    loads = (node for expr in exprs for node in traverse.accesses(expr) if isinstance(node, Load))
    extents = [extent for load in loads for extent in load.buffer.shape]
    times = [frame.time for frame in open_frames.get()]
    start = _Guard(knowledge([*times, *axes], [*extents, *exprs]), ())
    checks: list[IndexCheck] = []
    for load, guard in _guarded_loads(exprs, start):
        for check in _check_load(load, guard, spans.get(load, span)):
            if not any(traverse.structural_equal(check.cond, other.cond) for other in checks):
                checks.append(check)
    return tuple(checks)


@record(eq=False)
class _Guard:
    """What holds where an expression is computed: the conditions around it, outermost first."""

    analyzer: Analyzer
    conds: tuple[Expr, ...]
    inner: dict[tuple[Expr, bool], _Guard] = field(default_factory=dict["tuple[Expr, bool]", "_Guard"])

    def under(self, cond: Expr, holds: bool) -> _Guard:
        """The guard where, besides, `cond` is true or false."""
        found = self.inner.get((cond, holds))
        if found is None:
            fact = cond if holds else build.unary("not", cond)
            found = _Guard(self.analyzer.with_fact(fact).with_fact(_widened(fact)), (*self.conds, fact))
            self.inner[cond, holds] = found
        return found

    def holding(self, cond: Expr) -> Expr:
        """`cond` where this guard holds, true elsewhere; `cond` reads no memory elsewhere."""
        for guard in reversed(self.conds):
            cond = build.select(guard, cond, True)
        return cond


def _guarded_loads(exprs: Sequence[Expr], start: _Guard) -> Iterator[tuple[Load, _Guard]]:
    """Each read with each guard it stands under, after the reads in its indices."""
    seen: set[tuple[Expr, _Guard]] = set()
    stack = [(expr, start, False) for expr in reversed(exprs)]
    while stack:
        node, guard, done = stack.pop()
        if done and isinstance(node, Load):
            yield node, guard
        if done or (node, guard) in seen:
            continue
        seen.add((node, guard))
        stack.append((node, guard, True))
        stack.extend((child, inner, False) for child, inner in reversed(_children(node, guard)))


def _children(node: Expr, guard: _Guard) -> list[tuple[Expr, _Guard]]:
    if isinstance(node, Select):
        return [(node.cond, guard), (node.a, guard.under(node.cond, True)), (node.b, guard.under(node.cond, False))]
    return [(child, guard) for child in traverse.children(node)]


def _check_load(load: Load, guard: _Guard, span: Span | None) -> Iterator[IndexCheck]:
    for axis, (index, extent) in enumerate(zip(load.indices, load.buffer.shape, strict=True)):
        needed = (build.compare("le", 0, index), build.compare("lt", index, extent))
        unproved = [cond for cond in needed if not _is_proved(cond, guard)]
        if not unproved:
            continue
        if not any(isinstance(node, Load) for node in traverse.accesses(index)):
            raise _range_error(load, axis, guard, span)
        what = f"index {_text(index)} of {load.buffer.name}, axis {axis}, is outside [0, {_text(extent)})"
        yield IndexCheck(guard.holding(functools.reduce(_both, unproved)), what, span)


_MAX_CASES = 4


def _is_proved(cond: Expr, guard: _Guard, cases: int = _MAX_CASES) -> bool:
    """Whether `cond` holds under `guard`; the first selection within it is looked at case by case."""
    if guard.analyzer.prove(cond):
        return True
    choice = next((node for node in traverse.walk(cond) if isinstance(node, Select)), None)
    if choice is None or not cases:
        return False
    return all(
        _is_proved(_replaced(cond, choice, side), guard.under(choice.cond, holds), cases - 1)
        for side, holds in ((choice.a, True), (choice.b, False))
    )


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    return traverse.transform(expr, lambda node: new if node is old else None)


def _both(a: Expr, b: Expr) -> Expr:
    return a & b


def _range_error(load: Load, axis: int, guard: _Guard, span: Span | None) -> IndexRangeError:
    index, extent = load.indices[axis], load.buffer.shape[axis]
    return IndexRangeError(
        f"index {_text(index)} of {load.buffer.name}, axis {axis}, can leave [0, {_text(extent)}): it lies in"
        f" {_range_text(index, guard.analyzer)}",
        hint="guard the read by te.where(condition, read, other), limit the index by te.clip, or read from a padded"
        " tensor; an index counts from 0 and does not wrap around",
        span=span,
    )


def _range_text(index: Expr, analyzer: Analyzer) -> str:
    bounds = analyzer.bounds(index)
    ends: list[Expr | None] = [None if end is None else build.const(end) for end in (bounds.lo, bounds.hi)]
    axes = [v for v in traverse.free_vars(index) if isinstance(v, AxisVar)]
    symbolic = analyzer.symbolic_bounds(index, axes)
    if symbolic is not None:
        ends = [end if known is None else known for known, end in zip(ends, symbolic, strict=True)]
    low, high = ("?" if end is None else _text(end) for end in ends)
    return f"[{low}, {high}]"


def _text(expr: Expr) -> str:
    """The text of an index; that it was widened goes without saying."""
    return print_expr(expr.value if isinstance(expr, Cast) else expr).replace("\n", "; ")


def _widened(cond: Expr) -> Expr:
    """`cond` with comparisons of narrow integers made in the index dtype, in which facts about indices are stated."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, Compare) or not node.a.dtype.is_integer or node.a.dtype in _WIDE:
            return None
        return build.compare(node.op, _as_index(node.a), _as_index(node.b))

    return traverse.transform(cond, visit)


_WIDE = (dtypes.int64, dtypes.uint64)


def _as_index(value: Expr) -> Expr:
    return build.const(value.value) if isinstance(value, Const) else build.cast(value, dtypes.index)
