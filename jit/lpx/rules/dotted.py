"""Products of matrices of narrow numbers (8-bit integers, bfloat16) by dot-product instructions.

Both operands are padded with zeros to whole instructions. The column operand is copied into panels in which the
neighbours along the sum that one lane adds up lie side by side. A tile of the result stays in registers for the whole
sum: rows by two vectors of columns, or two by two tiles where the machine has tiles; then the row operand is copied
into tiles as well.
"""

from __future__ import annotations

from math import prod

from lpx.expr import build
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Load, Var
from lpx.ir import traverse
from lpx.records import record
from lpx.rules import dot_instructions
from lpx.rules.contraction import PARALLEL_PRODUCTS, Contraction, divide_evenly, loops_inside, recognise
from lpx.rules.dot_instructions import TILE, Dot
from lpx.rules.elementwise import share
from lpx.rules.facts import extent_of, facts_of, follower
from lpx.schedule import queries
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.schedule.values import IndexMap
from lpx.target import CpuMachine

FEW_STRIPS = 2
"""Tiles of rows up to which a panel is used too rarely to be kept for all of them."""

USES_PER_BYTE = 4
"""Products of an element of the column operand, for each of its bytes, from which on copying it at run time pays."""


@record
class Sizes:
    """Sizes in iterations: `rows` x `columns` of the result stay in registers, `block` panels in the second cache."""

    rows: int
    columns: int
    block: int


