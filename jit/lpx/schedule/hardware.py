"""Hardware primitives: copies that run by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Expr, Load
from lpx.ir import traverse
from lpx.ir.nodes import AsyncCommit, AsyncCopy, AsyncWait, Block, For, Function, Seq, Stmt, Store
from lpx.records import replace
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import AccessError, BlockFormError, ConsumerError, ExtentError, LoopKindError, NestingError
from lpx.schedule.handles import LoopHandle
from lpx.schedule.linear import linear
from lpx.schedule.nesting import check_serial
from lpx.schedule.primitive import primitive
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import check_open_place, widest_without


@primitive
def async_copy(edit: Edit, block: BlockLike, loop: LoopHandle) -> None:
    """Copy rows asynchronously: `block` starts copies of as many elements as `loop` has iterations.

    The copies are committed as one group after the block's nest, and waited for before the next statement that touches
    their target.

    requires: the block copies one element, `T[..] = A[..]`, and stands directly in the serial `loop`, whose extent is
        constant and along which both buffers are passed through by their last index, one by one; one thread runs the
        block's nest; nothing writes the source before the copies have arrived.
    rewrite (loop = j):
        for i { for j in 0..8 { block T { T[vi, vj] = A[vi, vj] } } }; block C { ... T }
        ->
        for i { block T { async_copy T[vi, vj], A[vi, vj], 8 } }; async_commit; async_wait 0; block C { ... T }
    """
    node, row = edit.block(block), edit.loop(loop)
    check_serial(row)
    store, source = check_copy(node)
    count = queries.constant_value(row.extent)
    if row.body is not node:
        raise NestingError(f"{node.name} does not stand directly in {row.var.name}", mark=row)
    if count is None or count < 1:
        raise ExtentError(f"the extent of {row.var.name} is not a constant of 1 or more", mark=row)
    if node.predicate is not None and row.var in expr_traverse.free_vars(node.predicate):
        raise ExtentError(f"loop {row.var.name} has a tail", mark=node, hint="split by a divisor, or tail='peel'")
    for buffer, indices in ((store.buffer, store.indices), (source.buffer, source.indices)):
        if not is_row(edit.function, node, row, indices):
            raise AccessError(f"{row.var.name} does not run along rows of {buffer.name}", mark=node)
    bindings = tuple(expr_traverse.substitute(v, {row.var: row.start}) for v in node.bindings)
    body = AsyncCopy(store.buffer, store.indices, source.buffer, source.indices, count, span=store.span)
    copying = replace(node, bindings=bindings, body=body)
    nest = widest_without(edit.function, node, lambda _: True)
    check_one_thread(nest)
    parent, waiting = check_awaited(edit.function, nest, store, source)
    started = copying if nest is row else traverse.transform(nest, lambda s: copying if s is row else None)
    edit.ended(row.var, "became the elements of one copy")
    edit.function = rewriting.replace_statement(
        edit.function, parent, _with_wait(parent, nest, traverse.sequence([started, AsyncCommit()]), waiting)
    )


def check_copy(block: Block) -> tuple[Store, Load]:
    """The store and the load of a block that copies one element."""
    body = block.body
    if isinstance(body, Store) and isinstance(body.value, Load) and body.mask is None and body.value.mask is None:
        return body, body.value
    raise BlockFormError(
        f"{block.name} does more than copy one element", mark=block, hint="make a copy with cache_read"
    )


def is_row(function: Function, block: Block, loop: For, indices: Sequence[Expr]) -> bool:
    """Whether `loop` runs through the last index one by one, and through no other."""
    analyzer = queries.analyzer_of(function, queries.loops_around(function, block))
    values = queries.axis_values(block)
    for position, index in enumerate(indices):
        form = linear(analyzer, expr_traverse.substitute(index, values), [loop.var])
        if form is None:
            return False
        steps = {t.atom: queries.constant_value(t.coefficient) for t in form.terms}
        if steps != ({loop.var: 1} if position == len(indices) - 1 else {}):
            return False
    return True


def check_one_thread(nest: Stmt) -> None:
    """Refuse a nest that several threads run: the copies belong to the thread that waits for them."""
    for loop in queries.loops_within(nest):
        if loop.kind in ("parallel", "bound", "vectorized"):
            raise LoopKindError(f"loop {loop.var.name} is {loop.kind}; one thread starts the copies", mark=loop)


def check_awaited(function: Function, nest: Stmt, store: Store, source: Load) -> tuple[Seq, Stmt]:
    """The sequence that `nest` stands in, and the first statement after it that touches the target."""
    path = queries.path_to(function, nest)
    check_open_place(path)
    parent = path[-2] if len(path) > 1 else None
    if not isinstance(parent, Seq):
        raise ConsumerError(f"nothing beside it reads {store.buffer.name}", mark=nest)
    for stmt in parent.stmts[parent.stmts.index(nest) + 1 :]:
        if store.buffer in traverse.read_buffers(stmt) | traverse.written_buffers(stmt):
            return parent, stmt
        if source.buffer in traverse.written_buffers(stmt):
            raise AccessError(f"{source.buffer.name} is written before the copies have arrived", mark=stmt)
    raise ConsumerError(f"nothing after it in its sequence reads {store.buffer.name}", mark=nest)


def _with_wait(parent: Seq, nest: Stmt, started: Stmt, waiting: Stmt) -> Stmt:
    stmts: list[Stmt] = []
    for stmt in parent.stmts:
        if stmt is waiting and not (stmts and isinstance(stmts[-1], AsyncWait)):
            stmts.append(AsyncWait(0))
        stmts.append(started if stmt is nest else stmt)
    return traverse.sequence(stmts)
