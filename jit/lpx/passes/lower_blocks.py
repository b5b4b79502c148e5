"""Blocks to plain statements: bindings for axes, predicates to `If`, initialisations in place.

A reduction's `init` becomes a loop nest of its own before the outermost of its reduce loops. Besides leaving the update
free of a test, this starts accumulations over an empty axis too. Where the loops between do not allow it, `init` stays
with the update under `if all reduce axes are 0`.
"""

from __future__ import annotations

from lpx.arith.analyzer import Analyzer
from lpx.errors import InternalError
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Axis, Expr, Load, Var
from lpx.ir import nodes, traverse
from lpx.ir.hardware import is_prefetch
from lpx.ir.nodes import Alloc, Block, For, Function, If, Let, Stmt
from lpx.passes.copying import instantiate
from lpx.passes.folding import conjunction, conjuncts, constant
from lpx.records import record, replace

Path = tuple[Stmt, ...]
"""Statements around a position, outermost first. An `If` stands for its condition: its block is in `then`."""


@record
class LowerBlocks:
    """Replace every block by its statements.

    before: `for r in 0..k { block C(vi: spatial m = i, vr: reduce k = r) { init { C[vi] = 0 } C[vi] += A[vr] } }`
    after:  `C[i] = 0; for r in 0..k { C[i] = C[i] + A[r] }`
    """

    def __call__(self, function: Function) -> Function:
        body = _Lowering().visit(function.body, ())
        return function if body is function.body else replace(function, body=body)


class _Lowering:
    """One descent. `_before` holds the initialisations to put before a loop once the descent has left it."""

    def __init__(self) -> None:
        self._before: dict[Var, list[Stmt]] = {}

    def visit(self, stmt: Stmt, path: Path) -> Stmt:
        match stmt:
            case Block():
                return self._lower(stmt, path)
            case If(orelse=orelse) if orelse is not None:
                return replace(
                    stmt,
                    then=self.visit(stmt.then, (*path, stmt)),
                    orelse=self.visit(orelse, (*path, If(build.unary("not", stmt.cond), orelse))),
                )
            case nodes.Seq():
                return self._visit_seq(stmt, path)
            case _:
                inside = (*path, stmt)
                visited = traverse.map_children(stmt, lambda s: self.visit(s, inside), lambda e: e)
                inits = self._before.pop(stmt.var, []) if isinstance(stmt, For) else []
                return traverse.sequence([*inits, visited]) if inits else visited

    def _visit_seq(self, stmt: nodes.Seq, path: Path) -> Stmt:
        visited = [self.visit(s, path) for s in stmt.stmts]
        if all(a is b for a, b in zip(visited, stmt.stmts, strict=True)):
            return stmt
        return traverse.sequence(visited)

    def _lower(self, block: Block, path: Path) -> Stmt:
        values = dict(zip((axis.var for axis in block.axes), block.bindings, strict=True))
        inner = path if block.predicate is None else (*path, If(block.predicate, block))
        body = self.visit(traverse.substitute(block.body, values), inner)
        if block.init is not None:
            init = traverse.substitute(block.init, values)
            nest = hoist_init(block, init, inner)
            if nest is None:
                body = traverse.sequence([_guarded(block, init), body])
            else:
                self._before.setdefault(nest.loop.var, []).append(nest.init)
        return body if block.predicate is None else If(block.predicate, body, span=block.span)


def _guarded(block: Block, init: Stmt) -> Stmt:
    first = conjunction([build.compare("eq", b, 0) for a, b in _axes(block) if a.kind == "reduce"])
    return init if first is None else If(first, init)


@record
class InitNest:
    """An initialisation nest and the reduce loop it goes before."""

    loop: For
    init: Stmt


def hoist_init(block: Block, init: Stmt, path: Path) -> InitNest | None:
    """The nest that runs `init` before the outermost reduce loop around `block`, None where that would change results.

    `init` has its axes replaced; `path` leads to the block and ends with its predicate.
    """
    spatial = _dependencies([b for a, b in _axes(block) if a.kind != "reduce"], path)
    reduce = _dependencies([b for a, b in _axes(block) if a.kind == "reduce"], path)
    position = next((i for i, s in enumerate(path) if isinstance(s, For) and s.var in reduce), None)
    if position is None:
        return None
    loop = path[position]
    varying = _varying(path[position:], reduce)
    if not isinstance(loop, For) or spatial & varying or _meets_others(loop, block, init):
        return None
    if not _starts_at_zero(block, path):
        return None
    frames = _frames(path[position:], spatial, varying)
    return None if frames is None else InitNest(loop, _wrap(init, frames))


