"""Bilinear algorithms (Winograd convolution): tiles are transformed, multiplied point by point, and transformed back.

What makes one: a contraction whose result is read at constant places of its first axes (the points). A block of tile
rows goes through all steps before the next, so that points and sums stay in the second cache, and each transform runs
on one tile and one vector of channels, in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from lpx.expr import build
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Const
from lpx.records import record
from lpx.rules.contraction import divide_evenly, loops_inside
from lpx.rules.elementwise import share
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule import queries
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.schedule.values import IndexMap
from lpx.target import CpuMachine

SPARE = 3
"""Registers of a product's tile that hold no sum."""


@record
class Steps:
    """The blocks of one algorithm, in running order; axes are those of `lpx.graph.operators.winograd`."""

    padded: str
    turned: str
    rows: str
    points: str
    filter_rows: str
    filters: str
    products: str
    sums: str
    tiles: str

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        ready = (self.padded, self.turned, self.rows, self.points, self.filter_rows, self.filters)
        return (*ready, self.products, self.sums, self.tiles)


def find(schedule: Schedule) -> list[Steps]:
    """The algorithms in a program."""
    found = [_steps(schedule, f) for f in facts_of(schedule.function).values() if f.is_reduction and f.is_plain]
    return [steps for steps in found if steps is not None]


def _steps(schedule: Schedule, products: BlockFacts) -> Steps | None:
    sums = _reader(schedule, products)
    tiles = None if sums is None else _reader(schedule, sums)
    if sums is None or tiles is None or not _reads_points(sums, products.target) or len(products.loads) != 2:
        return None
    (points, filters) = sorted((_makers(schedule, e.buffer) for e in products.loads), key=len, reverse=True)
    if len(points) != 4 or len(filters) != 2:
        return None
    padded, turned, rows, point = reversed(points)
    half, whole = reversed(filters)
    return Steps(padded, turned, rows, point, half, whole, products.block.name, sums.block.name, tiles.block.name)


def _reader(schedule: Schedule, facts: BlockFacts) -> BlockFacts | None:
    """The one other block that reads what a block makes, if it is element-wise."""
    readers = [b.name for b in queries.readers(schedule.function, facts.target) if b.name != facts.block.name]
    found = facts_of(schedule.function)[readers[0]] if len(readers) == 1 else None
    return found if found is not None and found.is_plain and not found.is_reduction else None


def _reads_points(sums: BlockFacts, products: Buffer) -> bool:
    first = [e.indices[0] for e in sums.loads if e.buffer is products and e.indices]
    return len(first) > 1 and all(isinstance(i, Const) for i in first)


def _makers(schedule: Schedule, buffer: Buffer) -> list[str]:
    """The blocks that make a buffer, last one first, as long as each reads what one other makes."""
    names: list[str] = []
    while True:
        writers = queries.writers(schedule.function, buffer)
        if len(writers) != 1:
            return names
        names.append(writers[0].name)
        read = {e.buffer for e in facts_of(schedule.function)[names[-1]].loads}
        if len(read) != 1:
            return names
        (buffer,) = read


def apply(schedule: Schedule, name: str, machine: CpuMachine) -> str:
    """Schedule the algorithm around a contraction, and the block that stores its result; what was done, or ""."""
    facts = facts_of(schedule.function)
    steps = _steps(schedule, facts[name])
    host = None if steps is None else _reader(schedule, facts[steps.tiles])
    if steps is None or host is None or len(host.axes("spatial")) != 4 or not host.writes_in_order():
        return ""
    return _Plan(schedule, steps, host.block.name, machine).apply()


