"""Layout primitives: in which order a buffer's elements lie in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lpx.arith.analyzer import Analyzer
from lpx.arith.iteration import is_injective
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer, Scope
from lpx.expr.nodes import AddressOf, Expr, Load
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Stmt
from lpx.schedule import queries
from lpx.schedule.errors import AccessError, OptionError
from lpx.schedule.handles import BlockHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import BufferLike
from lpx.schedule.storage import cache_read, check_intermediate, check_one_buffer
from lpx.schedule.values import IndexMap

Map = Callable[..., Any] | IndexMap


@primitive
def transform_layout(edit: Edit, block: BlockLike, index_map: Map) -> None:
    """Store what `block` computes at other places: element i of the buffer lies at `index_map(i)`.

    Every access is rewritten; loops stay as they are.

    requires: the buffer is an intermediate; the map sends different indices to different places.

    rewrite (index_map = lambda i, j: (j // 4, i, j % 4)):
        block B { B[i, j] = A[i, j] }
        ->
        block B { B[j // 4, i, j % 4] = A[i, j] }
    """
    buffer = check_one_buffer(edit.block(block))
    check_intermediate(edit, buffer)
    mapping = IndexMap.of(index_map)
    edit.canonical["index_map"] = mapping
    edit.function = relayout(edit.function, buffer, mapping)


@primitive
def pack(
    edit: Edit, block: BlockLike, buffer: BufferLike, index_map: Map, scope: Scope = "global"
) -> BlockHandle:
    """Copy a buffer that `block` reads into another layout: `cache_read`, then `transform_layout` of the copy.

    requires: what the two require.

    rewrite (index_map = lambda i, j: (j // 4, i, j % 4)):
        block C { C[i, j] = B[i, j] }
        ->
        block B_global { B_global[j // 4, i, j % 4] = B[i, j] }
        block C { C[i, j] = B_global[j // 4, i, j % 4] }
    """
    mapping = IndexMap.of(index_map)
    copy = cache_read.function(edit, block, buffer, scope)
    edit.canonical["index_map"] = mapping
    packed = check_one_buffer(edit.block(copy))
    edit.function = relayout(edit.function, packed, mapping)
    return copy


def relayout(function: nodes.Function, buffer: Buffer, mapping: IndexMap) -> nodes.Function:
    """`function` with every access to `buffer` at `mapping` of its indices, in a buffer of the mapped shape."""
    if len(mapping.variables) != buffer.rank:
        raise OptionError(
            f"the map takes {len(mapping.variables)} index(es) but {buffer.name} has {buffer.rank} dimension(s)"
        )
    analyzer = queries.analyzer_of(function, ())
    for variable, extent in zip(mapping.variables, buffer.shape, strict=True):
        analyzer = analyzer.with_range(variable, 0, extent)
    if not is_injective(mapping.targets, dict(zip(mapping.variables, buffer.shape, strict=True)), analyzer):
        raise OptionError(
            f"the map of {buffer.name} may send two indices to one place",
            hint="split indices by // and % with the same number, and permute the parts",
        )
    shape = tuple(_extent(target, mapping, analyzer) for target in mapping.targets)
    new = replace(buffer, shape=shape, strides=None)
    return replace(function, body=_remap(function.body, buffer, new, mapping))


def _extent(target: Expr, mapping: IndexMap, analyzer: Analyzer) -> Expr:
    bounds = analyzer.symbolic_bounds(target, mapping.variables)
    if bounds is None or not analyzer.prove(bounds[0] >= 0):
        raise OptionError("the map gives an index whose range is not known", hint="use + - * // % with constants")
    return analyzer.simplify(bounds[1] + 1)


def _remap(body: Stmt, old: Buffer, new: Buffer, mapping: IndexMap) -> Stmt:
    memo: dict[Expr, Expr] = {}

    def on_node(expr: Expr) -> Expr | None:
        match expr:
            case Load(buffer=buffer, indices=indices, mask=mask) if buffer is old:
                return build.load(new, mapping(*indices), mask)
            case AddressOf(buffer=buffer, indices=indices) if buffer is old:
                return build.address_of(new, mapping(*indices))
            case _:
                return None

    def on_stmt(stmt: Stmt) -> Stmt | None:
        match stmt:
            case nodes.Store(buffer=buffer, indices=indices) | nodes.AtomicUpdate(buffer=buffer, indices=indices):
                return replace(stmt, buffer=new, indices=mapping(*indices)) if buffer is old else None
            case nodes.Alloc(buffer=buffer) if buffer is old:
                return replace(stmt, buffer=new)
            case nodes.AsyncCopy(target=target, source=source) if old in (target, source):
                raise AccessError(f"{old.name} is copied asynchronously, row by row", mark=stmt)
            case nodes.CallFunction(buffers=buffers) if any(b is old for b in buffers):
                raise AccessError(f"{old.name} is passed to another function", mark=stmt)
            case _:
                return None

    return traverse.transform(body, on_stmt, lambda e: expr_traverse.transform(e, on_node, memo))
