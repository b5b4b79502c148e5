"""Questions about a function that primitives ask: where a loop or block stands, who writes and reads a tensor.

Every answer is recomputed from the function: it is immutable, and a schedule's functions are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lpx.arith.analyzer import Analyzer
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Const, Expr, Load, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Alloc, Block, For, Function, Let, Seq, Stmt
from lpx.records import record

Path = tuple[Stmt, ...]
"""Statements from the root of the function down to, and with, a statement."""


@record(eq=False)
class Access:
    """One access of a buffer by the last statement of `path`; `indices` are over the loops of the path.

    `indices` is None where any element may be touched (an address is taken, a function is called).
    """

    buffer: Buffer
    indices: tuple[Expr, ...] | None
    is_write: bool
    path: Path

    @property
    def block(self) -> Block | None:
        """The innermost block that makes the access."""
        return next((s for s in reversed(self.path) if isinstance(s, Block)), None)


def accesses(stmt: Stmt, prefix: Path = ()) -> tuple[Access, ...]:
    """Every access under `stmt`, which stands under `prefix`, in program order."""
    return tuple(access for path in walk_paths(stmt, prefix) for access in _own_accesses(path))


def _own_accesses(path: Path) -> Iterator[Access]:
    stmt = path[-1]
    for expr in traverse.expressions(stmt):
        for node in expr_traverse.accesses(expr):
            if isinstance(node, Load):
                # What a block's bindings and predicate read, they read over the loops outside the block.
                yield Access(node.buffer, _bound(path[:-1], node.indices), False, path)
            else:
                yield Access(node.buffer, None, True, path)
    match stmt:
        case nodes.Store(buffer=buffer, indices=indices):
            yield Access(buffer, _bound(path, indices), True, path)
        case nodes.AtomicUpdate(buffer=buffer, indices=indices):
            yield Access(buffer, _bound(path, indices), True, path)
        case nodes.AsyncCopy(target=target, source=source):
            yield Access(target, None, True, path)
            yield Access(source, None, False, path)
        case nodes.CallFunction(buffers=buffers):
            yield from (Access(buffer, None, True, path) for buffer in buffers)
        case _:
            pass


def _bound(path: Path, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(bound_along(path, i) for i in indices)


def walk_paths(stmt: Stmt, prefix: Path = ()) -> Iterator[Path]:
    """The path to every statement, parents before children, in program order."""
    path = (*prefix, stmt)
    yield path
    for child in traverse.substatements(stmt):
        yield from walk_paths(child, path)


def live_loops(function: Function) -> dict[Var, For]:
    """Loops by their variables."""
    return {s.var: s for s in traverse.walk(function.body) if isinstance(s, For)}


def live_blocks(function: Function) -> dict[str, Block]:
    """Blocks by their names, in program order."""
    return {s.name: s for s in traverse.walk(function.body) if isinstance(s, Block)}


def path_to(function: Function, stmt: Stmt) -> Path:
    """The path from the root to `stmt`, which must be in the function."""
    return next(path for path in walk_paths(function.body) if path[-1] is stmt)


def loops_around(function: Function, stmt: Stmt) -> tuple[For, ...]:
    """The loops around a statement, outermost first."""
    return loops_of(path_to(function, stmt)[:-1])


def loops_of(path: Path) -> tuple[For, ...]:
    """The loops on a path, outermost first."""
    return tuple(s for s in path if isinstance(s, For))


def loops_within(stmt: Stmt) -> tuple[For, ...]:
    """The loops under (and with) a statement, in program order."""
    return tuple(s for s in traverse.walk(stmt) if isinstance(s, For))


def blocks_within(stmt: Stmt) -> tuple[Block, ...]:
    """The blocks under (and with) a statement, in program order."""
    return tuple(s for s in traverse.walk(stmt) if isinstance(s, Block))


def axis_values(block: Block) -> dict[Var, Expr]:
    """What each axis of a block is bound to."""
    return {axis.var: value for axis, value in zip(block.axes, block.bindings, strict=True)}


def symbols_of(function: Function) -> dict[str, Var]:
    """Symbolic extents by name."""
    return {v.name: v for v in function.symbols}


def param_buffers(function: Function) -> dict[Buffer, str]:
    """The caller's buffers and their roles."""
    return {p.buffer: p.role for p in function.params}


def writers(function: Function, buffer: Buffer) -> tuple[Block, ...]:
    """The blocks that write `buffer`, in program order."""
    return tuple(b for b in live_blocks(function).values() if buffer in traverse.written_buffers(b))


def readers(function: Function, buffer: Buffer) -> tuple[Block, ...]:
    """The blocks that read `buffer` (accumulation into it included), in program order."""
    return tuple(b for b in live_blocks(function).values() if buffer in traverse.read_buffers(b))


def producers(function: Function, block: Block) -> tuple[Block, ...]:
    """Other blocks that write what `block` reads."""
    read = traverse.read_buffers(block)
    return tuple(b for b in live_blocks(function).values() if b is not block and traverse.written_buffers(b) & read)


def consumers(function: Function, block: Block) -> tuple[Block, ...]:
    """Other blocks that read what `block` writes."""
    written = traverse.written_buffers(block)
    return tuple(b for b in live_blocks(function).values() if b is not block and traverse.read_buffers(b) & written)


def allocated_within(stmt: Stmt) -> set[Buffer]:
    """Buffers that exist only inside `stmt`."""
    return {s.buffer for s in traverse.walk(stmt) if isinstance(s, Alloc)}


def loads_of(stmt: Stmt, buffer: Buffer) -> tuple[Load, ...]:
    """The distinct reads of `buffer` in a statement."""
    found = (e for e in traverse.walk_expressions(stmt) if isinstance(e, Load) and e.buffer is buffer)
    return tuple(dict.fromkeys(found))


def has_address(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether an address of `buffer` is taken in a statement, so that more than its plain accesses may touch it."""
    return any(isinstance(e, AddressOf) and e.buffer is buffer for e in traverse.walk_expressions(stmt))


def body_statements(loop: For) -> tuple[Stmt, ...]:
    """The statements a loop runs one after another, allocations around them left out."""
    body = loop.body
    while isinstance(body, Alloc):
        body = body.body
    return body.stmts if isinstance(body, Seq) else (body,)


def constant_value(expr: Expr) -> int | None:
    """The value of an integer constant, None for any other expression."""
    return int(expr.value) if isinstance(expr, Const) else None


def analyzer_of(function: Function, loops: Iterable[For] = ()) -> Analyzer:
    """What is known about symbols and the variables of `loops`, outermost first."""
    analyzer = Analyzer()
    for symbol in function.symbols:
        analyzer = analyzer.with_range(symbol, 0, None)
    for loop in loops:
        analyzer = analyzer.with_range(loop.var, loop.start, loop.start + loop.extent)
    return analyzer


def bound_along(path: Path, expr: Expr) -> Expr:
    """`expr`, written inside the last statement of a path, over the loops of the path: axes and lets put in."""
    for stmt in reversed(path):
        match stmt:
            case Block():
                expr = expr_traverse.substitute(expr, axis_values(stmt))
            case Let(var=var, value=value):
                expr = expr_traverse.substitute(expr, {var: value})
            case _:
                pass
    return expr