@record
class _Plan:
    """How one algorithm is scheduled: for each image and block of tile rows, all steps one after another."""

    schedule: Schedule
    steps: Steps
    host: str
    machine: CpuMachine

    def apply(self) -> str:
        """Schedule every step; what was done, in words."""
        schedule, steps = self.schedule, self.steps
        facts = facts_of(schedule.function)[steps.products]
        size = extent_of(facts.axes("spatial")[0].extent) - 2
        height = self._block(facts)
        image, filters, rows, columns = schedule.loops(self.host)
        block, inside = schedule.split(rows, size * height, tail="guard")
        schedule.reorder(image, block, inside, filters, columns)
        self._finish_tiles(block, size)
        schedule.compute_at(steps.products, block)
        self._transform_input(block)
        self._multiply(block, height, self._filters())
        self._store(inside, filters, columns)
        shared = share(schedule, self.machine, [image, block], facts.runs)
        return f"Winograd tiles of {size} x {size} results, {height} rows of tiles at a time{shared}"

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.machine.lanes(facts_of(self.schedule.function)[self.steps.products].target.dtype.bits)

    def _block(self, products: BlockFacts) -> int:
        """Rows of tiles whose points and sums stay in the second cache beside the filters, which are read each time."""
        first, second, _, rows, columns, filters = (extent_of(a.extent) for a in products.axes("spatial"))
        channels = extent_of(products.axes("reduce")[0].extent)
        itemsize = products.target.dtype.itemsize
        row = first * second * columns * (channels + filters) * itemsize
        stream = first * second * channels * filters * itemsize > self.machine.l2.bytes // 2
        room = self.machine.l2.bytes * (5 if stream else 2) // 8
        return divide_evenly(rows, max(1, room // row))

    def _finish_tiles(self, block: LoopHandle, size: int) -> None:
        """From sums to results: one tile and one vector of filters at a time."""
        schedule, steps = self.schedule, self.steps
        schedule.compute_at(steps.tiles, block)
        rows, columns, filters = schedule.loops(steps.tiles)[-3:]
        (row, i), (column, j), (part, lane) = (
            schedule.split(h, n) for h, n in ((rows, size), (columns, size), (filters, self.lanes))
        )
        schedule.reorder(row, column, part, i, j, lane)
        schedule.compute_at(steps.sums, part)
        self._in_registers(schedule.loops(steps.sums)[-3:])
        self._in_registers([i, j, lane])

    def _transform_input(self, block: LoopHandle) -> None:
        """From the input to points: padded and turned for the block, then one tile and one vector at a time."""
        schedule, steps = self.schedule, self.steps
        schedule.compute_at(steps.points, block)
        axes = self._loops(block, steps.points)
        a, b, channels = axes[0], axes[1], axes[5]
        places = [axes[k] for k in (3, 4) if k in axes]
        part, lane = schedule.split(channels, self.lanes)
        schedule.reorder(*places, part, a, b, lane)
        schedule.compute_at(steps.rows, part)
        self._in_registers(schedule.loops(steps.rows)[-3:])
        self._in_registers([a, b, lane])
        schedule.compute_at(steps.turned, block)
        *_, row, column, channels = schedule.loops(steps.turned)
        (across, place), (part, lane) = schedule.split(column, self.lanes), schedule.split(channels, self.lanes)
        schedule.reorder(row, part, across, place, lane)
        self._in_registers([place, lane])
        schedule.compute_at(steps.padded, block)
        schedule.vectorize(schedule.split(schedule.loops(steps.padded)[-1], self.lanes, tail="mask")[1])

    def _filters(self) -> Buffer:
        """Transformed filters in panels of two vectors: [points, panel, channels, filter of the panel]; the panels."""
        schedule, steps, lanes = self.schedule, self.steps, self.lanes
        buffer = facts_of(schedule.function)[steps.filters].target
        a, b, c, f = variables = tuple(build.var(f"i{k}") for k in range(4))
        places = (a, b, f // (2 * lanes), c, f % (2 * lanes))
        panels = schedule.pack(steps.products, buffer, IndexMap(variables, places))
        schedule.vectorize(schedule.loops(panels)[-1])
        for name in (steps.filters, steps.filter_rows):
            schedule.vectorize(schedule.split(schedule.loops(name)[-1], lanes)[1])
        return facts_of(schedule.function)[panels.name].target

    def _multiply(self, block: LoopHandle, height: int, panels: Buffer) -> None:
        """Sums over channels in register tiles of pixels by two vectors of filters."""
        schedule, lanes = self.schedule, self.lanes
        name = self.steps.products
        places = self._loops(block, name)
        width = extent_of(facts_of(schedule.function)[name].block.axes[4].extent)
        pixels = (self.machine.vector_registers - SPARE) // 2
        columns = divide_evenly(width, pixels)
        rows = max(1, min(height, pixels // columns)) if columns == width else 1
        down, in_down = self._cut(places.get(3), rows)
        across, in_across = self._cut(places.get(4), columns)
        filters, lane = self._cut(places[5], 2 * lanes)
        inside = [*in_down, *in_across, *lane]
        schedule.reorder(places[0], places[1], *filters, *down, *across, places[6], *inside)
        schedule.prefetch(name, panels, [places[1], *filters][-1], over=places[6])
        start = schedule.loops(schedule.decompose_reduction(name, places[6]))
        self._in_registers(inside)
        self._in_registers(start[-len(inside) :])

    def _store(self, rows: LoopHandle, filters: LoopHandle, columns: LoopHandle) -> None:
        """Results in vectors along pixels, turned round in squares."""
        schedule, lanes = self.schedule, self.lanes
        (across, lane), (part, place) = schedule.split(columns, lanes, tail="mask"), schedule.split(filters, lanes)
        schedule.reorder(rows, part, across, place, lane)
        self._in_registers([place, lane])

    def _loops(self, outer: LoopHandle, name: str) -> dict[int, LoopHandle]:
        """The loops of a block inside `outer` by the number of their axis; an axis of one place there has none."""
        axes = facts_of(self.schedule.function)[name].block.axes
        found = {k: loops_inside(self.schedule, name, outer, [axis.var]) for k, axis in enumerate(axes)}
        return {k: loops[0] for k, loops in found.items() if loops}

    def _in_registers(self, loops: Sequence[LoopHandle]) -> None:
        for loop in loops[:-1]:
            self.schedule.unroll(loop)
        self.schedule.vectorize(loops[-1])

    def _cut(self, loop: LoopHandle | None, size: int) -> tuple[list[LoopHandle], list[LoopHandle]]:
        if loop is None:
            return [], []
        if extent_of(self.schedule.loop_of(loop).extent) <= size:
            return [], [loop]
        outer, inner = self.schedule.split(loop, size, tail="guard")
        return [outer], [inner]
