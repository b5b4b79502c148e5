"""Vectors that begin where lines of memory do, for stores past the caches."""

from __future__ import annotations

from collections.abc import Callable

from lpx import dtypes
from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Call, Compare, Const, Expr, Var
from lpx.ir import hardware, traverse
from lpx.ir.nodes import For, Function, If, Let, Stmt, Store
from lpx.passes.folding import constant, fold
from lpx.records import record, replace

ALIGNED = "aligned"
"""The pragma of a loop that stores whole vectors, each at a multiple of its own length in bytes."""

LINE = hardware.LINE_BYTES


@record
class AlignStores:
    """Let the main part of a loop over vectors store each of them at a multiple of its length, wherever arrays begin.

    before: `for v in 0..ceildiv(n, 16) { for l in 0..16 vectorize { if v * 16 + l < n { B[v * 16 + l] = .. } } }`
    after:  `let first = (64 - line_offset(&B[0])) // 4 % 16 ; let whole = (n - first) // 16`
            `for l in 0..16 vectorize { if l < first { B[l] = .. } }`
            `for v in 0..whole { for l in 0..16 vectorize { B[first + v * 16 + l] = .. } }`
            and the rest in a last vector like the first one.

    It pays where stores go past the caches, which take whole lines only (in a loop with the pragma `nontemporal`), for
    rows of at least `shortest` vectors of a parameter, and values of at most `size` operations, since the loop's body
    is there three times. A store to a cache takes two lines at once nearly as fast as one.
    """

    shortest: int = 8
    size: int = 48

    def __call__(self, function: Function) -> Function:
        written = {p.buffer for p in function.params if p.role != "in"}
        body = self._visit(function.body, written, is_streamed=False)
        return function if body is function.body else replace(function, body=body)

    def _visit(self, stmt: Stmt, written: set[Buffer], *, is_streamed: bool) -> Stmt:
        if isinstance(stmt, For):
            is_streamed = is_streamed or bool(stmt.pragmas.get("nontemporal"))
            row = _match(stmt) if is_streamed else None
            if row is not None and row.store.buffer in written and self._pays(row):
                return _aligned(row)
        return traverse.map_children(stmt, lambda s: self._visit(s, written, is_streamed=is_streamed), lambda e: e)

    def _pays(self, row: _Row) -> bool:
        found = list(expr_traverse.walk(row.store.value))
        costly = any(isinstance(e, Call) and e.op.kind != "primitive" for e in found)
        return row.vectors >= self.shortest and len(found) <= self.size and not costly


@record(eq=False)
class _Row:
    """A loop over `vectors` vectors that does nothing but store elements `place` = 0..extent of one row."""

    loop: For
    inner: For
    store: Store
    place: Var
    extent: Expr
    vectors: int
    lanes: int


def _match(loop: For) -> _Row | None:
    inner = loop.body
    if loop.kind not in ("serial", "parallel") or loop.stages is not None or constant(loop.start) != 0:
        return None
    if not isinstance(inner, For) or inner.kind != "vectorized" or constant(inner.start) != 0:
        return None
    lanes, vectors, body = constant(inner.extent), constant(loop.extent), inner.body
    if lanes is None or lanes & (lanes - 1) or vectors is None:
        return None
    place = build.var("place")
    at_place: dict[Var, Expr] = {inner.var: place - loop.var * lanes}
    extent: Expr = build.const(vectors * lanes)
    if isinstance(body, If) and not body.orelse:
        limit, body = _limit(body.cond, at_place, place), body.then
        if limit is None or loop.var in expr_traverse.free_vars(limit):
            return None
        extent = Analyzer().simplify(build.minimum(limit, extent))
    if not isinstance(body, Store) or not _is_plain(body, lanes):
        return None
    store = _simplified(body, at_place)
    used = [expr_traverse.free_vars(e) for e in traverse.expressions(store)]
    *others, last = (expr_traverse.free_vars(i) for i in store.indices)
    form = Analyzer().affine(store.indices[-1])
    alone = all(loop.var not in u for u in used) and place in last and not any(place in u for u in others)
    if not alone or form is None or form.coefficient(place) != 1:
        return None
    return _Row(loop, inner, store, place, extent, vectors, lanes)


def _is_plain(store: Store, lanes: int) -> bool:
    """Whether a row of the buffer lies side by side in memory, and vectors of it are no longer than a line."""
    buffer = store.buffer
    fits = 16 <= lanes * buffer.dtype.itemsize <= LINE and buffer.dtype.bits >= 8
    return store.mask is None and fits and buffer.strides is None and buffer.layout is None


def _limit(cond: Expr, at_place: dict[Var, Expr], place: Var) -> Expr | None:
    """What a guard keeps `place` below; None for any other guard."""
    if not isinstance(cond, Compare) or cond.op != "lt" or cond.a.dtype != dtypes.index:
        return None
    analyzer = Analyzer()
    margin = analyzer.simplify(expr_traverse.substitute(cond.b - cond.a, at_place))
    limit = analyzer.simplify(margin + place)
    return None if place in expr_traverse.free_vars(limit) else limit


def _simplified(store: Store, at_place: dict[Var, Expr]) -> Store:
    memo: dict[Expr, Expr] = {}
    analyzer = Analyzer()

    def visit(expr: Expr) -> Expr:
        return analyzer.simplify(expr_traverse.substitute(expr, at_place, memo))

    return replace(store, indices=tuple(visit(i) for i in store.indices), value=visit(store.value))


def _aligned(row: _Row) -> Stmt:
    """The row as a first vector up to where a whole one may begin, whole vectors, and the rest."""
    store, lanes, itemsize = row.store, row.lanes, row.store.buffer.dtype.itemsize
    offset, first, whole = (build.var(name) for name in ("offset", "first", "whole"))
    start = [fold(expr_traverse.substitute(i, {row.place: build.const(0)})) for i in store.indices]
    before = build.hardware_call(hardware.LINE_OFFSET, [build.address_of(store.buffer, start)])
    count = build.var(row.loop.var.name)
    main = replace(
        row.loop,
        var=count,
        extent=whole,
        body=_vector(row, lambda lane: first + count * lanes + lane),
        pragmas={**row.loop.pragmas, ALIGNED: True},
    )
    is_long = (
        isinstance(row.extent, Const) and row.extent.value >= lanes
    )  # else it may end before a whole vector begins
    edge = _vector(row, lambda lane: lane, first if is_long else build.minimum(first, row.extent))
    rest = _vector(row, lambda lane: first + whole * lanes + lane, row.extent)
    count_whole = (row.extent - first) // lanes
    body: Stmt = traverse.sequence([edge, main, rest])
    for var, value in (
        (whole, count_whole if is_long else build.maximum(count_whole, 0)),
        (first, (build.const(LINE) - offset) // itemsize % lanes),
        (offset, before),
    ):
        body = Let(var, value, body)
    return body


def _vector(row: _Row, place_of: Callable[[Var], Expr], end: Expr | None = None) -> For:
    """One vector of the row; with `end`, as far as its places lie below that."""
    lane = build.var(row.inner.var.name)
    place = place_of(lane)
    body: Stmt = traverse.substitute(row.store, {row.place: place})
    if end is not None:
        body = If(build.compare("lt", place, end), body)
    return replace(row.inner, var=lane, body=body)
