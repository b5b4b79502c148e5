"""Inlining: compute_inline and reverse_compute_inline.

An inlined value is computed where it was read, in its own dtype and under the conditions of the read. So integers wrap
and floats round as they did, and nothing is read that was not read before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr, Load, Var
from lpx.ir import traverse
from lpx.ir.nodes import Alloc, Block, Function, Stmt, Store
from lpx.records import replace
from lpx.schedule import blocks, moving, queries, regions, rewriting
from lpx.schedule.dependence import pinned
from lpx.schedule.errors import (
    AccessError,
    BlockFormError,
    ConsumerError,
    CoverageError,
    DependenceError,
    ProducerError,
)
from lpx.schedule.primitive import primitive
from lpx.schedule.queries import Access, Path
from lpx.schedule.session import BlockLike, Edit


@primitive
def compute_inline(edit: Edit, block: BlockLike) -> None:
    """Compute a tensor's elements where they are read, and nowhere else.

    requires: a block that stores one value per instance and is no reduction; its tensor is no output, and written at
        its axes (plus constants); what it reads is not overwritten before the reads of the tensor.
    rewrite:
        block B(vi) { B[vi] = A[vi] + 1 }; block C(vj) { C[vj] = B[vj] * 2 } -> block C(vj) { C[vj] = (A[vj] + 1) * 2 }
    """
    node = edit.block(block)
    for loop in queries.loops_around(edit.function, node):
        edit.ended(loop.var, f"ended when {node.name} was inlined")
    edit.function = inline_block(edit.function, node)
    edit.ended(node.name, "was inlined into its consumers")


@primitive
def reverse_compute_inline(edit: Edit, block: BlockLike) -> None:
    """Store the result of an elementwise consumer where its input was stored, in the producer's loops.

    The producer's block then goes by the consumer's name. A block with several producers goes into the last of them.

    requires: the consumer stores one value per instance, reads one element of the producer's tensor there, and every
        element once; nothing else reads that tensor; the producer stores one value per instance and is no reduction;
        whatever else the consumer reads is complete before the producer.
    rewrite:
        block B(vi) { B[vi] = A[vi] + 1 }; block C(vj) { C[vj] = B[vj] * 2 } -> block C(vi) { C[vi] = (A[vi] + 1) * 2 }
    """
    node = edit.block(block)
    producer = producer_of(edit.function, node)
    for loop in queries.loops_around(edit.function, node):
        edit.ended(loop.var, f"ended when {node.name} was inlined into {producer.name}")
    edit.ended(producer.name, f"now stores {node.name} and has that name")
    edit.function = inline_consumer(edit.function, node, producer)


def inline_block(function: Function, block: Block) -> Function:
    """`compute_inline`: the new function, after every check."""
    blocks.check_temporaries(function, block, "which must be stored")
    blocks.check_only_writer(function, block)
    store = check_pointwise(block)
    path = queries.path_to(function, block)
    blocks.check_plain_domain(function, block)
    reads = check_reads(function, block, path, store)
    analyzer = queries.analyzer_of(function)
    axes = _axes_of_dimensions(analyzer, block, store)
    inlined = function
    for reader, where in {a.path[-1]: a.path for a in reads}.items():
        value = partial(_inlined, analyzer, store, axes, _sequential_values(block, where))
        inlined = rewriting.replace_statement(inlined, reader, rewriting.replace_loads(reader, store.buffer, value))
    return _without_tensor(inlined, block.name, store.buffer)


def _without_tensor(function: Function, name: str, buffer: Buffer) -> Function:
    block = queries.live_blocks(function)[name]
    left = rewriting.replace_statement(function, block, None)
    body = traverse.transform(left.body, lambda s: s.body if isinstance(s, Alloc) and s.buffer is buffer else None)
    return replace(left, body=body)


def check_pointwise(block: Block) -> Store:
    """The one store of a block. Refuses reductions and blocks that do anything else."""
    if block.init is not None or any(a.kind == "reduce" for a in block.axes):
        raise BlockFormError(
            f"block {block.name} is a reduction", hint="compute it at a loop instead (compute_at)", mark=block
        )
    if not isinstance(block.body, Store) or block.body.mask is not None:
        raise BlockFormError(f"block {block.name} does more than store one value", mark=block)
    if block.body.buffer in traverse.read_buffers(block):
        raise BlockFormError(f"block {block.name} reads what it writes", mark=block)
    return block.body


def check_reads(function: Function, block: Block, path: Path, store: Store) -> list[Access]:
    """The reads of the stored tensor. Refuses reads at which the value would come out differently."""
    blocks.check_plain_access(function, store.buffer)
    found = queries.accesses(function.body)
    reads = [a for a in found if a.buffer is store.buffer and not a.is_write]
    if not reads:
        raise ConsumerError(f"nothing reads {store.buffer.name}", mark=block)
    write = next(a for a in found if a.is_write and a.path[-1] is store)
    for read in reads:
        moving.check_before(function, block, path, read.path)
        moving.check_unchanged(block, path, read.path)
        blocks.check_in_scope(function, block, read.path)
        _check_same_iteration(function, block, path, write, read)
    return reads


def _check_same_iteration(function: Function, block: Block, path: Path, write: Access, read: Access) -> None:
    """Refuses a read of what an earlier iteration of a common loop stored, if inputs may have changed since."""
    shared = queries.loops_of(path[: moving.shared_length(path, read.path)])
    if not shared or not traverse.written_buffers(shared[0]) & blocks.inputs_of(block):
        return
    if store_is_private(shared[-1], write.buffer):
        return
    used = {f.var for f in shared if any(f.var in expr_traverse.free_vars(i) for i in write.indices or ())}
    if not used <= pinned(function, write, read, ()):
        raise DependenceError(
            f"{write.buffer.name} is read in a later iteration, when what {block.name} reads may have changed",
            mark=read.path[-1],
        )


def store_is_private(loop: Stmt, buffer: Buffer) -> bool:
    """Whether each iteration of a loop has its own `buffer`."""
    return buffer in queries.allocated_within(loop)


def _axes_of_dimensions(analyzer: Analyzer, block: Block, store: Store) -> list[tuple[Var, Expr]]:
    """For each dimension of the tensor the axis that runs over it, and an offset."""
    found: list[tuple[Var, Expr]] = []
    for index in store.indices:
        unit = regions.unit_axis(analyzer, block, index)
        if unit is None or any(unit[0].var is var for var, _ in found):
            raise AccessError(
                f"block {block.name} does not write {store.buffer.name} at its axes",
                hint="inline before changing the layout",
                mark=block,
            )
        found.append((unit[0].var, unit[1]))
    missing = [a for a in block.axes if a.kind == "spatial" and not any(a.var is var for var, _ in found)]
    if missing:
        raise AccessError(f"axis {missing[0].var.name} of {block.name} does not tell its elements apart", mark=block)
    return found


def _sequential_values(block: Block, reader: Path) -> dict[Var, Expr]:
    """What the sequential axes of `block` are called where its value is read."""
    values: dict[Var, Expr] = {}
    for axis, value in zip(block.axes, block.bindings, strict=True):
        if axis.kind != "sequential":
            continue
        values[axis.var] = _step_inside(block, axis.var, value, reader)
    return values


def _step_inside(block: Block, axis: Var, value: Expr, reader: Path) -> Expr:
    inside = next((s for s in reversed(reader) if isinstance(s, Block)), None)
    if inside is None:
        return value
    for own, bound in zip(inside.axes, inside.bindings, strict=True):
        if own.kind == "sequential" and expr_traverse.structural_equal(bound, value):
            return own.var
    raise ProducerError(f"{inside.name} does not step along axis {axis.name} of {block.name}", mark=inside)


def _inlined(
    analyzer: Analyzer, store: Store, axes: Sequence[tuple[Var, Expr]], steps: dict[Var, Expr], load: Load
) -> Expr:
    """The value of the element that `load` reads."""
    values = dict(steps)
    for (axis, offset), index in zip(axes, load.indices, strict=True):
        values[axis] = index if queries.constant_value(offset) == 0 else analyzer.simplify(index - offset)
    value = expr_traverse.substitute(store.value, values)
    return value if load.mask is None else build.select(load.mask, value, build.const(0, load.dtype))


def producer_of(function: Function, block: Block) -> Block:
    """The block that `reverse_compute_inline` stores into: the last one of which `block` alone reads the result."""
    params = queries.param_buffers(function)
    found = [
        p
        for p in queries.producers(function, block)
        if all(b not in params and set(queries.readers(function, b)) <= {block, p} for b in blocks.outputs_of(p))
    ]
    if not found:
        raise ProducerError(f"{block.name} is not the only reader of any temporary tensor", mark=block)
    return found[-1]


def inline_consumer(function: Function, block: Block, producer: Block) -> Function:
    """`reverse_compute_inline` into a producer: the new function, after every check."""
    consumer_store, store = check_pointwise(block), check_pointwise(producer)
    blocks.check_only_writer(function, producer)
    blocks.check_plain_access(function, store.buffer)
    blocks.check_plain_domain(function, block)
    blocks.check_plain_domain(function, producer)
    path, target = queries.path_to(function, block), queries.path_to(function, producer)
    _check_order(function, block, producer, path, target)
    values = _matching_axes(function, block, producer, store)
    values.update(_sequential_values(block, target))
    stored = rewriting.replace_loads(consumer_store, store.buffer, lambda _: store.value)
    body = traverse.substitute(stored, values)
    merged = replace(producer, name=block.name, body=body, span=block.span)
    without = rewriting.replace_statement(function, block, None)
    return _without_allocation(rewriting.replace_statement(without, producer, merged), store.buffer)


def _without_allocation(function: Function, buffer: Buffer) -> Function:
    body = traverse.transform(function.body, lambda s: s.body if isinstance(s, Alloc) and s.buffer is buffer else None)
    return replace(function, body=body)


def _check_order(function: Function, block: Block, producer: Block, path: Path, target: Path) -> None:
    """Refuses where the consumer's result or its other inputs are used between the two."""
    moving.check_before(function, producer, target, path)
    outputs = set(blocks.outputs_of(block))
    inputs = blocks.inputs_of(block) - set(blocks.outputs_of(producer))
    in_scope = {s.buffer for s in target if isinstance(s, Alloc)} | set(queries.param_buffers(function))
    if not outputs <= in_scope:
        raise ConsumerError(f"{block.name}'s result does not exist where {producer.name} runs", mark=producer)
    for root in moving.between(path, target):
        for stmt in traverse.walk(root):
            if traverse.substatements(stmt) or stmt is block.body:
                continue
            touched = (traverse.read_buffers(stmt) | traverse.written_buffers(stmt)) & outputs
            found = touched or traverse.written_buffers(stmt) & inputs
            if found:
                raise DependenceError(
                    f"{next(iter(found)).name}, which {block.name} uses, is used between {producer.name} and it",
                    mark=stmt,
                )


