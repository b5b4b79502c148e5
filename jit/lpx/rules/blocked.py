"""Contractions larger than the first cache: operands copied into panels, and what comes from afar asked for ahead.

A part of the sum at a time, in one of two orders. Many rows: the panels of a part stay in the second cache, strips of
rows are copied one after another, and each strip passes by all panels; the result is walked along its rows. Few rows:
each panel is copied into the first cache when its turn comes, and all rows pass by it. In both, the lines of the next
panel or strip and of the next tile of the result are prefetched while a tile is computed: a miss of the second cache
costs more than the processor can hide by itself. A result that is most of the traffic, and more than the second cache
holds, is walked along its rows too: narrow pieces of every row touch a page each. The order of many rows is what
docs/matmul.md builds step by step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis, Const, Load, Var
from lpx.ir import traverse
from lpx.records import record
from lpx.rules.contraction import PARALLEL_PRODUCTS, Contraction, divide_evenly, loops_inside, pack_columns
from lpx.rules.facts import extent_of
from lpx.schedule import queries
from lpx.schedule.errors import OptionError
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.schedule.values import IndexMap
from lpx.target import CpuMachine

MANY_ROWS = 448
"""Rows from which on copying all panels of a part first pays."""

WIDE = 12
"""Panels of a block from which on each thread has a block of its own, though strips are copied again for each."""

NARROW = 2
"""Panels up to which a strip of rows is used too rarely to be copied."""

EVEN = 1.15
"""How much longer than the others the busiest thread may take, to call its share equal."""

STEPS = (8, 4, 6, 7, 5, 3)
"""Steps of the sum per iteration, by preference: enough to hide the loop, few enough to compile quickly."""


@record
class Blocks:
    """Sizes in iterations: register tile `rows` x `columns`; `depth` of a part of the sum, `steps` per iteration.

    `panels` are the tiles of columns in a block whose panels stay in the second cache. `by_strips`: the order of many
    rows, in which strips are copied if `packs_rows`.
    """

    rows: int
    columns: int
    depth: int
    steps: int
    panels: int
    by_strips: bool
    packs_rows: bool


def choose_blocks(contraction: Contraction, machine: CpuMachine) -> Blocks:
    """Sizes from register counts, caches and extents."""
    dtype = contraction.facts.target.dtype
    lanes = machine.lanes(dtype.bits)
    width, height = extent_of(contraction.column.extent), _height(contraction)
    vectors = 1 if width <= lanes else 2
    columns = vectors * lanes
    most = (machine.vector_registers - vectors - 2) // vectors
    summed = extent_of(contraction.inner[0].extent)
    panels = -(-width // columns)
    is_narrow = panels <= NARROW
    cache = machine.l2.bytes // 4 if is_narrow else machine.l1d.bytes * 2 // 3
    depth = choose_depth(summed, cache // (columns * dtype.itemsize))
    kept = max(1, machine.l2.bytes // 2 // (depth * columns * dtype.itemsize))
    steps = next((s for s in STEPS if depth % s == 0), 1)
    rows = divide_evenly(extent_of(contraction.row.extent) if contraction.row else 1, most)
    uneven = _imbalance(panels, machine) > max(EVEN, _imbalance(-(-height // rows), machine))
    is_far = height >= summed and height * width * dtype.itemsize > machine.l2.bytes
    by_strips = height >= MANY_ROWS or is_narrow or uneven or is_far
    block = _panels_of_a_block(panels, kept if by_strips else panels, machine, least=WIDE if by_strips else 1)
    return Blocks(rows, columns, depth, steps, block, by_strips, by_strips and not is_narrow)


def _panels_of_a_block(panels: int, most: int, machine: CpuMachine, least: int) -> int:
    """Panels of a block: such that each core gets as many blocks, if that leaves `least` panels and none over."""
    blocks = -(-panels // most)
    shared = -(-blocks // machine.cores) * machine.cores
    if panels % shared == 0 and panels // shared >= least:
        return panels // shared
    return divide_evenly(panels, most)


def _imbalance(shares: int, machine: CpuMachine) -> float:
    """How much longer the busiest core takes for `shares` than it would for equal parts."""
    return -(-shares // machine.cores) * machine.cores / shares


def choose_depth(summed: int, most: int) -> int:
    """The length of a part of a sum of `summed` terms: near `most`, such that parts are equal and steps divide them."""
    if 2 * summed <= 3 * most:
        return summed
    exact = [d for d in range(most * 5 // 4, most // 2, -1) if summed % d == 0]
    rated = [(next((k for k, s in enumerate(STEPS) if d % s == 0), len(STEPS)), abs(d - most), d) for d in exact]
    return min(rated)[2] if rated else summed


def _height(contraction: Contraction) -> int:
    """Rows that pass by a panel: those of all axes that the column operand does not depend on."""
    used = {v for i in contraction.column_operand.indices for v in expr_traverse.free_vars(i)}
    spatial = contraction.facts.axes("spatial")
    return math.prod(extent_of(a.extent) for a in spatial if a.var not in used and a is not contraction.column)


def suits(contraction: Contraction) -> bool:
    """Whether both operands are read at axes of known extent, and one axis is summed."""
    axes = contraction.facts.block.axes
    known = {a.var for a in axes if isinstance(a.extent, Const)}
    loads = (contraction.row_operand, contraction.column_operand)
    plain = all(isinstance(i, Var) and i in known for load in loads for i in load.indices)
    distinct = all(len(set(load.indices)) == len(load.indices) for load in loads)
    has_rows = contraction.row is not None and len(contraction.inner) == 1
    return has_rows and plain and distinct and len(known) == len(axes)


@record
class _Nest:
    """The loops of a blocked contraction, outermost first."""

    apart: list[LoopHandle]
    """Batches with panels of their own, and blocks of panels: what threads share without waiting for each other."""
    part: list[LoopHandle]
    """Parts of the sum, if there are several."""
    strip: LoopHandle
    panel: LoopHandle
    step: LoopHandle

    @property
    def around_panels(self) -> list[LoopHandle]:
        """The loops in each iteration of which all panels of a part are copied."""
        return [*self.apart, *self.part]


@record
class BlockedPlan:
    """How one contraction is scheduled in blocks. `fused` names an epilogue that is applied to each tile, or is ""."""

    schedule: Schedule
    contraction: Contraction
    blocks: Blocks
    fused: str
    machine: CpuMachine

    @property
    def name(self) -> str:
        return self.contraction.facts.block.name

    @property
    def host(self) -> str:
        """The block whose loops over rows and columns are tiled."""
        return self.fused or self.name

    @property
    def uses_threads(self) -> bool:
        return self.machine.cores > 1 and self.contraction.facts.runs >= PARALLEL_PRODUCTS

    def apply(self) -> str:
        """Schedule the contraction; what was done, in words."""
        schedule, blocks = self.schedule, self.blocks
        panels = pack_columns(schedule, self.contraction, blocks.columns)
        is_square = self.contraction.row_operand.buffer is self.contraction.column_operand.buffer
        strips = self._pack_rows() if blocks.packs_rows and not is_square else None
        nest = self._tile()
        copied = self._place_panels(panels, nest)
        if strips is not None:
            self._place_strip(strips, nest)
        elif blocks.by_strips and not is_square:  # rows of a matrix by itself are read from its panels
            schedule.prefetch(self.name, self.contraction.row_operand.buffer, nest.strip, over=nest.step)
        self._share(nest, copied)
        self._finish()
        order = "strips of rows past all panels" if blocks.by_strips else "all rows past each panel"
        return (
            f"contraction in register tiles of {blocks.rows} x {blocks.columns}, {blocks.depth} products at a time,"
            f" {order}, columns packed into panels"
            + (", threads" if self.uses_threads else "")
            + (f", {self.fused} applied to each tile" if self.fused else "")
        )

    def _pack_rows(self) -> BlockHandle:
        """Copy the row operand into strips: [batches, strip, row, summed], or with rows last if they lie so."""
        contraction, rows = self.contraction, self.blocks.rows
        load, summed = contraction.row_operand, contraction.inner[0].var
        variables = tuple(build.var(f"i{k}") for k in range(len(load.indices)))
        place = dict(zip(load.indices, variables, strict=True))
        row = place[self._row.var]
        inside = [row % rows, place[summed]]
        if self._stride(load, contraction.inner[0]) != 1:
            inside.reverse()
        batches = [v for i, v in place.items() if i is not self._row.var and i is not summed]
        return self.schedule.pack(self.name, load.buffer, IndexMap(variables, (*batches, row // rows, *inside)))

    @property
    def _row(self) -> Axis:
        row = self.contraction.row
        if row is None:
            raise OptionError("a contraction in blocks has rows")
        return row

    def _stride(self, load: Load, axis: Axis) -> int | None:
        return self.contraction.facts.stride(load.indices, load.buffer, axis.var)

    def _tile(self) -> _Nest:
        """Cut rows, columns and the sum, and put the loops in order."""
        schedule, contraction, blocks = self.schedule, self.contraction, self.blocks
        axes = contraction.facts.axes("spatial")
        loops = dict(zip(axes, schedule.loops(self.host), strict=False))
        strip, in_row = schedule.split(loops[self._row], blocks.rows)
        factors = (blocks.panels, blocks.columns) if self._has_blocks() else (blocks.columns,)
        *block, panel, in_column = schedule.split(loops[contraction.column], factors, tail="mask")
        batches = [a for a in axes if a is not self._row and a is not contraction.column]
        used = {v for i in contraction.column_operand.indices for v in expr_traverse.free_vars(i)}
        apart, together = [loops[a] for a in batches if a.var in used], [loops[a] for a in batches if a.var not in used]
        apart += block
        tiles = [*together, strip, panel] if blocks.by_strips else [panel, *together, strip]
        inside = [in_row, in_column]
        if self.fused:
            schedule.reorder(*apart, *tiles, *inside)
            schedule.compute_at(self.name, tiles[-1])
            schedule.unroll(in_row)
            schedule.vectorize(in_column)
            inside = loops_inside(schedule, self.name, tiles[-1], [self._row.var, contraction.column.var])
        part, steps = self._cut_sum()
        before = [] if self.fused else [*apart, *part, *tiles]
        schedule.reorder(*before, *steps, *inside)
        return _Nest(apart, part, strip, panel, steps[0])

    def _has_blocks(self) -> bool:
        width = extent_of(self.contraction.column.extent)
        return self.blocks.panels * self.blocks.columns < width

    def _cut_sum(self) -> tuple[list[LoopHandle], list[LoopHandle]]:
        """The loop over parts of the sum, if there are several; the loops over iterations of a part and their steps."""
        schedule, blocks = self.schedule, self.blocks
        (axis,) = self.contraction.inner
        (summed,) = [h for h in schedule.loops(self.name) if h.var in self._values(self.name, axis.var)]
        part: list[LoopHandle] = []
        if blocks.depth < extent_of(axis.extent):
            first, summed = schedule.split(summed, blocks.depth)
            part = [first]
        return part, list(schedule.split(summed, blocks.steps)) if blocks.steps > 1 else [summed]

    def _values(self, name: str, axis: Var) -> frozenset[Var]:
        """The variables that an axis of a block is bound to."""
        return expr_traverse.free_vars(queries.axis_values(self.schedule.block_of(name))[axis])

    def _place_panels(self, copy: BlockHandle, nest: _Nest) -> list[LoopHandle]:
        """Copy panels where they are used, row by row if that is how they lie; the loops of the copy."""
        schedule, blocks = self.schedule, self.blocks
        around = nest.around_panels if blocks.by_strips else [*nest.around_panels, nest.panel]
        if around:
            schedule.compute_at(copy, around[-1])
        source = self.contraction.column_operand
        loops = list(schedule.loops(copy))[len(around) :]
        if not blocks.by_strips:
            schedule.prefetch(copy, source.buffer, nest.panel, over=nest.step)
        elif self._stride(source, self.contraction.column) == 1 and len(loops) >= 3:
            *others, panel, depth, lane = loops
            schedule.reorder(depth, panel)
            loops = [*others, depth, panel, lane]
        schedule.vectorize(loops[-1])
        return loops[:-1]

    def _place_strip(self, copy: BlockHandle, nest: _Nest) -> None:
        """Copy each strip of rows before its tiles, and ask for the next one meanwhile."""
        schedule = self.schedule
        schedule.compute_at(copy, nest.strip)
        schedule.prefetch(copy, self.contraction.row_operand.buffer, nest.strip, over=nest.panel)
        lane = schedule.loops(copy)[-1]
        lanes = 4 * self.machine.lanes(self.contraction.row_operand.dtype.bits)
        extent = queries.constant_value(schedule.loop_of(lane).extent)
        schedule.vectorize(lane if extent is None or extent <= lanes else schedule.split(lane, lanes, tail="mask")[1])

    def _share(self, nest: _Nest, copied: Sequence[LoopHandle]) -> None:
        """Share batches and blocks among threads if there are enough; else strips of rows, or panels."""
        if not self.uses_threads:
            return
        schedule = self.schedule
        shares = math.prod(extent_of(schedule.loop_of(h).extent) for h in nest.apart)
        if shares > 1 and _imbalance(shares, self.machine) <= EVEN:
            schedule.parallel(schedule.fuse(*nest.apart) if len(nest.apart) > 1 else nest.apart[0])
            return
        if self.blocks.by_strips and copied:
            schedule.parallel(copied[0])
        schedule.parallel(nest.strip if self.blocks.by_strips else nest.panel)

    def _finish(self) -> None:
        """Start the sum of a tile in registers; ask for the next tile; unroll steps and rows, vectorize columns."""
        schedule, name, host = self.schedule, self.name, self.host
        step, *unrolled, lanes = list(schedule.loops(name))[-3 if self.blocks.steps == 1 else -4 :]
        start = schedule.loops(schedule.decompose_reduction(name, step))
        schedule.unroll(start[-2])
        schedule.vectorize(start[-1])
        schedule.prefetch(host, self._result(host), schedule.loops(name)[-len(unrolled) - 3], over=step)
        for loop in unrolled:
            schedule.unroll(loop)
        schedule.vectorize(lanes)
        if self.fused:
            schedule.set_scope(name, "register")

    def _result(self, name: str) -> Buffer:
        (written,) = traverse.written_buffers(self.schedule.block_of(name))
        return written
