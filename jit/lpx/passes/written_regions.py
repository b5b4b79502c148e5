"""Whether a statement writes every element of a buffer that it reads before it reads it."""

from __future__ import annotations

from collections.abc import Iterator

from lpx.arith.analyzer import Analyzer
from lpx.expr import build, nodes
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Compare, Expr, Load, Var
from lpx.ir import nodes as ir
from lpx.ir import traverse
from lpx.ir.nodes import For, Stmt
from lpx.passes import knowledge
from lpx.passes.folding import conjuncts, fold
from lpx.passes.masking import negated
from lpx.records import record, replace


@record
class Side:
    """Along one axis, the indices from `low` to `high` that are within all of `floors` and `ceilings`, inclusive."""

    low: Expr
    high: Expr
    floors: tuple[Expr, ...] = ()
    ceilings: tuple[Expr, ...] = ()

    def exprs(self) -> tuple[Expr, ...]:
        """All expressions in it."""
        return (self.low, self.high, *self.floors, *self.ceilings)


@record
class Box:
    """Elements that have been written, provided that all of `conds` hold."""

    sides: tuple[Side, ...]
    conds: tuple[Expr, ...] = ()

    def mentions(self, var: Var) -> bool:
        """Whether the box depends on a variable."""
        exprs = (*self.conds, *(e for side in self.sides for e in side.exprs()))
        return any(var in expr_traverse.free_vars(e) for e in exprs)


def writes_before_reading(stmt: Stmt, buffer: Buffer, analyzer: Analyzer) -> bool:
    """Whether every read of `buffer` in `stmt` is proved to see what `stmt` itself has written before."""
    try:
        _Scan(buffer).visit(stmt, analyzer, [])
    except _NotWritten:
        return False
    return True


class _NotWritten(Exception):  # noqa: N818 (it ends a search, it reports no error)
    """A read of something that may not have been written."""


