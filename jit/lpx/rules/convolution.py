"""Convolutions: contractions in which one operand is read through windows, as tiles of pixels by filters.

Lanes run over filters, whatever the layout of the result: windows of any stride, dilation or width are then read one
number at a time, and no lane is lost where a row of pixels is short. Filters are packed so that the lanes of a tile lie
side by side; a tile of the result is kept as [pixels, filters] and turned round when it is stored. Where a panel of
filters does not stay in the first cache, some channels are taken at a time: their part of the image is padded just
before, and the filters and pixels that come next are prefetched meanwhile. Direct convolution in register tiles follows
Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures" (2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Const, Var
from lpx.records import record
from lpx.rules import contraction
from lpx.rules.contraction import Contraction
from lpx.rules.elementwise import share, split_vector
from lpx.rules.facts import extent_of, facts_of, follower, sole_maker
from lpx.schedule import queries
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.schedule.values import IndexMap
from lpx.target import CpuMachine

SPARE = 3
"""Registers of a tile that hold no sum: the filters of a step, and a pixel."""

PANEL_SHARE = 60
"""Percent of the first cache that filters of one part of the sum may take: the rest is for pixels and sums."""

SHORT_SUM = 32
"""Terms up to which turning a tile round costs more than what lanes over filters save."""

SUMS_SHARE = 4
"""The part of the second cache, one over this, that sums may take while parts are added."""


@dataclass(frozen=True)
class Convolution:
    """The roles in `result[.., filter, .., row, column] += filters * input`: sums over channels and taps.

    `row` is the last axis before `column` that windows walk along, if any does. Not slotted, as `BlockFacts`.
    """

    contraction: Contraction
    filter: Axis
    row: Axis | None
    column: Axis

    @property
    def name(self) -> str:
        return self.contraction.facts.block.name

    @property
    def spatial(self) -> tuple[Axis, ...]:
        """The axes of the result, in order."""
        return self.contraction.facts.axes("spatial")

    @property
    def summed(self) -> tuple[Axis, ...]:
        return self.contraction.inner


@record
class Tile:
    """Sizes of a register tile: `rows` x `columns` pixels by `filters`; `channels` of the sum at a time."""

    rows: int
    columns: int
    filters: int
    channels: int


@record
class _Blocks:
    """Sizes of what is computed part by part: `rows` x `columns` pixels, `filters`."""

    filters: int
    rows: int
    columns: int


def recognise(found: Contraction) -> Convolution | None:
    """The convolution that a contraction is: filters indexed by axes alone, the other operand through windows."""
    own = [a for a in found.facts.block.axes if any(i is a.var for i in found.row_operand.indices)]
    walked = [a for a in found.facts.axes("spatial") if _is_windowed(found, a)]
    plain = len(own) == len(found.row_operand.indices) and all(isinstance(a.extent, Const) for a in own)
    image = {v for i in found.column_operand.indices for v in expr_traverse.free_vars(i)}
    if not walked or not plain or [a for a in own if a.kind == "spatial" and a.var not in image] != [found.row]:
        return None
    if found.row is None or any(not isinstance(a.extent, Const) for a in found.inner):
        return None
    rows = [a for a in walked if a is not found.column]
    return Convolution(found, found.row, rows[-1] if rows else None, found.column)


def _is_windowed(found: Contraction, axis: Axis) -> bool:
    """Whether an index of the input mixes an axis of the result with an axis of the sum."""
    summed = {a.var for a in found.inner}
    used = (expr_traverse.free_vars(i) for i in found.column_operand.indices)
    return any(axis.var in u and not summed.isdisjoint(u) for u in used)


def pays(conv: Convolution, machine: CpuMachine) -> bool:
    """Whether there is something to add up, and lanes are better filled by filters than by windows side by side."""
    lanes = machine.lanes(conv.contraction.facts.target.dtype.bits)
    filters, width = extent_of(conv.filter.extent), extent_of(conv.column.extent)
    image, terms = conv.contraction.column_operand, prod(extent_of(a.extent) for a in conv.summed)
    stride = conv.contraction.facts.stride(image.indices, image.buffer, conv.column.var)
    if lanes == 1 or terms == 1 or 2 * filters < lanes:
        return False
    fills = stride == 1 and 4 * width >= 3 * lanes * -(-width // lanes)
    return not fills or (4 * filters >= 3 * lanes and terms > SHORT_SUM)


def choose_tile(conv: Convolution, machine: CpuMachine) -> Tile:
    """A tile that fills the registers: two vectors of filters where there are as many, and pixels for the rest."""
    lanes = machine.lanes(conv.contraction.facts.target.dtype.bits)
    vectors = 1 if extent_of(conv.filter.extent) <= lanes else 2
    pixels = max(1, (machine.vector_registers - SPARE) // vectors)
    width = extent_of(conv.column.extent)
    columns = contraction.divide_evenly(width, pixels)
    height = 1 if conv.row is None or columns < width else extent_of(conv.row.extent)
    channels, *taps = (extent_of(a.extent) for a in conv.summed)
    step = prod(taps) * vectors * machine.vector_bits // 8
    most = max(1, machine.l1d.bytes * PANEL_SHARE // 100 // step)
    exact = max(d for d in range(1, min(channels, most) + 1) if channels % d == 0)
    depth = exact if 2 * exact > most or exact == channels else contraction.divide_evenly(channels, most)
    return Tile(max(1, min(height, pixels // columns)), columns, vectors * lanes, depth)


def apply(schedule: Schedule, name: str, machine: CpuMachine) -> str:
    """Schedule one block as a convolution; what was done, or "" where it is none."""
    found = contraction.recognise(facts_of(schedule.function)[name])
    conv = None if found is None else recognise(found)
    if conv is None or not pays(conv, machine):
        return ""
    fused = follower(schedule.function, name)
    host = fused or schedule.cache_write(name).name
    note = _Plan(schedule, conv, choose_tile(conv, machine), host, machine).apply()
    return note + (f", {fused} applied to each tile" if fused else "")


@record
class _Plan:
    """How one convolution is scheduled. `host` is the block that stores the result: an epilogue, or a plain copy.

    Loops from outside in: batches, then filters before rows where all filters together do not stay in the second
    cache, else after pixels; then the sum; then the tile.
    """

    schedule: Schedule
    conv: Convolution
    tile: Tile
    host: str
    machine: CpuMachine

    def apply(self) -> str:
        """Schedule the convolution; what was done, in words."""
        packed = self._pack_filters()
        note = self._by_parts(packed) if self.is_blocked else self._at_once(packed)
        tile = self.tile
        return f"convolution in register tiles of {tile.rows} x {tile.columns} pixels by {tile.filters} filters{note}"

    @property
    def is_blocked(self) -> bool:
        """Whether a panel of filters does not stay in the first cache: many tiles then share a part of it."""
        taps = prod(extent_of(a.extent) for a in self.conv.summed[1:])
        return taps > 1 and self.tile.channels < extent_of(self.conv.summed[0].extent)

    def _at_once(self, packed: Buffer) -> str:
        """All of the sum of a tile in registers: batches, then filters and pixels in tiles.

        Filters go outside where all of them together do not stay in the second cache: each panel is then used up, for
        all images if these stay there.
        """
        schedule, conv, tile = self.schedule, self.conv, self.tile
        loops = self._host_loops()
        filters, in_filters = self._cut(loops.pop(conv.filter, None), tile.filters)
        rows, in_rows = self._cut(loops.pop(conv.row, None) if conv.row else None, tile.rows)
        columns, in_columns = self._cut(loops.pop(conv.column, None), tile.columns)
        room, batches = self.machine.l2.bytes // 2, list(loops.values())
        apart, together = (batches, []) if self._image_bytes() > room else ([], batches)
        stream = self._filter_bytes() > room
        outside = [*apart, *filters, *together, *rows] if stream or not [*batches, *rows] else [*batches, *rows]
        first = [*outside, *columns] if any(h in outside for h in filters) else [*outside, *columns, *filters]
        inside = [*in_rows, *in_filters, *in_columns]
        if not first:
            first = [schedule.add_unit_loop(inside[0])]
        schedule.reorder(*first, *inside)
        schedule.compute_at(conv.name, first[-1])
        self._filters_last()
        summed, pixels, lanes = self._loops_of_sum(first[-1])
        schedule.reorder(*summed, *pixels, lanes)
        if stream and filters and self._is_constant:
            schedule.prefetch(conv.name, packed, filters[0], over=summed[0])
        self._finish_sum(summed[0], pixels, lanes)
        self._store(in_rows, in_filters, in_columns)
        return share(schedule, self.machine, outside, conv.contraction.facts.runs)  # vectors of columns may overlap

    def _by_parts(self, packed: Buffer) -> str:
        """Some channels at a time, for a block of rows and filters: batches, blocks, parts; then panels and tiles."""
        schedule, conv, tile = self.schedule, self.conv, self.tile
        loops = self._host_loops()
        blocks = self._choose_blocks()
        groups, in_group = self._cut(loops.pop(conv.filter, None), blocks.filters)
        rows, in_rows = self._cut(loops.pop(conv.row, None) if conv.row else None, blocks.rows)
        columns, in_columns = self._cut(loops.pop(conv.column, None), blocks.columns)
        panels, in_panel = self._cut(in_group[0] if in_group else None, tile.filters)
        first = [*loops.values(), *groups, *rows, *columns]
        inside = [*in_rows, *panels, *in_panel, *in_columns]
        if not first:
            first = [schedule.add_unit_loop(inside[0])]
        schedule.reorder(*first, *inside)
        schedule.compute_at(conv.name, first[-1])
        self._filters_last()
        self._sum_of_parts(first[-1], packed)
        self._store(in_rows, in_panel, in_columns)
        shared = share(schedule, self.machine, first, conv.contraction.facts.runs)
        return f", {tile.channels} channels at a time{shared}"

    def _choose_blocks(self) -> _Blocks:
        """Blocks whose sums stay in the second cache, enough of them for all threads: the larger operand is cut up."""
        conv, tile, itemsize = self.conv, self.tile, self.conv.contraction.facts.target.dtype.itemsize
        count, width = extent_of(conv.filter.extent), extent_of(conv.column.extent)
        height = 1 if conv.row is None else extent_of(conv.row.extent)
        batches = prod(extent_of(a.extent) for a in conv.spatial) // max(1, count * width * height)
        panels = -(-count // tile.filters)
        room = self.machine.l2.bytes // SUMS_SHARE
        pieces = -(-width * height * panels * tile.filters * itemsize // room)
        if batches * pieces % self.machine.cores:
            pieces = -(-pieces // self.machine.cores) * self.machine.cores
        if self._filter_bytes() > self._image_bytes() // batches:
            panels = -(-panels // min(pieces, panels))
            pieces = -(-width * height * panels * tile.filters * itemsize // room)
        if height > 1:
            rows = -(-contraction.divide_evenly(height, -(-height // pieces)) // tile.rows) * tile.rows
            return _Blocks(panels * tile.filters, rows, width)
        columns = -(-contraction.divide_evenly(width, -(-width // pieces)) // tile.columns) * tile.columns
        return _Blocks(panels * tile.filters, height, columns)

    def _filter_bytes(self) -> int:
        return _bytes(self.conv.contraction.row_operand.buffer)

    def _image_bytes(self) -> int:
        return _bytes(self.conv.contraction.column_operand.buffer)

    @property
    def _is_constant(self) -> bool:
        """Whether every extent is known, so that it is known how many lines to prefetch."""
        return all(isinstance(a.extent, Const) for a in self.conv.contraction.facts.block.axes)

    def _pack_filters(self) -> Buffer:
        """Copy filters into panels: [groups, panel, summed axes in their order, filter of the panel]; the copy."""
        load, size, schedule = self.conv.contraction.row_operand, self.tile.filters, self.schedule
        variables = tuple(build.var(f"i{k}") for k in range(len(load.indices)))
        place = dict(zip(load.indices, variables, strict=True))
        lane = place[self.conv.filter.var]
        summed = [place[a.var] for a in self.conv.summed]
        groups = [place[a.var] for a in self.conv.spatial if a.var in place and a is not self.conv.filter]
        targets = (*groups, lane // size, *summed, lane % size)
        copy = schedule.pack(self.conv.name, load.buffer, IndexMap(variables, targets))
        *around, vector = schedule.loops(copy)
        facts = facts_of(schedule.function)[copy.name]
        share(schedule, self.machine, around, facts.runs)
        schedule.vectorize(vector)
        return facts.target

    def _filters_last(self) -> None:
        """Keep the result with filters next to each other, those of a panel by themselves if several run at a time."""
        places = {a: build.var(f"i{k}") for k, a in enumerate(self.conv.spatial)}
        pixels = [v for a, v in places.items() if a is not self.conv.filter]
        place, size = places[self.conv.filter], self.tile.filters
        targets = (place // size, *pixels, place % size) if self.is_blocked else (*pixels, place)
        self.schedule.transform_layout(self.conv.name, IndexMap(tuple(places.values()), targets))

    def _host_loops(self) -> dict[Axis, LoopHandle]:
        """The loops of `host` by the convolution's axis; an axis of one place may have none."""
        bound = list(queries.axis_values(self.schedule.block_of(self.host)).values())
        live = {h.var: h for h in self.schedule.loops(self.host)}
        return {a: live[v] for a, v in zip(self.conv.spatial, bound, strict=True) if isinstance(v, Var)}

    def _cut(self, loop: LoopHandle | None, size: int) -> tuple[list[LoopHandle], list[LoopHandle]]:
        """The loop over parts of `size` and the loop inside of a part, where there are any."""
        if loop is None:
            return [], []
        extent = queries.constant_value(self.schedule.loop_of(loop).extent)
        if extent is not None and extent <= size:
            return [], [loop]
        outer, inner = self.schedule.split(loop, size, tail="guard")
        return [outer], [inner]

    def _loops_of_sum(self, outer: LoopHandle) -> tuple[list[LoopHandle], list[LoopHandle], LoopHandle]:
        """The convolution's loops inside `outer`: over the sum, over pixels, over filters."""
        conv = self.conv
        (lanes,) = self._inside(outer, [conv.filter])
        return (
            self._inside(outer, conv.summed),
            self._inside(outer, [a for a in conv.spatial if a is not conv.filter]),
            lanes,
        )

    def _sum_of_parts(self, outer: LoopHandle, packed: Buffer) -> None:
        """Add up the convolution inside `outer` part by part, each for all panels and tiles of the block."""
        schedule, conv, tile = self.schedule, self.conv, self.tile
        summed, _, lanes = self._loops_of_sum(outer)
        part, summed[0] = schedule.split(summed[0], tile.channels)
        panels, (lanes,) = self._cut(lanes, tile.filters)
        rows, in_rows = self._cut(self._loop_inside(outer, conv.row), tile.rows)
        columns, in_columns = self._cut(self._loop_inside(outer, conv.column), tile.columns)
        schedule.reorder(part, *panels, *rows, *columns, *summed, *in_rows, *in_columns, lanes)
        if self._is_constant:
            schedule.prefetch(conv.name, packed, panels[0] if panels else part, over=summed[0])
        self._copy_pixels(part, summed[0])
        self._finish_sum(part, [*in_rows, *in_columns], lanes)

    def _copy_pixels(self, part: LoopHandle, step: LoopHandle) -> None:
        """Compute what only the windows read, such as a padded image, for each part of the sum."""
        schedule = self.schedule
        maker = sole_maker(schedule.function, self.conv.name, self.conv.contraction.column_operand.buffer)
        if maker is None:
            return
        name = maker.block.name
        schedule.compute_at(name, part)
        if self._is_constant:
            for buffer in {e.buffer for e in maker.loads if e.buffer.rank == maker.target.rank}:
                schedule.prefetch(name, buffer, part, over=step)
        lanes = self.machine.lanes(max(maker.bits, *(e.dtype.bits for e in maker.loads)))
        *_, last = schedule.loops(name)
        schedule.vectorize(split_vector(schedule, last, lanes, queries.constant_value(schedule.loop_of(last).extent)))

    def _finish_sum(self, first: LoopHandle, pixels: Sequence[LoopHandle], lanes: LoopHandle) -> None:
        """Start sums before `first`; unroll the pixels of a tile, with filters as lanes."""
        schedule = self.schedule
        start = schedule.loops(schedule.decompose_reduction(self.conv.name, first))
        for loop in (*pixels, *start[len(start) - len(pixels) - 1 : -1]):
            schedule.unroll(loop)
        schedule.vectorize(lanes)
        schedule.vectorize(start[-1])

    def _store(self, rows: Sequence[LoopHandle], filters: Sequence[LoopHandle], columns: Sequence[LoopHandle]) -> None:
        """Run through finished sums in vectors of pixels, which lie next to each other where they go."""
        schedule = self.schedule
        unrolled = list(filters) if self.is_blocked else [*rows, *filters]
        last = columns[0] if columns else unrolled.pop() if unrolled else rows[-1]
        extent = extent_of(schedule.loop_of(last).extent)
        lanes = min(self.machine.lanes(self.conv.contraction.facts.target.dtype.bits), 1 << (extent - 1).bit_length())
        if extent != lanes:
            part, last = schedule.split(last, lanes, tail="mask")
            if filters and columns:
                schedule.reorder(part, filters[0], last)
            if not self.is_blocked:
                unrolled.append(part)
        for loop in unrolled:
            schedule.unroll(loop)
        schedule.vectorize(last)

    def _loop_inside(self, outer: LoopHandle, axis: Axis | None) -> LoopHandle | None:
        return next(iter(self._inside(outer, [axis] if axis else [])), None)

    def _inside(self, outer: LoopHandle, axes: Sequence[Axis]) -> list[LoopHandle]:
        return contraction.loops_inside(self.schedule, self.conv.name, outer, [a.var for a in axes])


def _bytes(buffer: Buffer) -> int:
    return buffer.dtype.itemsize * prod(extent_of(e) for e in buffer.shape)
