"""pad: extents rounded up to multiples, with zeros in the new places, so that tiles need no tails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Binary, Const, Expr, Load, Var
from lpx.ir import traverse
from lpx.ir.nodes import Block, For, Stmt, Store
from lpx.records import replace
from lpx.schedule import queries, rewriting
from lpx.schedule.errors import AccessError, BlockFormError, LoopKindError, NestingError, OptionError
from lpx.schedule.handles import BlockHandle
from lpx.schedule.primitive import primitive
from lpx.schedule.reduction_forms import check_accumulation
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.staging import allocate, check_open_place, innermost_loop, nest_over, widest_without
from lpx.schedule.staging_boxes import check_without_gaps
from lpx.schedule.storage import check_single_output

Value: TypeAlias = "Callable[[Sequence[Expr]], Expr]"
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


@primitive
def pad(edit: Edit, block: BlockLike, multiples: Sequence[int]) -> tuple[BlockHandle, ...]:
    """Round the extents of a block's axes up to multiples (one per axis; 1 leaves an axis as it is).

    The block reads copies of its inputs that have zeros in the new places. Where its output grows it writes a larger
    one, of which the old part is copied back. Returns the copying blocks: inputs in order of first read, then output.

    requires: a block outside other nests, alone in writing its output, whose padded axes are each bound to a loop of
        their own and index its buffers as they are; along a padded reduce axis it adds up values that are 0 where the
        inputs are; it does not divide by what it reads.
    rewrite (multiples = [1, 4], k = 6):
        for i, r in 0..6: block C { C[vi] = C[vi] + A[vi, vr] * B[vr] }
        ->
        block A_pad { A_pad[a, b] = select(b < 6, A[a, b], 0) }; block B_pad { ... }
        for i, r in 0..8: block C { C[vi] = C[vi] + A_pad[vi, vr] * B_pad[vr] }
    """
    node = edit.block(block)
    target = check_single_output(edit.function, node)
    path = queries.path_to(edit.function, widest_without(edit.function, node, lambda _: True))
    check_open_place(path)
    if innermost_loop(path) is not None or node.predicate is not None:
        raise NestingError(f"{node.name} is not a nest of its own", mark=node, hint="pad before splitting and moving")
    grown = grown_axes(node, multiples)
    check_loops(node, grown, queries.loops_around(edit.function, node))
    check_values(node, grown)
    padding = _Padding(node, grown, rewriting.block_names(edit.function))
    inputs = [b for b in dict.fromkeys(_loads(node)) if b is not target and padding.grows(b)]
    for buffer in inputs:
        check_without_gaps(edit.function, buffer)
    copies = {b: padding.buffer(b, f"{b.name}_pad") for b in inputs}
    before = [padding.copy_in(b, copies[b]) for b in inputs]
    after: list[Stmt] = []
    if padding.grows(target):
        copies[target] = padding.buffer(target, f"{target.name}_padded")
        after.append(padding.copy_out(copies[target], target))
    padded = padding.nest(path[-1], copies)
    edit.function = rewriting.replace_statement(edit.function, path[-1], traverse.sequence([*before, padded, *after]))
    for buffer in copies.values():
        edit.function = allocate(edit.function, buffer)
    return tuple(BlockHandle(name) for name in padding.made)


def grown_axes(block: Block, multiples: Sequence[int]) -> dict[Var, Expr]:
    """The new extents of the axes that grow."""
    if len(multiples) != len(block.axes) or any(m < 1 for m in multiples):
        names = ", ".join(a.var.name for a in block.axes)
        raise OptionError(f"{tuple(multiples)} are not multiples for the axes {names}", hint="give one per axis")
    analyzer = Analyzer()
    grown: dict[Var, Expr] = {}
    for axis, multiple in zip(block.axes, multiples, strict=True):
        extent = analyzer.simplify((axis.extent + (multiple - 1)) // multiple * multiple)
        if not analyzer.equal(extent, axis.extent):
            grown[axis.var] = extent
    return grown


def check_loops(block: Block, grown: Mapping[Var, Expr], loops: Sequence[For]) -> None:
    """Refuse where an axis that grows is not bound to a serial loop of its own."""
    by_var = {f.var: f for f in loops}
    for axis, value in zip(block.axes, block.bindings, strict=True):
        if axis.var not in grown:
            continue
        loop = by_var.get(value) if isinstance(value, Var) else None
        if loop is None or queries.constant_value(loop.start) != 0 or not Analyzer().equal(loop.extent, axis.extent):
            raise NestingError(
                f"axis {axis.var.name} of {block.name} is not bound to a loop of its own",
                mark=block,
                hint="pad before splitting and fusing",
            )
        if loop.kind != "serial":
            raise LoopKindError(f"loop {loop.var.name} is {loop.kind}", mark=loop, hint="pad first")


def check_values(block: Block, grown: Mapping[Var, Expr]) -> None:
    """Refuse a block to whose result the new places would add something."""
    for stmt in traverse.walk(block):
        for expr in (e for root in traverse.expressions(stmt) for e in expr_traverse.walk(root)):
            if isinstance(expr, Load):
                check_plain_indices(block, grown, expr.buffer, expr.indices)
            if isinstance(expr, Binary) and expr.op in _DIVISIONS and rewriting.mentions_memory(expr.b):
                raise BlockFormError(f"{block.name} divides by what it reads, which would be 0", mark=block)
        if isinstance(stmt, Store):
            check_plain_indices(block, grown, stmt.buffer, stmt.indices)
    for axis in block.axes:
        if axis.kind != "spatial" and axis.var in grown:
            check_adds_nothing(block, axis)


def check_plain_indices(block: Block, grown: Mapping[Var, Expr], buffer: Buffer, indices: Sequence[Expr]) -> None:
    """Refuse indices that are computed from an axis that grows."""
    for index in indices:
        if index not in block_axes(block) and expr_traverse.free_vars(index) & grown.keys():
            raise AccessError(f"{block.name} accesses {buffer.name} at {index}, not at an axis as it is", mark=block)


def block_axes(block: Block) -> set[Expr]:
    """The variables of a block's axes."""
    return {a.var for a in block.axes}


