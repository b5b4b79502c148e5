"""Simplification of expressions under what the loops and branches around them say, and removal of what does nothing."""

from __future__ import annotations

from lpx.arith.analyzer import Analyzer
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Const, Expr, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Function, Seq, Stmt
from lpx.passes import knowledge
from lpx.passes.folding import FALSE, conjunction, conjuncts, constant
from lpx.passes.masking import negated
from lpx.records import record, replace

_NOTHING = Seq(())


@record
class Simplify:
    """Simplify every expression and drop what has no effect.

    Goes: branches and checks that are decided, loops of no or one iteration, empty statements, unused lets and
    allocations, stores to temporaries that nobody reads, masks that are on everywhere.

    before: `for i in 0..1 { if i * 4 < 8 { B[i + 0] = A[i] } }`
    after:  `B[0] = A[0]`
    """

    def __call__(self, function: Function) -> Function:
        body = drop_dead_stores(function.body)
        body = _simplify(body, knowledge.at_entry(function), shares=False)
        return function if body is function.body else replace(function, body=body)


def drop_dead_stores(stmt: Stmt) -> Stmt:
    """`stmt` without stores to buffers that are allocated in it and never read."""
    allocated = {s.buffer for s in traverse.walk(stmt) if isinstance(s, nodes.Alloc)}
    dead = allocated - traverse.read_buffers(stmt)
    if not dead:
        return stmt
    return traverse.transform(stmt, lambda s: _NOTHING if isinstance(s, nodes.Store) and s.buffer in dead else None)


def _simplify(stmt: Stmt, analyzer: Analyzer, *, shares: bool) -> Stmt:
    """`stmt` simplified. `shares`: all threads of a region run it, of which each takes its share of parallel loops."""
    match stmt:
        case Seq(stmts=stmts):
            return _sequence(stmt, [_simplify(s, analyzer, shares=shares) for s in stmts])
        case nodes.For():
            return _simplify_loop(stmt, analyzer, shares)
        case nodes.If():
            return _simplify_branch(stmt, analyzer, shares)
        case nodes.Let():
            return _simplify_let(stmt, analyzer, shares)
        case nodes.Store():
            return _simplify_store(stmt, analyzer)
        case nodes.Check(cond=cond):
            return _NOTHING if analyzer.prove(cond) else _map(stmt, analyzer, analyzer, shares)
        case nodes.Alloc(buffer=buffer):
            body = _simplify(stmt.body, analyzer, shares=shares)
            return replace(stmt, body=body) if _mentions(body, buffer) else body
        case nodes.Block():
            return _map(stmt, analyzer, knowledge.inside(analyzer, stmt), shares)
        case _:
            return _map(stmt, analyzer, analyzer, shares or isinstance(stmt, nodes.ParallelRegion))


def _map(stmt: Stmt, here: Analyzer, within: Analyzer, shares: bool) -> Stmt:
    return traverse.map_children(stmt, lambda s: _simplify(s, within, shares=shares), here.simplify)


def _sequence(stmt: Seq, stmts: list[Stmt]) -> Stmt:
    same = all(a is b and not isinstance(a, Seq) for a, b in zip(stmts, stmt.stmts, strict=True))
    return stmt if same and len(stmts) != 1 else traverse.sequence(stmts)


def _is_nothing(stmt: Stmt) -> bool:
    return isinstance(stmt, Seq) and not stmt.stmts


def _simplify_loop(stmt: nodes.For, analyzer: Analyzer, shares: bool) -> Stmt:
    start, extent = analyzer.simplify(stmt.start), analyzer.simplify(stmt.extent)
    count = constant(extent)
    if count is not None and count <= 0:
        return _NOTHING
    is_shared = shares and stmt.kind == "parallel"  # without the loop, every thread would run the one iteration
    if count == 1 and stmt.kind != "bound" and not is_shared:
        return _simplify(traverse.substitute(stmt.body, {stmt.var: start}), analyzer, shares=shares)
    loop = traverse.rebuild(stmt, [stmt.body], [start, extent])
    body = _simplify(stmt.body, knowledge.inside(analyzer, loop), shares=shares and not is_shared)
    return body if _is_nothing(body) else traverse.rebuild(loop, [body], [start, extent])


def _simplify_branch(stmt: nodes.If, analyzer: Analyzer, shares: bool) -> Stmt:
    cond = _simplify_condition(stmt.cond, analyzer)
    if isinstance(cond, Const):
        taken = stmt.then if cond.value else stmt.orelse
        return _NOTHING if taken is None else _simplify(taken, analyzer, shares=shares)
    then = _simplify(stmt.then, knowledge.assuming(analyzer, cond), shares=shares)
    orelse = None if stmt.orelse is None else _simplify(stmt.orelse, knowledge.otherwise(analyzer, cond), shares=shares)
    if orelse is not None and _is_nothing(orelse):
        orelse = None
    if _is_nothing(then):
        return _NOTHING if orelse is None else replace(stmt, cond=negated(cond), then=orelse, orelse=None)
    if orelse is None and stmt.orelse is not None:
        return replace(stmt, cond=cond, then=then, orelse=None)
    return traverse.rebuild(stmt, [then] if orelse is None else [then, orelse], [cond])


def _simplify_condition(cond: Expr, analyzer: Analyzer) -> Expr:
    """`cond` without the parts that certainly hold; the constant false when one certainly does not."""
    if analyzer.prove(cond):
        return Const(cond.dtype, 1, True)
    parts = conjuncts(cond)
    if any(analyzer.prove(negated(part)) for part in parts):
        return FALSE
    open_parts = [part for part in parts if not analyzer.prove(part)]
    joined = cond if len(open_parts) == len(parts) else conjunction(open_parts)
    return Const(cond.dtype, 1, True) if joined is None else analyzer.simplify(joined)


def _simplify_let(stmt: nodes.Let, analyzer: Analyzer, shares: bool) -> Stmt:
    value = analyzer.simplify(stmt.value)
    if isinstance(value, Const | Var):
        return _simplify(traverse.substitute(stmt.body, {stmt.var: value}), analyzer, shares=shares)
    let = traverse.rebuild(stmt, [stmt.body], [value])
    body = _simplify(stmt.body, knowledge.inside(analyzer, let), shares=shares)
    used = any(e is stmt.var for e in traverse.walk_expressions(body))
    return traverse.rebuild(let, [body], [value]) if used else body


def _simplify_store(stmt: nodes.Store, analyzer: Analyzer) -> Stmt:
    if stmt.mask is not None:
        if analyzer.prove(negated(stmt.mask)):
            return _NOTHING
        if analyzer.prove(stmt.mask):
            stmt = replace(stmt, mask=None)
    return traverse.rebuild(stmt, [], [analyzer.simplify(e) for e in traverse.expressions(stmt)])


def _mentions(stmt: Stmt, buffer: Buffer) -> bool:
    return buffer in traverse.read_buffers(stmt) or buffer in traverse.written_buffers(stmt)
