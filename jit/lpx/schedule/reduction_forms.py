"""What a reduction block does: from which values it starts, what comes in, and how the two are combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Binary, BinaryOp, Const, Expr, Load, Var
from lpx.ir import traverse
from lpx.ir.nodes import Block, Let, Seq, Stmt, Store
from lpx.records import record, replace
from lpx.schedule.errors import BlockFormError

Combine = Callable[[Sequence[Expr], Sequence[Expr]], tuple[Expr, ...]]
"""From accumulated values and incoming ones to the new accumulated ones."""

_OPERATIONS: tuple[BinaryOp, ...] = ("add", "mul", "min", "max", "bitand", "bitor", "bitxor")
_HINT = "the primitive takes C[..] = C[..] op value with an init, for add, mul, min, max, and, or, xor"


@record
class Accumulation:
    """`targets[indices] = combine(targets[indices], values)`, begun by the statement `start`."""

    targets: tuple[Buffer, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    combine: Combine
    start: Stmt

    @property
    def firsts(self) -> tuple[Expr, ...]:
        """The value that each target starts from; none where `start` does more than store them."""
        stores = self.start.stmts if isinstance(self.start, Seq) else (self.start,)
        found = {s.buffer: s.value for s in stores if isinstance(s, Store)}
        return tuple(found[t] for t in self.targets) if len(stores) == len(self.targets) == len(found) else ()

    def update(self, targets: Sequence[Buffer], indices: tuple[Expr, ...], values: Sequence[Expr]) -> Stmt:
        """The statement that combines `values` into other buffers."""
        olds = [build.load(t, indices) for t in targets]
        return self.assign(targets, indices, values, lambda ins: self.combine(olds, ins))

    def assign(
        self,
        targets: Sequence[Buffer],
        indices: tuple[Expr, ...],
        values: Sequence[Expr],
        result: Callable[[Sequence[Expr]], Sequence[Expr]],
    ) -> Stmt:
        """The statement that stores `result` of `values`, all read before anything is stored."""
        ins = [replace(build.var(f"{t.name}_in", t.dtype), lanes=v.lanes) for t, v in zip(targets, values, strict=True)]
        news = [build.var(f"{t.name}_new", t.dtype) for t in targets]
        stmt = traverse.sequence([Store(t, indices, new) for t, new in zip(targets, news, strict=True)])
        bound = [*zip(ins, values, strict=True), *zip(news, result(ins), strict=True)]
        for var, value in reversed(bound):
            stmt = Let(var, value, stmt)
        return stmt


@record
class Operation(Accumulation):
    """The accumulation of one value by an operation: `target[indices] = target[indices] op value`, from `first`."""

    op: BinaryOp
    first: Expr

    def update(self, targets: Sequence[Buffer], indices: tuple[Expr, ...], values: Sequence[Expr]) -> Stmt:
        return Store(targets[0], indices, build.binary(self.op, build.load(targets[0], indices), values[0]))


def neutral_firsts(accumulation: Accumulation) -> tuple[Const, ...]:
    """The constants that an accumulation starts from, if they are proved to change no value they are combined with."""
    firsts = tuple(f for f in accumulation.firsts if isinstance(f, Const))
    if len(firsts) != len(accumulation.targets):
        return ()
    ins = [build.var("in", first.dtype) for first in firsts]
    analyzer = Analyzer()
    for value in ins:
        if value.dtype.is_integer:
            analyzer = analyzer.with_range(value, value.dtype.min_value, value.dtype.max_value + 1)
    combined = accumulation.combine(firsts, ins)
    return firsts if all(analyzer.simplify(c) is v for c, v in zip(combined, ins, strict=True)) else ()


def check_accumulation(block: Block) -> Operation:
    """The accumulation of one value that a block makes by an operation.

    Raises: BlockFormError when its body has another form.
    """
    body, start = block.body, block.init
    if not isinstance(body, Store) or not isinstance(start, Store) or body.mask is not None:
        raise BlockFormError(f"{block.name} is not a reduction of one value", mark=block, hint=_HINT)
    value = body.value
    if start.buffer is not body.buffer or not _same(start.indices, body.indices):
        raise BlockFormError(f"{block.name} starts another element than it accumulates", mark=block, hint=_HINT)
    if not isinstance(value, Binary) or value.op not in _OPERATIONS or not _is_old(value.a, body.buffer, body.indices):
        raise BlockFormError(f"{block.name} combines values in another form", mark=block, hint=_HINT)
    if _reads(value.b, {body.buffer}):
        raise BlockFormError(f"{block.name} reads {body.buffer.name} in the value it adds", mark=block, hint=_HINT)
    operation = partial(_operation, value.op)
    return Operation((body.buffer,), body.indices, (value.b,), operation, start, value.op, start.value)


def check_any_accumulation(block: Block) -> Accumulation:
    """The accumulation of one value by an operation, or of a tuple of values in whatever way.

    Raises: BlockFormError when the body has another form.
    """
    found = _tuple_accumulation(block)
    return check_accumulation(block) if found is None else found


def _tuple_accumulation(block: Block) -> Accumulation | None:
    """A body `let in = value...; let new = combination...; C[..] = new...`, as te makes for a reducer of a tuple."""
    lets: list[Let] = []
    rest = block.body
    while isinstance(rest, Let):
        lets.append(rest)
        rest = rest.body
    stores = [s for s in (rest.stmts if isinstance(rest, Seq) else (rest,)) if isinstance(s, Store)]
    count = len(stores)
    if block.init is None or len(traverse.substatements(rest)) != count or len(lets) != 2 * count:
        return None
    ins, news = lets[:count], lets[count:]
    targets, indices = tuple(s.buffer for s in stores), stores[0].indices
    if any(s.value is not new.var or not _same(s.indices, indices) for s, new in zip(stores, news, strict=True)):
        return None
    values = tuple(n.value for n in ins)
    if any(_reads(v, set(targets)) for v in values):
        return None
    combine = partial(_combination, targets, indices, [n.var for n in ins], [n.value for n in news])
    return Accumulation(targets, indices, values, combine, block.init) if _is_pure(combine, targets) else None


def _operation(op: BinaryOp, olds: Sequence[Expr], values: Sequence[Expr]) -> tuple[Expr, ...]:
    return (build.binary(op, olds[0], values[0]),)


def _combination(
    targets: Sequence[Buffer],
    indices: tuple[Expr, ...],
    ins: Sequence[Var],
    news: Sequence[Expr],
    olds: Sequence[Expr],
    values: Sequence[Expr],
) -> tuple[Expr, ...]:
    """The expressions `news`, over other accumulated and incoming values."""
    replaced = dict(zip(ins, values, strict=True))

    def visit(expr: Expr) -> Expr | None:
        if isinstance(expr, Var):
            return replaced.get(expr)
        found = next((k for k, t in enumerate(targets) if _is_old(expr, t, indices)), None)
        return None if found is None else olds[found]

    memo: dict[Expr, Expr] = {}
    return tuple(expr_traverse.transform(new, visit, memo) for new in news)


def _is_pure(combine: Combine, targets: Sequence[Buffer]) -> bool:
    """Whether a combination depends on accumulated and incoming values alone."""
    olds = [build.var("old", t.dtype) for t in targets]
    ins = [build.var("in", t.dtype) for t in targets]
    known = {*olds, *ins}
    nodes = [e for new in combine(olds, ins) for e in expr_traverse.walk(new)]
    return not any(isinstance(e, Load) or (isinstance(e, Var) and e not in known) for e in nodes)


def _is_old(expr: Expr, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
    return isinstance(expr, Load) and expr.buffer is buffer and _same(expr.indices, indices)


def _same(one: tuple[Expr, ...], other: tuple[Expr, ...]) -> bool:
    return len(one) == len(other) and all(expr_traverse.structural_equal(a, b) for a, b in zip(one, other, strict=True))


def _reads(expr: Expr, buffers: set[Buffer]) -> bool:
    return any(isinstance(e, Load) and e.buffer in buffers for e in expr_traverse.accesses(expr))