def check_adds_nothing(block: Block, axis: Axis) -> None:
    """Refuse a reduction to which zeros along `axis` would add something."""
    accumulation = check_accumulation(block)

    def visit(expr: Expr) -> Expr | None:
        is_zero = isinstance(expr, Load) and any(i is axis.var for i in expr.indices)
        return build.const(0, expr.dtype) if is_zero else None

    value = Analyzer().simplify(expr_traverse.transform(accumulation.values[0], visit))
    if accumulation.op != "add" or not _is_zero(value) or not _is_zero(accumulation.first):
        raise BlockFormError(
            f"{block.name} is not a sum from 0 of values that are 0 where its inputs are",
            mark=block,
            hint=f"leave axis {axis.var.name} as it is (multiple 1)",
        )


def _is_zero(value: Expr) -> bool:
    return isinstance(value, Const) and value.value == 0 and not str(value.value).startswith("-")


def _loads(block: Block) -> list[Buffer]:
    return [e.buffer for e in traverse.walk_expressions(block) if isinstance(e, Load)]


@dataclass(slots=True)
class _Padding:
    """Makes the larger buffers of a block, and the blocks that copy into and out of them."""

    block: Block
    grown: Mapping[Var, Expr]
    taken: set[str]
    made: list[str] = field(default_factory=list[str])

    def grows(self, buffer: Buffer) -> bool:
        """Whether any dimension of a buffer is indexed by an axis that grows."""
        return any(e is not None for e in self._extents(buffer))

    def _extents(self, buffer: Buffer) -> list[Expr | None]:
        return [self._extent(buffer, [indices[d] for indices in self._accesses(buffer)]) for d in range(buffer.rank)]

    def _extent(self, buffer: Buffer, indices: Sequence[Expr]) -> Expr | None:
        """The largest extent of axes that index one dimension, None where none of them grows."""
        analyzer = Analyzer()
        found = [self.grown[i] for i in indices if isinstance(i, Var) and i in self.grown]
        largest = [e for e in found if all(analyzer.prove(e >= other) for other in found)]
        if found and not largest:
            raise AccessError(
                f"{self.block.name} accesses {buffer.name} along axes of several new extents",
                mark=self.block,
                hint="give these axes the same multiple",
            )
        return largest[0] if largest else None

    def _accesses(self, buffer: Buffer) -> list[tuple[Expr, ...]]:
        loads = [e.indices for e in queries.loads_of(self.block, buffer)]
        stores = [s.indices for s in traverse.walk(self.block) if isinstance(s, Store) and s.buffer is buffer]
        return loads + stores

    def buffer(self, buffer: Buffer, name: str) -> Buffer:
        """The larger buffer that stands for `buffer`."""
        shape = tuple(old if new is None else new for new, old in zip(self._extents(buffer), buffer.shape, strict=True))
        return Buffer(name, buffer.dtype, shape)

    def copy_in(self, source: Buffer, target: Buffer) -> Stmt:
        """The nest that fills a larger input, zeros in the new places."""

        def value(indices: Sequence[Expr]) -> Expr:
            inside = [
                build.compare("lt", i, old)
                for i, old, new in zip(indices, source.shape, target.shape, strict=True)
                if new is not old
            ]
            loaded = build.load(source, indices)
            condition = rewriting.conjunction(inside)
            return loaded if condition is None else build.select(condition, loaded, build.const(0, source.dtype))

        return self._copy(f"{source.name}_pad", target, value)

    def copy_out(self, source: Buffer, target: Buffer) -> Stmt:
        """The nest that copies the old part of a larger output."""
        return self._copy(f"{target.name}_unpad", target, lambda indices: build.load(source, indices))

    def _copy(self, hint: str, target: Buffer, value: Value) -> Stmt:
        name = rewriting.unique_name(hint, self.taken)
        self.made.append(name)

        def block(loops: tuple[Var, ...]) -> Stmt:
            axes = tuple(Axis(build.var(f"v{v.name}"), e) for v, e in zip(loops, target.shape, strict=True))
            indices = tuple(a.var for a in axes)
            return Block(name, axes, loops, None, None, Store(target, indices, value(indices)))

        return nest_over(target.shape, [f"a{k}" for k in range(target.rank)], block)

    def nest(self, nest: Stmt, copies: Mapping[Buffer, Buffer]) -> Stmt:
        """The block's nest over larger extents and buffers."""
        extents = {
            value: self.grown[axis.var]
            for axis, value in zip(self.block.axes, self.block.bindings, strict=True)
            if axis.var in self.grown
        }

        def visit(stmt: Stmt) -> Stmt | None:
            if isinstance(stmt, For) and stmt.var in extents:
                return replace(stmt, extent=extents[stmt.var])
            if isinstance(stmt, Block):
                axes = tuple(replace(a, extent=self.grown.get(a.var, a.extent)) for a in stmt.axes)
                return replace(stmt, axes=axes)
            return None

        return traverse.replace_buffers(traverse.transform(nest, visit), copies)