def _starts_at_zero(block: Block, path: Path) -> bool:
    """Whether every reduce axis is 0 in the first iteration: the loops of a peeled tail go on with an accumulation."""
    starts = {s.var: s.start for s in path if isinstance(s, For)}
    firsts = (expr_traverse.substitute(b, starts) for a, b in _axes(block) if a.kind == "reduce")
    analyzer = Analyzer()
    return all(analyzer.equal(first, build.const(0)) for first in firsts)


def _axes(block: Block) -> list[tuple[Axis, Expr]]:
    return list(zip(block.axes, block.bindings, strict=True))


def _dependencies(exprs: list[Expr], path: Path) -> set[Var]:
    """Variables bound in `path` that `exprs` mention, directly or through its lets."""
    found: set[Var] = set()
    for expr in exprs:
        found |= expr_traverse.free_vars(expr)
    for stmt in reversed(path):
        if isinstance(stmt, Let) and stmt.var in found:
            found |= expr_traverse.free_vars(stmt.value)
    return found & {s.var for s in path if isinstance(s, For | Let)}


def _varying(path: Path, reduce: set[Var]) -> set[Var]:
    """Variables bound in `path` whose value changes with a reduce loop."""
    found: set[Var] = set()
    for stmt in path:
        if isinstance(stmt, For | Let) and (stmt.var in reduce or _uses(stmt, found)):
            found.add(stmt.var)
    return found


def _uses(stmt: Stmt, variables: set[Var]) -> bool:
    return any(expr_traverse.free_vars(e) & variables for e in traverse.expressions(stmt))


def _meets_others(loop: For, block: Block, init: Stmt) -> bool:
    """Whether another statement in `loop` touches what `init` writes, or anything in it writes what `init` reads."""
    written, read = traverse.written_buffers(init), traverse.read_buffers(init)
    if read & traverse.written_buffers(loop.body):
        return True
    own = set(traverse.walk(block))
    return any(_touched(s) & written for s in traverse.walk(loop.body) if s not in own)


def _touched(stmt: Stmt) -> set[Buffer]:
    """Buffers that `stmt` itself mentions, apart from its sub-statements."""
    if isinstance(stmt, Alloc):
        return {stmt.buffer}
    if is_prefetch(stmt):
        return set()
    if not traverse.substatements(stmt):
        return traverse.read_buffers(stmt) | traverse.written_buffers(stmt)
    nodes_inside = (e for x in traverse.expressions(stmt) for e in expr_traverse.walk(x))
    return {e.buffer for e in nodes_inside if isinstance(e, Load | AddressOf)}


def _frames(path: Path, spatial: set[Var], varying: set[Var]) -> list[Stmt] | None:
    """The statements of `path` to repeat around the initialisation, None where one of them stands in the way."""
    kept: list[Stmt] = []
    for stmt in path:
        match stmt:
            case For(var=var) if var in varying:
                if _uses(stmt, spatial):
                    return None
            case For() if stmt.var in spatial or constant(stmt.extent) == 1:
                kept.append(stmt)
            case Let():
                kept.extend(() if stmt.var in varying else (stmt,))
            case If():
                fixed = [c for c in conjuncts(stmt.cond) if not expr_traverse.free_vars(c) & varying]
                mixed = [c for c in conjuncts(stmt.cond) if expr_traverse.free_vars(c) & varying]
                if any(expr_traverse.free_vars(c) & spatial for c in mixed):
                    return None
                kept.extend(If(c, stmt.then) for c in fixed)
            case Alloc() | nodes.ParallelRegion():  # a nest before a region has parallel loops of its own
                continue
            case _:
                return None
    return kept


def _wrap(init: Stmt, frames: list[Stmt]) -> Stmt:
    nest = init
    for frame in reversed(frames):
        match frame:
            case For():
                nest = replace(frame, body=nest, stages=None)
            case Let():
                nest = replace(frame, body=nest)
            case If():
                nest = replace(frame, then=nest, orelse=None)
            case _:
                raise InternalError(f"{type(frame).__name__} around an initialisation")
    return instantiate(nest, {})
