"""Layout primitives: in which order a buffer's elements lie in memory."""

from __future__ import annotations

from lpx.arith.iteration import IndexMap as Places
from lpx.arith.iteration import read_index_map
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer, Scope
from lpx.expr.nodes import AddressOf, Axis, Expr, Load, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Stmt
from lpx.records import replace
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import AccessError, DependenceError, OptionError
from lpx.schedule.handles import BlockHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import BufferLike, buffer_name, innermost_loop, nest_over, resolve_buffer, widest_without
from lpx.schedule.staging_boxes import reading_place
from lpx.schedule.storage import check_intermediate, check_one_buffer, stage_reads
from lpx.schedule.values import IndexMap
from lpx.te.signatures import Positional

Map = Positional[object, Expr] | IndexMap


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
def pack(edit: Edit, block: BlockLike, buffer: BufferLike, index_map: Map, scope: Scope = "global") -> BlockHandle:
    """Copy a buffer into another layout for `block` to read; returns the copying block, for `compute_at`.

    Element i of the buffer lies at `index_map(i)` of the copy. The copying block's loops run over the copy in its own
    order.

    requires: what `cache_read` requires, and a map that sends different indices to different places.

    rewrite (index_map = lambda i, j: (j // 4, i, j % 4)):
        block C { C[i, j] = B[i, j] }
        ->
        for a, b, c: block B_global { B_global[a, b, c] = B[b, a * 4 + c] }
        block C { C[i, j] = B_global[j // 4, i, j % 4] }
    """
    mapping = IndexMap.of(index_map)
    edit.canonical["buffer"] = buffer_name(buffer)
    edit.canonical["index_map"] = mapping
    reader = edit.block(block)
    source = resolve_buffer(edit, buffer, traverse.read_buffers(reader))
    check_complete(edit.function, reading_place(edit.function, reader, source), source)
    places = check_injective(edit.function, source, mapping)
    copying = stage_reads(edit, reader, source, scope)
    unpacked = check_one_buffer(copying)
    packed = replace(unpacked, shape=places.extents)
    edit.function = replace(edit.function, body=_remap(edit.function.body, unpacked, packed, mapping))
    nest = widest_without(edit.function, edit.block(copying.name), lambda _: False)
    packing = _packing_nest(copying.name, source, places, packed)
    edit.function = rewriting.replace_statement(edit.function, nest, packing)
    return BlockHandle(copying.name)


def check_complete(function: nodes.Function, path: queries.Path, buffer: Buffer) -> None:
    """Refuse a place inside the loops that compute `buffer`."""
    loop = innermost_loop(path)
    if loop is not None:
        raise DependenceError(
            f"{buffer.name} is computed inside loop {loop.name}, part by part",
            mark=queries.live_loops(function)[loop],
            hint="pack what is complete: compute_root the producer, or pack before compute_at",
        )


def _packing_nest(name: str, source: Buffer, places: Places, packed: Buffer) -> Stmt:
    """Loops in the order of the packed buffer around the block that fills it; places no element maps to become 0."""

    def block(loops: tuple[Var, ...]) -> Stmt:
        axes = tuple(Axis(build.var(f"v{v.name}"), e) for v, e in zip(loops, places.extents, strict=True))
        variables = tuple(a.var for a in axes)
        analyzer = places.analyzer
        for axis in axes:
            analyzer = analyzer.with_axis(axis)
        origin = places.inverse(variables)
        inside = [analyzer.simplify(i < e) for i, e in zip(origin, source.shape, strict=True)]
        value = build.load(source, origin)
        condition = rewriting.conjunction([c for c in inside if not analyzer.prove(c)])
        if condition is not None:
            value = build.select(condition, value, build.const(0, source.dtype))
        return nodes.Block(name, axes, loops, None, None, nodes.Store(packed, variables, value))

    return nest_over(places.extents, [f"a{k}" for k in range(len(places.extents))], block)


def check_injective(function: nodes.Function, buffer: Buffer, mapping: IndexMap) -> Places:
    """Refuse a map that is not known to send different indices of `buffer` to different places."""
    if buffer.layout is not None:
        raise OptionError(f"{buffer.name} has a layout of its own", hint="map the indices before giving it one")
    if len(mapping.variables) != buffer.rank:
        raise OptionError(
            f"the map takes {len(mapping.variables)} index(es) but {buffer.name} has {buffer.rank} dimension(s)"
        )
    extents = dict(zip(mapping.variables, buffer.shape, strict=True))
    found = read_index_map(mapping.targets, extents, queries.analyzer_of(function, ()))
    if found is None:
        raise OptionError(
            f"the map of {buffer.name} may send two indices to one place",
            hint="split indices by // and % with the same number, and permute the parts",
        )
    return found


def relayout(function: nodes.Function, buffer: Buffer, mapping: IndexMap) -> nodes.Function:
    """`function` with every access to `buffer` at `mapping` of its indices, in a buffer of the mapped shape."""
    new = replace(buffer, shape=check_injective(function, buffer, mapping).extents, strides=None)
    return replace(function, body=_remap(function.body, buffer, new, mapping))


def _remap(body: Stmt, old: Buffer, new: Buffer, mapping: IndexMap) -> Stmt:
    memo: dict[Expr, Expr] = {}

    def moved(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return mapping(*indices)

    def on_node(expr: Expr) -> Expr | None:
        match expr:
            case Load(buffer=buffer, indices=indices, mask=mask) if buffer is old:
                return build.load(new, moved(indices), mask)
            case AddressOf(buffer=buffer, indices=indices) if buffer is old:
                return build.address_of(new, moved(indices))
            case _:
                return None

    def on_stmt(stmt: Stmt) -> Stmt | None:
        match stmt:
            case nodes.Store(buffer=buffer, indices=indices) | nodes.AtomicUpdate(buffer=buffer, indices=indices):
                return replace(stmt, buffer=new, indices=moved(indices)) if buffer is old else None
            case nodes.Alloc(buffer=buffer) if buffer is old:
                return replace(stmt, buffer=new)
            case nodes.AsyncCopy(target=target, source=source) if old in (target, source):
                raise AccessError(f"{old.name} is copied asynchronously, row by row", mark=stmt)
            case nodes.CallFunction(buffers=buffers) if any(b is old for b in buffers):
                raise AccessError(f"{old.name} is passed to another function", mark=stmt)
            case _:
                return None

    return traverse.transform(
        body, on_stmt, lambda e: expr_traverse.transform(e, on_node, memo, expr_traverse.touches_memory)
    )
