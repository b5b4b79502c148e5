"""Edits of a function: the path to a statement is copied, everything else is shared.

Every function here is pure. A statement is found by identity, a loop by its variable, a block by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Binary, Expr, Load, Unary, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Alloc, Block, For, Function, If, Let, Seq, Stmt
from lpx.records import replace


def replace_statement(function: Function, old: Stmt, new: Stmt | None) -> Function:
    """`function` with `new` in place of the statement `old` (which it holds); None removes it."""
    body = _replace(function.body, old, new)
    return replace(function, body=Seq(()) if body is None else body)


def remove_statement(root: Stmt, old: Stmt) -> Stmt:
    """`root` without the statement `old`, and without what is empty then."""
    left = _replace(root, old, None)
    return Seq(()) if left is None else left


def _replace(stmt: Stmt, old: Stmt, new: Stmt | None) -> Stmt | None:
    if stmt is old:
        return new
    if isinstance(stmt, Seq):
        kept = [s for s in (_replace(s, old, new) for s in stmt.stmts) if s is not None]
        unchanged = len(kept) == len(stmt.stmts) and all(a is b for a, b in zip(kept, stmt.stmts, strict=True))
        return stmt if unchanged else _sequence_or_none(kept)
    children = traverse.substatements(stmt)
    replaced = [_replace(child, old, new) for child in children]
    if all(a is b for a, b in zip(children, replaced, strict=True)):
        return stmt
    if replaced == [None]:  # a loop, condition or allocation around nothing goes as well
        return None
    return traverse.rebuild(stmt, [Seq(()) if s is None else s for s in replaced], traverse.expressions(stmt))


def _sequence_or_none(stmts: list[Stmt]) -> Stmt | None:
    return traverse.sequence(stmts) if stmts else None


def replace_block(function: Function, name: str, edit: Callable[[Block], Stmt]) -> Function:
    """`function` with the block `name` rewritten by `edit`."""
    block = next(s for s in traverse.walk(function.body) if isinstance(s, Block) and s.name == name)
    return replace_statement(function, block, edit(block))


def map_blocks(stmt: Stmt, edit: Callable[[Block], Stmt | None]) -> Stmt:
    """`stmt` with each block rewritten by `edit` (None keeps it), inner blocks first."""
    return traverse.transform(stmt, lambda s: edit(s) if isinstance(s, Block) else None)


def substitute_bindings(stmt: Stmt, values: Mapping[Var, Expr], simplify: Callable[[Expr], Expr]) -> Stmt:
    """`stmt` with variables replaced, each expression that mentions one simplified afterwards."""
    memo: dict[Expr, Expr] = {}

    def on_expr(expr: Expr) -> Expr:
        replaced = expr_traverse.substitute(expr, values, memo)
        return expr if replaced is expr else simplify(replaced)

    return traverse.transform(stmt, on_expr=on_expr)


def conjunction(conditions: list[Expr]) -> Expr | None:
    """All conditions, None for none."""
    if not conditions:
        return None
    result = conditions[0]
    for condition in conditions[1:]:
        result = build.binary("bitand", result, condition)
    return result


def conjuncts(condition: Expr | None) -> list[Expr]:
    """The conditions that a predicate joins by `&`."""
    if condition is None:
        return []
    if isinstance(condition, Binary) and condition.op == "bitand" and condition.dtype.is_bool:
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def guard(stmt: Stmt, condition: Expr) -> Stmt:
    """`stmt` running only where `condition` holds: in the predicate of each block, around each other leaf.

    Loops, allocations and barriers stay outside the condition, so that loop nests stay perfect and barriers uniform.
    """
    match stmt:
        case Block(predicate=predicate):
            return replace(stmt, predicate=conjunction([*conjuncts(predicate), condition]))
        case Seq() | For() | Alloc() | nodes.ParallelRegion():
            return traverse.map_children(stmt, lambda s: guard(s, condition), lambda e: e)
        case nodes.Barrier() | nodes.AsyncCommit() | nodes.AsyncWait():
            return stmt
        case _:
            return If(condition, stmt)


def negation(condition: Expr) -> Expr:
    """`not condition`; two negations cancel."""
    return condition.a if isinstance(condition, Unary) and condition.op == "not" else build.unary("not", condition)


def clone(stmt: Stmt, taken: set[str], suffix: str, values: Mapping[Var, Expr]) -> Stmt:
    """A copy with fresh loop variables, axes, allocations and block names (`name_suffix`), `values` put in.

    `taken` holds the block names in use; the new names are added to it.
    """
    fresh: dict[Var, Var] = {}
    buffers: dict[Buffer, Buffer] = {}
    for node in traverse.walk(stmt):
        match node:
            case For(var=var) | Let(var=var):
                fresh[var] = replace(var)
            case Block(axes=axes):
                fresh.update((axis.var, replace(axis.var)) for axis in axes)
            case Alloc(buffer=buffer):
                buffers[buffer] = replace(buffer)
            case _:
                pass

    def rename(node: Stmt) -> Stmt | None:
        match node:
            case For(var=var) | Let(var=var):
                return replace(node, var=fresh[var])
            case Block(axes=axes):
                renamed = tuple(replace(axis, var=fresh[axis.var]) for axis in axes)
                return replace(node, name=unique_name(f"{node.name}_{suffix}", taken), axes=renamed)
            case _:
                return None

    renamed = traverse.transform(stmt, rename)
    return traverse.replace_buffers(traverse.substitute(renamed, {**values, **fresh}), buffers)


def unique_name(hint: str, taken: set[str]) -> str:
    """A name not in `taken`, which it is added to."""
    name, count = hint, 0
    while name in taken:
        count += 1
        name = f"{hint}_{count}"
    taken.add(name)
    return name


def block_names(function: Function) -> set[str]:
    """The names of all blocks."""
    return {s.name for s in traverse.walk(function.body) if isinstance(s, Block)}


def insert_before(function: Function, anchor: Stmt, new: Stmt) -> Function:
    """`function` with `new` directly before the statement `anchor`."""
    return replace_statement(function, anchor, traverse.sequence([new, anchor]))


def insert_after(function: Function, anchor: Stmt, new: Stmt) -> Function:
    """`function` with `new` directly after the statement `anchor`."""
    return replace_statement(function, anchor, traverse.sequence([anchor, new]))


def remove_alloc(stmt: Stmt, buffer: Buffer) -> Stmt:
    """`stmt` without the allocation of `buffer`; what it held stays."""
    return traverse.transform(stmt, lambda s: s.body if isinstance(s, Alloc) and s.buffer is buffer else None)


def replace_loads(stmt: Stmt, buffer: Buffer, value: Callable[[Load], Expr]) -> Stmt:
    """`stmt` with every read of `buffer` replaced."""
    memo: dict[Expr, Expr] = {}

    def visit(expr: Expr) -> Expr | None:
        return value(expr) if isinstance(expr, Load) and expr.buffer is buffer else None

    return traverse.transform(
        stmt, on_expr=lambda e: expr_traverse.transform(e, visit, memo, expr_traverse.touches_memory)
    )


def mentions_memory(expr: Expr) -> bool:
    """Whether an expression reads memory or takes an address."""
    return expr_traverse.touches_memory(expr)
