"""blockize: a loop nest as one block."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Axis, AxisKind, Expr, Var
from lpx.ir import traverse
from lpx.ir.nodes import Block, For, Stmt
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import BlockFormError, DependenceError
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.session import Edit
from lpx.schedule.staging import check_open_place


@primitive
def blockize(edit: Edit, loop: LoopHandle) -> BlockHandle:
    """Make what `loop` runs the body of one block, whose axes are the loops around it; returns that block.

    What is inside then stays together: primitives do not move blocks into or out of a block.

    requires: each loop around that blocks inside use is used by axes of one kind; none is vectorized.
    rewrite (loop = ii):
        for io { for ii in 0..4 { block C(vi = io * 4 + ii) { C[vi] = A[vi] } } }
        ->
        for io { block C_o(vio = io) { for ii in 0..4 { block C(vi = vio * 4 + ii) { C[vi] = A[vi] } } } }
    """
    node = edit.loop(loop)
    path = queries.path_to(edit.function, node)
    check_open_place(path)
    inside = queries.blocks_within(node)
    if not inside:
        raise BlockFormError(f"loop {node.var.name} holds no block", mark=node)
    around = [f for f in queries.loops_of(path[:-1]) if f.var in _used(node)]
    axes = tuple(Axis(build.var(f"v{f.var.name}"), f.extent, kind_of(f, inside)) for f in around)
    values: dict[Var, Expr] = {f.var: _from(f, a.var) for f, a in zip(around, axes, strict=True)}
    name = rewriting.unique_name(f"{inside[-1].name}_o", rewriting.block_names(edit.function))
    bindings = tuple(_to(f) for f in around)
    outer = Block(name, axes, bindings, None, None, traverse.substitute(node, values), span=node.span)
    edit.function = rewriting.replace_statement(edit.function, node, outer)
    return BlockHandle(name)


def kind_of(loop: For, inside: Sequence[Block]) -> AxisKind:
    """The kind of the axes that are bound to `loop`: sequential where one is, spatial where none is.

    Raises: DependenceError where spatial and reduce axes are bound to it.
    """
    kinds: set[AxisKind] = set()
    for block in inside:
        for axis, value in zip(block.axes, block.bindings, strict=True):
            if loop.var in expr_traverse.free_vars(value):
                kinds.add(axis.kind)
    if "sequential" in kinds:
        return "sequential"
    if len(kinds) > 1:
        raise DependenceError(
            f"loop {loop.var.name} is bound to spatial and to reduce axes", mark=loop, hint="blockize a loop around it"
        )
    return kinds.pop() if kinds else "spatial"


def _used(stmt: Stmt) -> set[Var]:
    return {v for inner in traverse.walk(stmt) for e in traverse.expressions(inner) for v in expr_traverse.free_vars(e)}


def _from(loop: For, axis: Var) -> Expr:
    return axis if queries.constant_value(loop.start) == 0 else loop.start + axis


def _to(loop: For) -> Expr:
    return loop.var if queries.constant_value(loop.start) == 0 else loop.var - loop.start