def choose_sizes(found: Contraction, dot: Dot, machine: CpuMachine) -> Sizes:
    """Sizes from register counts, caches and extents."""
    height = 1 if found.row is None else extent_of(found.row.extent)
    width, summed = extent_of(found.column.extent), extent_of(found.inner[0].extent)
    columns = dot.columns * (1 if width <= dot.columns else 2)
    if dot.is_tile:
        rows = dot.rows * (1 if height <= dot.rows else 2)
    else:
        vectors = columns // dot.columns
        rows = divide_evenly(height, (machine.vector_registers - vectors - 2) // vectors)
    panel = columns * summed * found.column_operand.dtype.itemsize
    return Sizes(rows, columns, divide_evenly(-(-width // columns), max(1, machine.l2.bytes // 2 // panel)))


def apply(schedule: Schedule, name: str, machine: CpuMachine) -> str:
    """Schedule one block by dot-product instructions; what was done, or "" where none suits."""
    found = recognise(facts_of(schedule.function)[name])
    if found is None or not dot_instructions.suits(found):
        return ""
    dot = dot_instructions.find(found, machine)
    if dot is None or not (_is_constant(schedule, found.column_operand.buffer) or _is_used_often(found)):
        return ""
    return _Plan(schedule, found, dot, choose_sizes(found, dot, machine), machine).apply()


@record
class _Plan:
    """How one contraction is scheduled.

    Loops from outside in: batches whose columns differ, blocks of panels, other batches, tiles of rows, tiles of
    columns, the sum, the tile. Where tiles of rows are few, they go inside the tiles of columns.
    """

    schedule: Schedule
    found: Contraction
    dot: Dot
    sizes: Sizes
    machine: CpuMachine

    @property
    def name(self) -> str:
        return self.found.facts.block.name

    def apply(self) -> str:
        """Schedule the contraction; what was done, in words."""
        schedule, found, dot, sizes = self.schedule, self.found, self.dot, self.sizes
        fused = follower(schedule.function, self.name)
        schedule.pad(self.name, self._multiples())
        panels = self._pack_columns()
        self._pack_rows()
        host = self._host(fused)
        nest = self._tile(host)
        schedule.compute_at(self.name, nest.tiles[-1])
        steps = self._multiply(nest.tiles[-1])
        self._finish(nest)
        self._place_panels(panels, nest)
        schedule.prefetch(host, _written_by(schedule, host), nest.tiles[-1], over=steps)
        shared = self._share(nest)
        return (
            f"{dot.intrinsic} in tiles of {sizes.rows} x {sizes.columns}, {found.column_operand.buffer.name} packed"
            + shared
            + (f", {fused} applied to each tile" if fused else "")
        )

    # --- operands ---------------------------------------------------------------------------------------------------

    def _multiples(self) -> list[int]:
        """What the extent of each axis is rounded up to."""
        found = self.found
        sizes = {found.column: self.sizes.columns * self.sizes.block, found.inner[0]: self.dot.depth}
        if found.row is not None:
            sizes[found.row] = self.sizes.rows
        return [sizes.get(a, 1) for a in found.facts.block.axes]

    def _pack_columns(self) -> BlockHandle:
        """Copy the column operand into panels: [batches, panel, part of the sum, (groups), column, neighbours]."""
        found, dot = self.found, self.dot
        width = dot.columns if dot.is_tile else self.sizes.columns
        variables, places, others = _places(found.column_operand, found.column, found.inner[0])
        j, r = places
        groups = [r // dot.group % TILE] if dot.is_tile else []
        targets = (*others, j // width, r // dot.depth, *groups, j % width, r % dot.group)
        copy = self._pack(found.column_operand, IndexMap(variables, targets))
        if dot.is_tile:  # a tile in one piece
            kept = tuple(build.var(f"i{k}") for k in range(len(targets)))
            q, column, k = kept[-3:]
            self.schedule.transform_layout(copy, IndexMap(kept, (*kept[:-3], (q * TILE + column) * dot.group + k)))
        return copy

    def _pack_rows(self) -> None:
        """Copy the row operand into tiles: [batches, tile of rows, part of the sum, row and neighbours].

        Without tiles it is read as it lies, or as the copy lies that was padded.
        """
        found, schedule, dot = self.found, self.schedule, self.dot
        load = found.row_operand
        if dot.is_tile and found.row is not None:
            variables, (i, r), others = _places(load, found.row, found.inner[0])
            targets = (*others, i // dot.rows, r // dot.depth, i % dot.rows * dot.depth + r % dot.depth)
            name, width = self._pack(load, IndexMap(variables, targets)).name, dot.depth
        elif self._padded(load) is not load.buffer:
            name = queries.writers(schedule.function, self._padded(load))[0].name
            width = self.machine.lanes(load.dtype.bits)
        else:
            return
        *around, last = schedule.loops(name)
        part, lanes = schedule.split(last, width, tail="mask")
        schedule.vectorize(lanes)
        share(schedule, self.machine, [*around, part], facts_of(schedule.function)[name].runs)

    def _padded(self, load: Load) -> Buffer:
        """The buffer that the block reads for `load`: a padded copy, if there is one."""
        loads = facts_of(self.schedule.function)[self.name].loads
        same = (e for e in loads if len(e.indices) == len(load.indices))
        return next(e.buffer for e in same if all(a is b for a, b in zip(e.indices, load.indices, strict=True)))

    def _pack(self, load: Load, index_map: IndexMap) -> BlockHandle:
        """Copy an operand into another layout, reading through its padded copy."""
        schedule, buffer = self.schedule, self._padded(load)
        copy = schedule.pack(self.name, buffer, index_map)
        if buffer is not load.buffer:
            schedule.compute_inline(queries.writers(schedule.function, buffer)[0].name)
        return copy

    def _place_panels(self, copy: BlockHandle, nest: _Nest) -> None:
        """Copy panels where they are used, unless they are the same at every call and so copied once."""
        schedule, found = self.schedule, self.found
        if nest.packing is not None:
            schedule.compute_at(copy, nest.packing)
        loops = schedule.loops(copy)
        if found.facts.stride(found.column_operand.indices, found.column_operand.buffer, found.inner[0].var) == 1:
            schedule.vectorize(loops[-1])
            return
        schedule.vectorize(schedule.fuse(*loops[-2:]))

    # --- tiles ------------------------------------------------------------------------------------------------------

    def _host(self, fused: str) -> str:
        """The block that stores the result, tile by tile: an epilogue, or a copy."""
        schedule, result = self.schedule, self.found.facts.target
        copies = [b.name for b in queries.writers(schedule.function, result) if b.name != self.name]
        if fused and copies:
            schedule.compute_inline(copies[0])
        return fused or (copies[0] if copies else schedule.cache_write(self.name).name)

    def _tile(self, host: str) -> _Nest:
        """Cut rows and columns of the host, and put its loops in order."""
        schedule, found, sizes = self.schedule, self.found, self.sizes
        axes = found.facts.axes("spatial")
        bound = list(queries.axis_values(schedule.block_of(host)).values())
        live = {h.var: h for h in schedule.loops(host)}
        loops = {a: live[v] for a, v in zip(axes, bound, strict=True) if isinstance(v, Var) and v in live}
        batches = [a for a in loops if a is not found.row and a is not found.column]
        apart = [loops[a] for a in batches if _mentions(found.column_operand, a)]
        together = [loops[a] for a in batches if not _mentions(found.column_operand, a)]
        panels = -(-extent_of(found.column.extent) // sizes.columns)
        factors = (sizes.block, sizes.columns) if sizes.block < panels else (sizes.columns,)
        *block, panel, inside = schedule.split(loops[found.column], factors)
        vector, lanes = schedule.split(inside, self.dot.columns, tail="mask")
        strip, rows = list[LoopHandle](), list[LoopHandle]()
        if found.row is not None:
            first, inside = schedule.split(loops[found.row], sizes.rows)
            strip, rows = [first], [inside]
        few = prod(extent_of(schedule.loop_of(h).extent) for h in [*together, *strip]) <= FEW_STRIPS
        tiles = [panel, *together, *strip] if few else [*together, *strip, panel]
        apart += block
        schedule.reorder(*apart, *tiles, *rows, vector, lanes)
        packing = panel if few else apart[-1] if apart else None
        if _is_constant(schedule, found.column_operand.buffer):
            packing = None
        return _Nest(apart, tiles, [*rows, vector, lanes], packing)

    def _multiply(self, outer: LoopHandle) -> LoopHandle:
        """Order the block's loops inside `outer` and put the instruction in; the loop over the sum."""
        schedule, found, dot = self.schedule, self.found, self.dot
        rows = [] if found.row is None else loops_inside(schedule, self.name, outer, [found.row.var])
        if dot.is_tile and found.row is not None:
            self._keep_tiles(found.row)
        (columns,) = loops_inside(schedule, self.name, outer, [found.column.var])
        (summed,) = loops_inside(schedule, self.name, outer, [found.inner[0].var])
        vector, lanes = schedule.split(columns, dot.columns)
        if dot.is_tile:
            row_tile, in_row = schedule.split(rows[0], dot.rows)
            steps, groups, neighbours = schedule.split(summed, (TILE, dot.group))
            unrolled, whole, parts = [row_tile, vector], [in_row, lanes], [groups, neighbours]
        else:
            steps, neighbours = schedule.split(summed, dot.group)
            unrolled, whole, parts = [*rows, vector], [lanes], [neighbours]
        schedule.reorder(steps, *unrolled, *whole, *parts)
        start = list(schedule.loops(schedule.decompose_reduction(self.name, steps)))
        start = start[len(start) - len(unrolled) - len(whole) :]
        schedule.vectorize(schedule.fuse(*start[len(unrolled) :]) if dot.is_tile else start[-1])
        for loop in (*start[: len(unrolled)], *unrolled):
            schedule.unroll(loop)
        schedule.tensorize(self.name, whole[0], dot.intrinsic)
        return steps

    def _keep_tiles(self, row: Axis) -> None:
        """Keep the result in tiles, each in one piece: [batches, tile of rows, tile of columns, place in the tile]."""
        found, dot = self.found, self.dot
        axes = found.facts.axes("spatial")
        place = {a: build.var(f"i{k}") for k, a in enumerate(axes)}
        i, j = place[row], place[found.column]
        others = [v for a, v in place.items() if a is not row and a is not found.column]
        targets = (*others, i // dot.rows, j // dot.columns, i % dot.rows * dot.columns + j % dot.columns)
        self.schedule.transform_layout(self.name, IndexMap(tuple(place.values()), targets))

    def _finish(self, nest: _Nest) -> None:
        """Run through the finished tile in vectors: in registers, or from a tile in memory."""
        schedule = self.schedule
        *rows, vector, lanes = nest.inside
        if not self.dot.is_tile:
            schedule.set_scope(self.name, "register")
            for row in rows:
                schedule.unroll(row)
        schedule.unroll(vector)
        schedule.vectorize(lanes)

    def _share(self, nest: _Nest) -> str:
        """Share the outermost loops among threads where that pays; a phrase for the note."""
        speed = self.dot.group * self.dot.rows
        if self.machine.cores == 1 or self.found.facts.runs < PARALLEL_PRODUCTS * speed:
            return ""
        loops = nest.apart or nest.tiles[:-1] or nest.tiles
        self.schedule.parallel(self.schedule.fuse(*loops) if len(loops) > 1 else loops[0])
        return ", threads"


@record
class _Nest:
    """The loops of the host: `apart` and `tiles` outermost first, those `inside` a tile; panels are packed in one."""

    apart: list[LoopHandle]
    tiles: list[LoopHandle]
    inside: list[LoopHandle]
    packing: LoopHandle | None


def _places(load: Load, *axes: Axis) -> tuple[tuple[Var, ...], list[Var], list[Var]]:
    """Variables for the indices of a load: all, those of `axes`, and the others."""
    variables = tuple(build.var(f"i{k}") for k in range(len(load.indices)))
    place = dict(zip(load.indices, variables, strict=True))
    named = [place.pop(a.var) for a in axes]
    return variables, named, list(place.values())


def _is_used_often(found: Contraction) -> bool:
    """Whether copying the column operand takes less than it saves."""
    spatial = found.facts.axes("spatial")
    uses = prod(extent_of(a.extent) for a in spatial if not _mentions(found.column_operand, a))
    return uses >= USES_PER_BYTE * found.column_operand.dtype.itemsize


def _mentions(load: Load, axis: Axis) -> bool:
    return any(i is axis.var for i in load.indices)


def _is_constant(schedule: Schedule, buffer: Buffer) -> bool:
    function = schedule.function
    return buffer in function.constants or any(p.buffer is buffer and p.role == "constant" for p in function.params)


def _written_by(schedule: Schedule, name: str) -> Buffer:
    (written,) = traverse.written_buffers(schedule.block_of(name))
    return written
