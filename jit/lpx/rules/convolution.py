"""Convolutions: contractions in which one operand is read through windows, as tiles of pixels by filters.

Lanes run over filters, whatever the layout of the result: windows of any stride, dilation or width are then read one
number at a time, and no lane is lost where a row of pixels is short. Filters are packed so that the lanes of a tile lie
side by side; a tile of the result is kept as [pixels, filters] and turned round when it is stored. Direct convolution
in register tiles follows Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD
Architectures" (2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Axis, Const, Var
from lpx.records import record
from lpx.rules import contraction
from lpx.rules.contraction import Contraction
from lpx.rules.elementwise import share
from lpx.rules.facts import extent_of, facts_of, follower
from lpx.schedule import queries
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.schedule.values import IndexMap
from lpx.target import CpuMachine

SPARE = 3
"""Registers of a tile that hold no sum: the filters of a step, and a pixel."""

PANEL_SHARE = 45
"""Percent of the first cache that filters of one part of the sum may take: the rest is for pixels and sums."""


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


def recognise(found: Contraction) -> Convolution | None:
    """The convolution that a contraction is: filters indexed by axes alone, the other operand through windows."""
    own = [a for a in found.facts.block.axes if any(i is a.var for i in found.row_operand.indices)]
    walked = [a for a in found.facts.axes("spatial") if _is_windowed(found, a)]
    plain = len(own) == len(found.row_operand.indices) and all(isinstance(a.extent, Const) for a in own)
    if not walked or not plain or found.row is None or [a for a in own if a.kind == "spatial"] != [found.row]:
        return None
    if any(not isinstance(a.extent, Const) for a in found.inner):
        return None
    rows = [a for a in walked if a is not found.column]
    return Convolution(found, found.row, rows[-1] if rows else None, found.column)


def _is_windowed(found: Contraction, axis: Axis) -> bool:
    """Whether an index of the input mixes an axis of the result with an axis of the sum."""
    summed = {a.var for a in found.inner}
    used = (expr_traverse.free_vars(i) for i in found.column_operand.indices)
    return any(axis.var in u and not summed.isdisjoint(u) for u in used)


def pays(conv: Convolution, machine: CpuMachine) -> bool:
    """Whether filters fill at least half of a vector, and there is something to add up."""
    lanes = machine.lanes(conv.contraction.facts.target.dtype.bits)
    return 2 * extent_of(conv.filter.extent) >= lanes > 1 and prod(extent_of(a.extent) for a in conv.summed) > 1


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
    depth = contraction.divide_evenly(channels, most)
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
        schedule, conv, tile = self.schedule, self.conv, self.tile
        self._pack_filters()
        self._filters_last()
        loops = self._host_loops()
        filters, in_filters = self._cut(loops.pop(conv.filter, None), tile.filters)
        down, across = loops.pop(conv.row, None) if conv.row else None, loops.pop(conv.column, None)
        rows, in_rows = self._cut(down, self._block_rows() if self.is_blocked else tile.rows)
        columns, in_columns = ([], [across] if across else []) if self.is_blocked else self._cut(across, tile.columns)
        pixels = [*loops.values(), *rows, *columns]
        first = [*filters, *pixels] if self._filters_stream() else [*pixels, *filters]
        inside = [*in_rows, *in_filters, *in_columns]
        if not first:
            first = [schedule.add_unit_loop(inside[0])]
        schedule.reorder(*first, *inside)
        schedule.compute_at(conv.name, first[-1])
        self._sum(first[-1])
        self._store(in_rows, in_filters, in_columns)
        shared = share(schedule, self.machine, first, conv.contraction.facts.runs)
        return (
            f"convolution in register tiles of {tile.rows} x {tile.columns} pixels by {tile.filters} filters"
            + (f", {tile.channels} channels at a time" if self.is_blocked else "")
            + shared
        )

    @property
    def is_blocked(self) -> bool:
        """Whether a panel of filters does not stay in the first cache: many tiles then share a part of it."""
        taps = prod(extent_of(a.extent) for a in self.conv.summed[1:])
        return taps > 1 and self.tile.channels < extent_of(self.conv.summed[0].extent)

    def _block_rows(self) -> int:
        """Rows of pixels, whole tiles of them, whose sums stay in the second cache while parts of the sum are added."""
        row = extent_of(self.conv.column.extent) * self.tile.filters * self.conv.contraction.facts.target.dtype.itemsize
        most = max(1, self.machine.l2.bytes // 8 // row // self.tile.rows) * self.tile.rows
        height = 1 if self.conv.row is None else extent_of(self.conv.row.extent)
        return -(-contraction.divide_evenly(height, most) // self.tile.rows) * self.tile.rows

    def _pack_filters(self) -> None:
        """Copy filters into panels: [panel, summed axes in their order, filter of the panel]."""
        load, size, schedule = self.conv.contraction.row_operand, self.tile.filters, self.schedule
        variables = tuple(build.var(f"i{k}") for k in range(len(load.indices)))
        place = dict(zip(load.indices, variables, strict=True))
        lane = place[self.conv.filter.var]
        targets = (lane // size, *(place[a.var] for a in self.conv.summed), lane % size)
        copy = schedule.pack(self.conv.name, load.buffer, IndexMap(variables, targets))
        *around, vector = schedule.loops(copy)
        share(schedule, self.machine, around, facts_of(schedule.function)[copy.name].runs)
        schedule.vectorize(vector)

    def _filters_last(self) -> None:
        """Keep the result with filters next to each other."""
        places = {a: build.var(f"i{k}") for k, a in enumerate(self.conv.spatial)}
        moved = [v for a, v in places.items() if a is not self.conv.filter]
        self.schedule.transform_layout(
            self.conv.name, IndexMap(tuple(places.values()), (*moved, places[self.conv.filter]))
        )

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

    def _filters_stream(self) -> bool:
        """Whether all filters together are too large for the second cache: each panel is then used up at once."""
        load = self.conv.contraction.row_operand
        return load.dtype.itemsize * prod(extent_of(e) for e in load.buffer.shape) > self.machine.l2.bytes // 2

    def _sum(self, outer: LoopHandle) -> None:
        """Order the convolution's loops inside `outer`: the sum, then pixels of a tile, then filters as lanes."""
        schedule, conv, tile = self.schedule, self.conv, self.tile
        summed = self._inside(outer, conv.summed)
        (lanes,) = self._inside(outer, [conv.filter])
        pixels = self._inside(outer, [a for a in conv.spatial if a is not conv.filter])
        first, tiles = summed[0], list[LoopHandle]()
        if self.is_blocked:
            first, summed[0] = schedule.split(summed[0], tile.channels)
            rows, in_rows = self._cut(self._loop_inside(outer, conv.row), tile.rows)
            columns, in_columns = self._cut(self._loop_inside(outer, conv.column), tile.columns)
            tiles, pixels = [*rows, *columns], [*in_rows, *in_columns]
            schedule.reorder(first, *tiles, *summed, *pixels, lanes)
        else:
            schedule.reorder(*summed, *pixels, lanes)
        start = schedule.loops(schedule.decompose_reduction(conv.name, first))
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
