"""Where temporaries are allocated, and how much of them: as near to their use, and as little, as their use allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Broadcast, Expr, Load, Ramp, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Alloc, For, Function, Stmt
from lpx.passes import knowledge
from lpx.passes.folding import constant
from lpx.passes.written_regions import writes_before_reading
from lpx.records import record, replace

_PRIVATE_KINDS = ("parallel", "vectorized", "unrolled", "bound")


@record
class PlanAllocations:
    """Move each allocation into the loops that all accesses are in, and shrink it to what one iteration touches.

    before: `alloc T: float32[n]; for o in 0..n // 8 { for i in 0..8 { T[o * 8 + i] = .. }; .. T[o * 8 + i] .. }`
    after:  `for o in 0..n // 8 { alloc T: float32[8]; for i in 0..8 { T[i] = .. }; .. T[i] .. }`

    Into a loop only if each iteration writes what it reads: the state of a scan stays outside. Inside a parallel loop
    every iteration has a buffer of its own. Buffers that do not fit `small` bytes, or whose size is not known, are
    allocated outside of the serial loops around their use, so that they are allocated once.
    """

    small: int = 16384

    def __call__(self, function: Function) -> Function:
        body = self._visit(function.body, knowledge.at_entry(function))
        return function if body is function.body else replace(function, body=body)

    def _visit(self, stmt: Stmt, analyzer: Analyzer) -> Stmt:
        if not isinstance(stmt, Alloc):
            return knowledge.visit_children(stmt, analyzer, self._visit)
        body = self._visit(stmt.body, analyzer)
        return self._place(traverse.rebuild(stmt, [body], []), analyzer)

    def _place(self, alloc: Stmt, analyzer: Analyzer) -> Stmt:
        if not isinstance(alloc, Alloc):
            return alloc
        buffer = alloc.buffer
        stays = buffer.scope == "register"  # its values live across the loops inside, wherever those are
        path, known = ([alloc.body], analyzer) if stays else _path_to_use(alloc, analyzer)
        window = _window(buffer, path[-1], known)
        outside = {s.var for s in path[:-1] if isinstance(s, For | nodes.Let)}
        window = [side if side is not None and not _depends(side.extent, outside) else None for side in window]
        shrunk, target = buffer, path[-1]
        if len(path) == 1 and not any(window):
            return alloc
        if any(side is not None for side in window):
            shape = tuple(e if s is None else s.extent for e, s in zip(buffer.shape, window, strict=True))
            shrunk = replace(buffer, shape=shape)
            target = _shift(target, buffer, shrunk, window, known)
        depth = self._depth(shrunk, path)
        new = Alloc(shrunk, target, span=alloc.span) if depth == len(path) - 1 else target
        for index in range(len(path) - 2, -1, -1):
            new = _with_child(path[index], path[index + 1], new)
            if index == depth:
                new = Alloc(shrunk, new, span=alloc.span)
        return new

    def _depth(self, buffer: Buffer, path: Sequence[Stmt]) -> int:
        """Position in `path` of the statement to allocate around: inside all loops whose iterations need their own."""
        size = buffer.dtype.itemsize
        for extent in buffer.shape:
            size *= constant(extent) or self.small + 1
        if size <= self.small:
            return len(path) - 1
        inner = [i for i, s in enumerate(path[:-1]) if isinstance(s, For) and s.kind in _PRIVATE_KINDS]
        return inner[-1] + 1 if inner else 0


def _path_to_use(alloc: Alloc, analyzer: Analyzer) -> tuple[list[Stmt], Analyzer]:
    """The statements from the body of `alloc` down to the innermost one that can have the buffer to itself.

    Also, what is known around the last of them.
    """
    stmt = alloc.body
    path = [stmt]
    while not any(_touches(e, alloc.buffer) for e in traverse.expressions(stmt)):
        users = [s for s in traverse.substatements(stmt) if _uses(s, alloc.buffer)]
        if len(users) != 1 or not isinstance(stmt, nodes.Seq | For | nodes.If | nodes.Let | Alloc):
            break
        within = (
            analyzer if isinstance(stmt, nodes.If) and users[0] is stmt.orelse else knowledge.inside(analyzer, stmt)
        )
        if isinstance(stmt, For) and not _may_enter(stmt, alloc.buffer, within):
            break
        analyzer, stmt = within, users[0]
        path.append(stmt)
    return path, analyzer


def _may_enter(loop: For, buffer: Buffer, within: Analyzer) -> bool:
    """Whether each iteration may have a buffer of its own: it writes what it reads, and memory can be private to it."""
    if loop.kind == "bound" and buffer.scope != "local":
        is_block = loop.thread is not None and loop.thread.startswith("blockIdx")
        if buffer.scope != "shared" or not is_block:
            return False
    return writes_before_reading(loop.body, buffer, within)


def _touches(expr: Expr, buffer: Buffer) -> bool:
    return any(access.buffer is buffer for access in expr_traverse.accesses(expr))


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    return buffer in traverse.read_buffers(stmt) or buffer in traverse.written_buffers(stmt)


def _with_child(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    return traverse.map_children(stmt, lambda s: new if s is old else s, lambda e: e)


def _depends(expr: Expr, variables: set[Var]) -> bool:
    return bool(expr_traverse.free_vars(expr) & variables)


@record
class _Side:
    """The part of an axis that is used: `extent` indices from `base`."""

    base: Expr
    extent: Expr


def _window(buffer: Buffer, stmt: Stmt, analyzer: Analyzer) -> list[_Side | None]:
    """What part of each axis `stmt` touches; None for an axis that stays whole."""
    if buffer.layout is not None or buffer.strides is not None:
        return [None] * buffer.rank
    found = list(_indices(stmt, buffer, analyzer, ()))
    if any(not indices for indices, _, _ in found):
        return [None] * buffer.rank
    sides: list[_Side | None] = []
    for axis in range(buffer.rank):
        bounds = [known.symbolic_bounds(indices[axis], inner) for indices, known, inner in found]
        sides.append(_side([b for b in bounds if b is not None], buffer.shape[axis], analyzer) if all(bounds) else None)
    return sides


def _side(bounds: Sequence[tuple[Expr, Expr]], extent: Expr, analyzer: Analyzer) -> _Side | None:
    low = _extreme([b[0] for b in bounds], analyzer, lower=True)
    high = _extreme([b[1] for b in bounds], analyzer, lower=False)
    if low is None or high is None:
        return None
    size = analyzer.simplify(high - low + 1)
    limit = analyzer.bounds(size).hi
    if limit is not None:
        size = build.const(max(limit, 0))
    becomes_known = limit is not None and constant(extent) is None
    return _Side(low, size) if becomes_known or analyzer.prove(build.compare("lt", size, extent)) else None


def _extreme(exprs: Sequence[Expr], analyzer: Analyzer, *, lower: bool) -> Expr | None:
    """The expression that is proved to be the smallest (or largest) of all."""
    best = exprs[0]
    for expr in exprs[1:]:
        a, b = (best, expr) if lower else (expr, best)
        if analyzer.prove(build.compare("le", a, b)):
            continue
        if not analyzer.prove(build.compare("le", b, a)):
            return None
        best = expr
    return best


def _indices(
    stmt: Stmt, buffer: Buffer, analyzer: Analyzer, inner: tuple[Var, ...]
) -> Iterator[tuple[tuple[Expr, ...], Analyzer, tuple[Var, ...]]]:
    """The indices of all accesses to `buffer`, with the variables bound inside `stmt` around each.

    No indices stand for an access that is not understood.
    """
    for expr in traverse.expressions(stmt):
        for access in expr_traverse.accesses(expr):
            if access.buffer is buffer:
                yield from ((indices, analyzer, inner) for indices in _edges(access.indices))
    match stmt:
        case nodes.Store(buffer=b, indices=indices) | nodes.AtomicUpdate(buffer=b, indices=indices) if b is buffer:
            yield from ((edge, analyzer, inner) for edge in _edges(indices))
        case nodes.AsyncCopy() | nodes.CallFunction() if _uses(stmt, buffer):
            yield (), analyzer, inner
        case For(var=var) | nodes.Let(var=var):
            inner = (*inner, var)
        case _:
            pass
    within = knowledge.inside(analyzer, stmt) if isinstance(stmt, For) else analyzer
    for child in traverse.substatements(stmt):
        yield from _indices(child, buffer, within, inner)


def _edges(indices: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], ...]:
    """The first and last lane of a vector access along ramps, between which all others lie; a scalar access itself."""
    if all(i.lanes == 1 for i in indices):
        return (indices,)
    first: list[Expr] = []
    last: list[Expr] = []
    for index in indices:
        match index:
            case Ramp(base=base, stride=stride, lanes=lanes):
                first.append(base)
                last.append(base + stride * (lanes - 1))
            case Broadcast(value=value):
                first.append(value)
                last.append(value)
            case _ if index.lanes == 1:
                first.append(index)
                last.append(index)
            case _:
                return ((),)
    return (tuple(first), tuple(last))


def _shift(stmt: Stmt, buffer: Buffer, shrunk: Buffer, window: Sequence[_Side | None], analyzer: Analyzer) -> Stmt:
    """`stmt` with accesses to `buffer` going to `shrunk`, whose first element is at the base of `window`."""
    memo: dict[Expr, Expr] = {}

    def moved(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(i if s is None else _minus(i, s.base, analyzer) for i, s in zip(indices, window, strict=True))

    def on_node(expr: Expr) -> Expr | None:
        if isinstance(expr, Load | AddressOf) and expr.buffer is buffer:
            return replace(expr, buffer=shrunk, indices=moved(expr.indices))
        return None

    def on_stmt(node: Stmt) -> Stmt | None:
        if isinstance(node, nodes.Store | nodes.AtomicUpdate) and node.buffer is buffer:
            return replace(node, buffer=shrunk, indices=moved(node.indices))
        return None

    return traverse.transform(stmt, on_stmt, lambda e: expr_traverse.transform(e, on_node, memo))


def _minus(index: Expr, base: Expr, analyzer: Analyzer) -> Expr:
    return analyzer.simplify(index - build.broadcast(base, index.lanes))