class _Scan:
    """Follows program order. `written` collects what certainly has been written, over the variables in scope."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def visit(self, stmt: Stmt, analyzer: Analyzer, written: list[Box]) -> None:
        """Check the reads of `stmt`, and add what it writes to `written`."""
        for expr in traverse.expressions(stmt):
            self._reads(expr, analyzer, written)
        match stmt:
            case ir.Store(buffer=buffer, indices=indices, mask=mask) if buffer is self._buffer:
                if mask is None and all(i.lanes == 1 for i in indices):
                    written.append(Box(tuple(Side(i, i) for i in indices)))
            case ir.AtomicUpdate() | ir.AsyncCopy() | ir.CallFunction():
                if self._buffer in traverse.read_buffers(stmt):
                    raise _NotWritten
            case ir.Seq(stmts=stmts):
                for child in stmts:
                    self.visit(child, analyzer, written)
            case For():
                self._loop(stmt, analyzer, written)
            case ir.If():
                self._branch(stmt, analyzer, written)
            case ir.Let(var=var, value=value):
                body = stmt.body if knowledge.reads_memory(value) else traverse.substitute(stmt.body, {var: value})
                added = self._inside(body, analyzer, written)
                written.extend(box for box in added if not box.mentions(var))
            case ir.Alloc(body=body):
                self.visit(body, analyzer, written)
            case _:
                for child in traverse.substatements(stmt):
                    self._inside(child, analyzer, written)

    def _inside(self, stmt: Stmt, analyzer: Analyzer, written: list[Box]) -> list[Box]:
        """What `stmt` adds to `written`, which is left alone."""
        here = list(written)
        self.visit(stmt, analyzer, here)
        return here[len(written) :]

    def _loop(self, loop: For, analyzer: Analyzer, written: list[Box]) -> None:
        within = knowledge.inside(analyzer, loop)
        for box in self._inside(loop.body, within, written):
            total = _over_loop(box, loop, within, analyzer)
            if total is not None:
                written.append(total)

    def _branch(self, stmt: ir.If, analyzer: Analyzer, written: list[Box]) -> None:
        added: list[Box] = []
        for box in self._inside(stmt.then, knowledge.assuming(analyzer, stmt.cond), written):
            added.extend(_under(box, stmt.cond, analyzer))
        if stmt.orelse is not None:
            for box in self._inside(stmt.orelse, knowledge.otherwise(analyzer, stmt.cond), written):
                added.extend(_under(box, negated(stmt.cond), analyzer))
        written.extend(added)

    def _reads(self, expr: Expr, analyzer: Analyzer, written: list[Box]) -> None:
        for load, known in _loads(expr, self._buffer, analyzer):
            if not any(_contains(box, load.indices, known) for box in written):
                raise _NotWritten


def _loads(expr: Expr, buffer: Buffer, analyzer: Analyzer) -> Iterator[tuple[Load, Analyzer]]:
    """The loads of `buffer`, each with what is known where its value is used."""
    stack = [(expr, analyzer)]
    seen: set[tuple[Expr, Analyzer]] = set()
    while stack:
        node, known = stack.pop()
        if (node, known) in seen:
            continue
        seen.add((node, known))
        if isinstance(node, nodes.AddressOf) and node.buffer is buffer:
            raise _NotWritten
        if isinstance(node, Load) and node.buffer is buffer:
            yield node, known
        if isinstance(node, nodes.Select) and node.cond.lanes == 1 and _reads_from(node, buffer):
            stack.append((node.cond, known))
            stack.append((node.a, knowledge.assuming(known, node.cond)))
            stack.append((node.b, knowledge.otherwise(known, node.cond)))
        else:
            stack.extend((child, known) for child in expr_traverse.children(node))


def _reads_from(expr: Expr, buffer: Buffer) -> bool:
    """Whether `expr` reads `buffer`."""
    return any(isinstance(e, Load) and e.buffer is buffer for e in expr_traverse.walk(expr))


def _contains(box: Box, indices: tuple[Expr, ...], known: Analyzer) -> bool:
    if not all(known.prove(cond) for cond in box.conds):
        return False
    for side, index in zip(box.sides, indices, strict=True):
        lows, highs = (side.low, *side.floors), (side.high, *side.ceilings)
        if not all(known.prove(build.compare("le", low, index)) for low in lows):
            return False
        if not all(known.prove(build.compare("le", index, high)) for high in highs):
            return False
    return True


def _under(box: Box, cond: Expr, analyzer: Analyzer) -> list[Box]:
    """The box written under `cond`: comparisons with the index of an axis cut the box, others are kept."""
    for part in conjuncts(cond):
        if knowledge.reads_memory(part):
            return []
        cut = _cut(box, part, analyzer)
        box = Box(box.sides, (*box.conds, part)) if cut is None else cut
    return [box]


def _cut(box: Box, cond: Expr, analyzer: Analyzer) -> Box | None:
    """The box without the elements whose own index fails `cond`; None when `cond` is not about the index of an axis."""
    if not isinstance(cond, Compare) or cond.op not in ("lt", "le"):
        return None
    margin = fold(cond.b - cond.a - (1 if cond.op == "lt" else 0))
    for axis, side in enumerate(box.sides):
        if side.low is not side.high:
            continue
        varying = expr_traverse.free_vars(side.low)
        for limit, above in ((margin + side.low, True), (side.low - margin, False)):
            bound = analyzer.simplify(limit)
            if expr_traverse.free_vars(bound) & varying:
                continue
            trimmed = (
                replace(side, ceilings=(*side.ceilings, bound))
                if above
                else replace(side, floors=(*side.floors, bound))
            )
            return replace(box, sides=(*box.sides[:axis], trimmed, *box.sides[axis + 1 :]))
    return None


def _over_loop(box: Box, loop: For, within: Analyzer, analyzer: Analyzer) -> Box | None:
    """What all iterations together write, where one writes `box`; None when that is no box."""
    var = loop.var
    if not box.mentions(var):
        return box if analyzer.prove(build.compare("lt", 0, loop.extent)) else None
    moving = [i for i, side in enumerate(box.sides) if _moves(side, var)]
    fixed = [*box.conds, *(e for side in box.sides for e in (*side.floors, *side.ceilings))]
    if len(moving) != 1 or any(var in expr_traverse.free_vars(e) for e in fixed):
        return None
    side = box.sides[moving[0]]
    low, high = within.affine(side.low), within.affine(side.high)
    step = None if low is None else low.coefficient(var)
    if not step or high is None or high.coefficient(var) != step:
        return None
    if not within.prove(build.compare("le", build.const(abs(step)), side.high - side.low + 1)):
        return None  # gaps between iterations
    last = fold(loop.start + loop.extent) - 1
    first_low, last_high = (loop.start, last) if step > 0 else (last, loop.start)
    joined = replace(
        side,
        low=analyzer.simplify(expr_traverse.substitute(side.low, {var: first_low})),
        high=analyzer.simplify(expr_traverse.substitute(side.high, {var: last_high})),
    )
    return replace(box, sides=tuple(joined if i == moving[0] else s for i, s in enumerate(box.sides)))


def _moves(side: Side, var: Var) -> bool:
    return any(var in expr_traverse.free_vars(e) for e in (side.low, side.high))