def _matching_axes(function: Function, block: Block, producer: Block, store: Store) -> dict[Var, Expr]:
    """The consumer's axes in terms of the producer's. Refuses unless both run over the same elements, each once."""
    analyzer = queries.analyzer_of(function)
    made = _axes_of_dimensions(analyzer, producer, store)
    extents = {a.var: a.extent for a in (*block.axes, *producer.axes)}
    values: dict[Var, Expr] = {}
    for load in queries.loads_of(block, store.buffer):
        for (axis, offset), index in zip(made, load.indices, strict=True):
            unit = regions.unit_axis(analyzer, block, index)
            if unit is None:
                raise AccessError(f"{block.name} does not read {store.buffer.name} at its axes", mark=block)
            own, shift = unit
            if not analyzer.equal(shift, offset) or not analyzer.equal(extents[own.var], extents[axis]):
                raise CoverageError(
                    f"{block.name} does not run over the elements that {producer.name} makes", mark=block
                )
            if values.setdefault(own.var, axis) is not axis:
                raise AccessError(f"{block.name} reads several elements of {store.buffer.name}", mark=block)
    missing = [a for a in block.axes if a.kind == "spatial" and a.var not in values]
    if missing:
        raise CoverageError(
            f"axis {missing[0].var.name} of {block.name} repeats elements of {store.buffer.name}", mark=block
        )
    return values
