"""Widening: a statement for one iteration of a loop becomes the statement for all of its iterations at once.

The loop's variable becomes a ramp, what depends on it becomes a vector, conditions on it become masks, and memory
private to an iteration gets one more axis. What has no vector form is repeated lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import nodes as expr_nodes
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr, Load, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Stmt
from lpx.passes import knowledge
from lpx.passes.copying import instantiate
from lpx.passes.folding import conjunction, conjuncts, fold
from lpx.passes.masking import aligned, both, guard, negated
from lpx.records import record, replace

_SCALAR_ONLY = (
    expr_nodes.AddressOf,
    expr_nodes.Ramp,
    expr_nodes.Broadcast,
    expr_nodes.Shuffle,
    expr_nodes.HorizontalReduce,
)


@record
class Scope:
    """Where a statement stands: the lanes that are on (None: all), and what is known there."""

    mask: Expr | None
    known: Analyzer

    def under(self, cond: Expr) -> Scope:
        """In the branch of the lanes where the vector `cond` holds."""
        return replace(self, mask=both(self.mask, cond))

    def inside(self, stmt: Stmt) -> Scope:
        """In the body of a loop or let, or the `then` branch of an `If`, with scalar expressions."""
        return replace(self, known=knowledge.inside(self.known, stmt))


def widen_loop(loop: nodes.For, lanes: int, known: Analyzer) -> Stmt:
    """The statement that runs all `lanes` iterations of `loop` side by side; `known` holds around the loop.

    The caller has shown that iterations may be interleaved statement by statement.
    """
    if lanes == 1:
        return instantiate(loop.body, {loop.var: loop.start})
    ramp = build.ramp(loop.start, build.const(1, loop.start.dtype), lanes)
    return _Widening(loop.var, ramp).statement(loop.body, Scope(None, known))


class _Widening:
    """One loop being widened. `values` has the vector for each variable that differs between lanes."""

    def __init__(self, var: Var, ramp: Expr) -> None:
        self.lanes = ramp.lanes
        self.values: dict[Var, Expr] = {var: ramp}
        self.private: dict[Buffer, Buffer] = {}
        self._memo: dict[Expr, Expr] = {}

    def statement(self, stmt: Stmt, scope: Scope) -> Stmt:
        """`stmt` for the lanes that are on in `scope`."""
        if not _has_vector_form(stmt):
            return self._lane_by_lane(stmt, scope)
        match stmt:
            case nodes.Seq(stmts=stmts):
                return traverse.sequence([self.statement(s, scope) for s in stmts])
            case nodes.Store():
                return self._store(stmt, scope)
            case nodes.If():
                return self._branch(stmt, scope)
            case nodes.For():
                return self._loop(stmt, scope)
            case nodes.Let():
                return self._let(stmt, scope)
            case nodes.Alloc(buffer=buffer):
                self.private[buffer] = _for_each_lane(buffer, self.lanes)
                return replace(stmt, buffer=self.private[buffer], body=self.statement(stmt.body, scope))
            case nodes.Check():
                return self._check(stmt, scope)
            case _:
                return self._lane_by_lane(stmt, scope)

    def expression(self, expr: Expr, scope: Scope) -> Expr:
        """`expr` in all lanes, safe in lanes that are off; a scalar where all lanes have the same value."""
        wide = expr_traverse.transform(expr, self._widen_node, self._memo)
        return wide if scope.mask is None else guard(wide, scope.mask, scope.known)

    def _widen_node(self, expr: Expr) -> Expr:
        match expr:
            case Var():
                return self.values.get(expr, expr)
            case Load(buffer=buffer, indices=indices) if buffer in self.private:
                return _even(replace(expr, buffer=self.private[buffer], indices=self._own(indices)))
            case Load():
                return _even(expr)
            case _:
                return fold(expr)

    def _own(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        return (*indices, build.ramp(0, 1, self.lanes))

    def _store(self, stmt: nodes.Store, scope: Scope) -> Stmt:
        indices = tuple(self.expression(i, scope) for i in stmt.indices)
        buffer = stmt.buffer
        if buffer in self.private:
            buffer, indices = self.private[buffer], self._own(indices)
        value = self.expression(stmt.value, scope)
        own = None if stmt.mask is None else self.expression(stmt.mask, scope)
        lanes = max([i.lanes for i in indices], default=1)
        if lanes == 1 and (value.lanes > 1 or (own is not None and own.lanes > 1)):
            return self._lane_by_lane(stmt, scope)
        if lanes == 1:
            return stmt if scope.mask is None else nodes.If(aligned(scope.mask, 1), stmt)
        mask = both(scope.mask, own)
        return replace(
            stmt,
            buffer=buffer,
            indices=indices,
            value=build.broadcast(value, lanes),
            mask=None if mask is None else build.broadcast(mask, lanes),
        )

    def _branch(self, stmt: nodes.If, scope: Scope) -> Stmt:
        uniform, varying = self._split_condition(stmt)
        if uniform is not None and varying is not None:
            return self._branch(nodes.If(uniform, nodes.If(varying, stmt.then), span=stmt.span), scope)
        cond = self.expression(stmt.cond, scope)
        if cond.lanes == 1:
            branch = replace(stmt, cond=cond)
            then = self.statement(stmt.then, scope.inside(branch))
            orelse = None if stmt.orelse is None else self.statement(stmt.orelse, scope)
            return replace(branch, then=then, orelse=orelse)
        if not knowledge.reads_memory(cond):
            return self._both_branches(stmt, cond, scope)
        # The branches may write what the condition read, so it is evaluated once, before them.
        bound = Var(cond.dtype, cond.lanes, "mask")
        return nodes.Let(bound, cond, self._both_branches(stmt, bound, scope))

    def _split_condition(self, stmt: nodes.If) -> tuple[Expr | None, Expr | None]:
        """The parts of a condition that all lanes share, to be tested once, and the others."""
        parts = conjuncts(stmt.cond) if stmt.orelse is None else [stmt.cond]
        uniform = [part for part in parts if not self._varies(part)]
        return conjunction(uniform), conjunction([part for part in parts if self._varies(part)])

    def _varies(self, expr: Expr) -> bool:
        return not expr_traverse.free_vars(expr).isdisjoint(self.values) or any(
            isinstance(e, Load) and e.buffer in self.private for e in expr_traverse.accesses(expr)
        )

    def _both_branches(self, stmt: nodes.If, cond: Expr, scope: Scope) -> Stmt:
        then = self.statement(stmt.then, scope.under(cond))
        if stmt.orelse is None:
            return then
        return traverse.sequence([then, self.statement(stmt.orelse, scope.under(negated(cond)))])

    def _loop(self, stmt: nodes.For, scope: Scope) -> Stmt:
        start, extent = self.expression(stmt.start, scope), self.expression(stmt.extent, scope)
        if start.lanes > 1 or extent.lanes > 1:
            return self._lane_by_lane(stmt, scope)
        uniform = replace(stmt, start=start, extent=extent)
        return replace(uniform, body=self.statement(stmt.body, scope.inside(uniform)))

    def _let(self, stmt: nodes.Let, scope: Scope) -> Stmt:
        value = self.expression(stmt.value, scope)
        if value.lanes == 1:
            uniform = replace(stmt, value=value)
            return replace(uniform, body=self.statement(stmt.body, scope.inside(uniform)))
        wide = replace(stmt.var, lanes=value.lanes)
        self.values[stmt.var] = wide
        return replace(stmt, var=wide, value=value, body=self.statement(stmt.body, scope))

    def _check(self, stmt: nodes.Check, scope: Scope) -> Stmt:
        cond = self.expression(stmt.cond, scope)
        if scope.mask is None:
            return replace(stmt, cond=cond)
        lanes = max(cond.lanes, scope.mask.lanes)
        off = build.broadcast(negated(scope.mask), lanes)
        return replace(stmt, cond=fold(build.binary("bitor", off, build.broadcast(cond, lanes))))

    def _lane_by_lane(self, stmt: Stmt, scope: Scope) -> Stmt:
        if scope.mask is None and isinstance(stmt, nodes.Store | nodes.Evaluate) and not self._differs(stmt):
            return stmt
        return traverse.sequence([self._lane(stmt, scope.mask, lane) for lane in range(self.lanes)])

    def _lane(self, stmt: Stmt, mask: Expr | None, lane: int) -> Stmt:
        values = {var: lane_of(vector, lane) for var, vector in self.values.items()}
        copy = instantiate(_own_element(stmt, self.private, lane), values)
        return copy if mask is None else nodes.If(lane_of(mask, lane), copy)

    def _differs(self, stmt: Stmt) -> bool:
        """Whether `stmt` does different things in different lanes."""
        written = isinstance(stmt, nodes.Store) and stmt.buffer in self.private
        return written or any(self._varies(e) for e in traverse.expressions(stmt))


def _has_vector_form(stmt: Stmt) -> bool:
    return not any(
        isinstance(e, _SCALAR_ONLY) or (isinstance(e, expr_nodes.Call) and e.op.kind in ("hardware", "extern"))
        for expr in traverse.expressions(stmt)
        for e in expr_traverse.walk(expr)
    )


def _even(load: Load) -> Expr:
    """The load with all the lanes of its widest index; an element that all lanes share is read once."""
    lanes = max([i.lanes for i in load.indices], default=1)
    if lanes > 1:
        mask = None if load.mask is None else build.broadcast(load.mask, lanes)
        return replace(load, lanes=lanes, mask=mask)
    if load.mask is None or load.mask.lanes == 1:
        return load
    shared = replace(load, mask=aligned(load.mask, 1))
    return build.select(load.mask, shared, build.const(0, load.dtype))


def lane_of(expr: Expr, lane: int) -> Expr:
    """One lane of a vector, as a scalar; a scalar itself. Reads no memory beyond what that lane reads."""
    if expr.lanes == 1:
        return expr
    match expr:
        case expr_nodes.Ramp(base=base, stride=stride):
            return fold(base + fold(stride * build.const(lane, stride.dtype)))
        case expr_nodes.Broadcast(value=value):
            return value
        case Var() | expr_nodes.Shuffle():
            return build.shuffle([expr], [lane])
        case _:
            scalars = [lane_of(e, lane) for e in expr_traverse.children(expr)]
            return fold(expr_traverse.rebuild(expr, scalars))


def _own_element(stmt: Stmt, private: dict[Buffer, Buffer], lane: int) -> Stmt:
    """`stmt` with accesses to buffers of `private` going to the element of one lane."""
    if not private:
        return stmt
    number = build.const(lane)

    def on_node(expr: Expr) -> Expr | None:
        if isinstance(expr, Load | expr_nodes.AddressOf) and expr.buffer in private:
            return replace(expr, buffer=private[expr.buffer], indices=(*expr.indices, number))
        return None

    def on_stmt(node: Stmt) -> Stmt | None:
        if isinstance(node, nodes.Store | nodes.AtomicUpdate) and node.buffer in private:
            return replace(node, buffer=private[node.buffer], indices=(*node.indices, number))
        return None

    memo: dict[Expr, Expr] = {}
    return traverse.transform(stmt, on_stmt, lambda e: expr_traverse.transform(e, on_node, memo))


def _for_each_lane(buffer: Buffer, lanes: int) -> Buffer:
    """`buffer` once per lane: a last axis of neighbouring lanes is added."""
    strides = buffer.strides
    if strides is not None:
        strides = (*(fold(s * lanes) for s in strides), build.const(1))
    return replace(buffer, shape=(*buffer.shape, build.const(lanes)), strides=strides)
