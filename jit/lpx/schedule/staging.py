"""What storage and reduction primitives share: where a helper block goes, and the loop nest it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr, Load, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Alloc, Block, For, Function, Stmt
from lpx.records import replace
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import LoopKindError, NestingError, UnknownNameError
from lpx.schedule.session import Edit
from lpx.te.tensor import Tensor

BufferLike = Tensor | Buffer | str
"""How a primitive is told a buffer: the tensor, the buffer, its name, or the name of the block that writes it."""


def resolve_buffer(edit: Edit, which: BufferLike, among: Iterable[Buffer]) -> Buffer:
    """The buffer meant, which must be one of `among`.

    Raises: UnknownNameError naming the choices.
    """
    choices = sorted(among, key=lambda b: b.name)
    if isinstance(which, str):
        block = queries.live_blocks(edit.function).get(which)
        written: set[Buffer] = set() if block is None else traverse.written_buffers(block)
        found = [b for b in choices if b.name == which] or [b for b in choices if b in written]
    else:
        meant = which.buffer if isinstance(which, Tensor) else which
        found = [b for b in choices if b is meant] or [b for b in choices if b.name == meant.name]
    if len(found) != 1:
        name = which if isinstance(which, str) else which.name
        known = ", ".join(b.name for b in choices) or "none"
        raise UnknownNameError(f"no buffer {name} is accessed here", hint=f"the buffers are {known}")
    return found[0]


def buffer_name(which: BufferLike) -> str:
    """The name by which a trace finds a buffer again."""
    return which if isinstance(which, str) else which.name


def widest_without(function: Function, block: Block, touches: Callable[[Stmt], bool]) -> Stmt:
    """The outermost statement around `block` in which no other block has `touches`.

    Allocations and sequences at the top are passed over: the result is one statement of a sequence.
    """
    path = queries.path_to(function, block)
    for stmt in path:
        if isinstance(stmt, Alloc) or len(traverse.substatements(stmt)) > 1:
            continue
        if not any(b is not block and touches(b) for b in queries.blocks_within(stmt)):
            return stmt
    return block


def allocate(function: Function, buffer: Buffer, loop: Var | None = None) -> Function:
    """`function` with `buffer` allocated directly inside the loop over `loop`, or around its whole body."""
    if loop is None:
        return replace(function, body=Alloc(buffer, function.body))
    home = queries.live_loops(function)[loop]
    return rewriting.replace_statement(function, home, replace(home, body=Alloc(buffer, home.body)))


def allocate_beside(function: Function, buffer: Buffer, other: Buffer) -> Function:
    """`function` with `buffer` allocated where `other` is, or around its whole body when `other` is the caller's."""
    home = next((s for s in traverse.walk(function.body) if isinstance(s, Alloc) and s.buffer is other), None)
    if home is None:
        return allocate(function, buffer)
    return rewriting.replace_statement(function, home, replace(home, body=Alloc(buffer, home.body)))


def check_open_place(path: queries.Path) -> None:
    """Refuse to put a helper block where statements do not run one after another in one thread for all lanes."""
    for stmt in path[:-1]:
        if isinstance(stmt, Block):
            raise NestingError(f"block {stmt.name} holds other blocks, where no block can be added", mark=stmt)
        if isinstance(stmt, nodes.ParallelRegion):
            raise NestingError(
                "every thread of the region would run the new block", mark=stmt, hint="do this before joining regions"
            )
        if isinstance(stmt, For) and stmt.kind == "vectorized":
            raise LoopKindError(f"loop {stmt.var.name} is vectorized", mark=stmt, hint="do this before vectorizing")


def innermost_loop(path: queries.Path) -> Var | None:
    """The variable of the innermost loop around the last statement of a path."""
    return next((s.var for s in reversed(path[:-1]) if isinstance(s, For)), None)


def nest_over(shape: Sequence[Expr], names: Sequence[str], body: Callable[[tuple[Var, ...]], Stmt]) -> Stmt:
    """A perfect nest of serial loops over `shape` around what `body` makes of their variables."""
    variables = tuple(build.var(name) for name in names)
    stmt = body(variables)
    for var, extent in reversed(list(zip(variables, shape, strict=True))):
        stmt = For(var, build.const(0), extent, stmt)
    return stmt


def loops_binding(block: Block, loops: Sequence[For], kinds: tuple[str, ...]) -> list[For]:
    """Those of `loops` that the block's axes of these kinds are bound to."""
    used: set[Var] = set()
    for axis, value in zip(block.axes, block.bindings, strict=True):
        if axis.kind in kinds:
            used |= expr_traverse.free_vars(value)
    return [loop for loop in loops if loop.var in used]


def reads_or_writes(buffer: Buffer) -> Callable[[Stmt], bool]:
    """Whether a statement touches `buffer`."""
    return lambda stmt: buffer in traverse.read_buffers(stmt) or buffer in traverse.written_buffers(stmt)


def redirect_loads(stmt: Stmt, old: Buffer, new: Buffer) -> Stmt:
    """`stmt` reading `new` where it read `old`, at the same indices; writes stay."""

    def visit(expr: Expr) -> Expr | None:
        return replace(expr, buffer=new) if isinstance(expr, Load) and expr.buffer is old else None

    memo: dict[Expr, Expr] = {}
    return traverse.transform(
        stmt, on_expr=lambda e: expr_traverse.transform(e, visit, memo, expr_traverse.touches_memory)
    )
