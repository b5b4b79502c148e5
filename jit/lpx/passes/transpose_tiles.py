"""Strided reads of a tile to contiguous reads and a network of shuffles that transposes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Broadcast, Expr, Load, Ramp, Select, Var
from lpx.ir import traverse
from lpx.ir.nodes import Alloc, For, Function, Seq, Stmt, Store
from lpx.passes.folding import constant, fold
from lpx.passes.lanes import lane_of
from lpx.records import record, replace

BLOCK_BITS = 128
"""Bits that unpacking instructions treat as one block; blocks of a register change places as wholes."""


@record
class TransposeTiles:
    """Where an unrolled loop reads columns of a tile, lanes being rows, read the rows and transpose them in registers.

    before: `for l in 0..4 unrolled { B[l, ramp(0, 1, 4)] = A[ramp(i, 1, 4), l] }`
    after:  `A_rows[ramp(0, 1, 4)] = A[i, ramp(0, 1, 4)]`, and so on for four rows; shuffles from A_rows to A_columns;
            `for l in 0..4 unrolled { B[l, ramp(0, 1, 4)] = A_columns[ramp(l * 4, 1, 4)] }`

    A square of n by n takes n loads and n * log2(n) shuffles of two registers, where reading its columns one by one
    takes n * n loads. It pays where vectors have at least four lanes and fit a register of `vector_bits`. The loop must
    read every element anyway: it does nothing but store, and the reads are not one side of a select.
    """

    vector_bits: int = 512

    def __call__(self, function: Function) -> Function:
        body = traverse.transform(function.body, self._visit)
        return function if body is function.body else replace(function, body=body)

    def _visit(self, stmt: Stmt) -> Stmt | None:
        if not isinstance(stmt, For) or stmt.kind != "unrolled" or constant(stmt.start) != 0:
            return None
        extent = constant(stmt.extent)
        stores = stmt.body.stmts if isinstance(stmt.body, Seq) else (stmt.body,)
        if extent is None or not all(isinstance(s, Store) for s in stores):
            return None
        written = traverse.written_buffers(stmt.body)
        tiles: list[_Tile] = []
        for load in _certain_loads(stores):
            tile = None if load.buffer in written else _match(load, stmt.var, extent)
            if tile is not None and tile.lanes >= 4 and tile.lanes * load.dtype.bits <= self.vector_bits:
                tiles.append(tile)
        return _transposed(stmt, tiles) if tiles else None


@record(eq=False)
class _Tile:
    """What a loop of `extent` iterations reads by `load`: in iteration l, column `first` + l of `lanes` rows."""

    load: Load
    axis: int
    rows: Ramp
    first: Expr
    extent: int

    @property
    def lanes(self) -> int:
        return self.load.lanes

    def row(self, number: int, start: int) -> Expr:
        """Elements `start` to `start + lanes` of a row, as far as the loop reads them."""
        indices = [_scalar(i) for i in self.load.indices]
        indices[self.axis] = lane_of(self.rows, number)
        indices[-1] = build.ramp(fold(self.first + start), 1, self.lanes)
        mask = None if self.load.mask is None else build.broadcast(lane_of(self.load.mask, number), self.lanes)
        left = self.extent - start
        if left < self.lanes:
            lanes = build.ramp(build.const(0, "int32"), build.const(1, "int32"), self.lanes)
            inside = build.compare("lt", lanes, build.broadcast(build.const(left, "int32"), self.lanes))
            mask = inside if mask is None else fold(build.binary("bitand", mask, inside))
        return build.load(self.load.buffer, indices, mask)


def _certain_loads(stores: Sequence[Stmt]) -> Iterator[Load]:
    """The loads that run whenever the stores do, each once."""
    seen: set[Expr] = set()
    waiting = [e for s in stores for e in traverse.expressions(s)]
    while waiting:
        expr = waiting.pop()
        if expr in seen:
            continue
        seen.add(expr)
        if isinstance(expr, Load):
            yield expr
        waiting.extend([expr.cond] if isinstance(expr, Select) else expr_traverse.children(expr))


def _match(load: Load, var: Var, extent: int) -> _Tile | None:
    """The tile that a load reads while `var` runs, if it walks along rows with its lanes down a column."""
    buffer, lanes = load.buffer, load.lanes
    wide = [k for k, i in enumerate(load.indices) if isinstance(i, Ramp)]
    plain = buffer.layout is None and (buffer.strides is None or constant(buffer.strides[-1]) == 1)
    if not plain or len(wide) != 1 or wide[0] == buffer.rank - 1 or lanes & (lanes - 1):
        return None
    rows, last = load.indices[wide[0]], _scalar(load.indices[-1])
    others = [*load.indices[:-1], *([load.mask] if load.mask is not None else [])]
    if not isinstance(rows, Ramp) or any(i.lanes > 1 and not isinstance(i, Ramp | Broadcast) for i in load.indices):
        return None
    form = Analyzer().affine(last)
    if form is None or form.coefficient(var) != 1 or any(var in expr_traverse.free_vars(i) for i in others):
        return None
    first = fold(expr_traverse.substitute(last, {var: build.const(0, var.dtype)}))
    return _Tile(load, wide[0], rows, first, extent)


def _scalar(index: Expr) -> Expr:
    return index.value if isinstance(index, Broadcast) else index


def _transposed(loop: For, tiles: Sequence[_Tile]) -> Stmt:
    """The loop reading columns from registers, after the statements that put them there."""
    columns = {t.load: _registers(f"{t.load.buffer.name}_columns", t.load, t.extent) for t in tiles}
    buffers = list(columns.values())
    before: list[Stmt] = []
    for tile in tiles:
        for start in range(0, tile.extent, tile.lanes):
            stages, used = _square(tile, start, columns[tile.load])
            before += stages
            buffers += used
    reads: dict[Expr, Expr] = {
        t.load: build.load(columns[t.load], [build.ramp(fold(loop.var * t.lanes), 1, t.lanes)]) for t in tiles
    }
    memo: dict[Expr, Expr] = {}
    body = traverse.transform(loop.body, on_expr=lambda e: expr_traverse.transform(e, reads.get, memo))
    result = traverse.sequence([*before, replace(loop, body=body)])
    for buffer in reversed(buffers):
        result = Alloc(buffer, result)
    return result


def _registers(name: str, load: Load, rows: int) -> Buffer:
    return Buffer(name, load.dtype, (build.const(rows * load.lanes),), scope="register")


def _square(tile: _Tile, start: int, columns: Buffer) -> tuple[list[Stmt], list[Buffer]]:
    """Statements that put columns `start` to `start + lanes` into `columns`, and the registers they use meanwhile."""
    n, load = tile.lanes, tile.load
    stages = network(n, load.dtype.bits)
    kept = [_registers(f"{load.buffer.name}_rows", load, n) for _ in stages]
    statements: list[Stmt] = [_put(kept[0], k, tile.row(k, start)) for k in range(n)]
    for number, stage in enumerate(stages):
        is_last = number == len(stages) - 1
        for place, (a, b, picks) in enumerate(stage):
            if is_last and start + place >= tile.extent:
                break
            source = [build.load(kept[number], [build.ramp(k * n, 1, n)]) for k in (a, b)]
            target, row = (columns, start + place) if is_last else (kept[number + 1], place)
            statements.append(_put(target, row, build.shuffle(source, picks)))
    return statements, kept


def _put(buffer: Buffer, row: int, value: Expr) -> Stmt:
    return Store(buffer, (build.ramp(row * value.lanes, 1, value.lanes),), value)


Stage = list[tuple[int, int, tuple[int, ...]]]
"""For each register made: the two it is made from, and which lanes of both together."""


def network(n: int, bits: int) -> list[Stage]:
    """Stages of shuffles that transpose n registers of n elements, each one instruction where units are as on x86.

    Elements, pairs, fours, ... are first interleaved within blocks of 128 bits; then blocks are brought together, the
    even ones of two registers in one and the odd ones in another, until each register holds one column.
    """
    block = min(n, max(1, BLOCK_BITS // bits))
    stages = [_interleave(n, block, 1 << k) for k in range(block.bit_length() - 1)]
    groups = [[block * i + j for i in range(n // block)] for j in range(block)]
    while len(groups[0]) > 1:
        stage: Stage = []
        halves: list[list[int]] = []
        for group in groups:
            for odd in (0, 1):
                picks = tuple(p for p in range(2 * n) if p // block % 2 == odd)
                halves.append(list(range(len(stage), len(stage) + len(group) // 2)))
                stage += [(a, b, picks) for a, b in zip(group[::2], group[1::2], strict=True)]
        stages.append(stage)
        groups = halves
    columns = _columns(n, stages)
    stages[-1] = [stages[-1][columns.index(column)] for column in range(n)]
    return stages


def _interleave(n: int, block: int, size: int) -> Stage:
    """Registers `size` apart to one of their low and one of their high half blocks, `size` elements in turns."""
    stage: Stage = []
    for base in range(0, n, 2 * size):
        for m in range(size):
            for half in (0, block // 2):
                starts = [b + half + s for b in range(0, n, block) for s in range(0, block // 2, size)]
                picks = tuple(other + s + k for s in starts for other in (0, n) for k in range(size))
                stage.append((base + m, base + m + size, picks))
    return stage


def _columns(n: int, stages: Sequence[Stage]) -> list[int]:
    """The column that each register holds after the stages, when register r started as row r."""
    held = [list(range(n)) for _ in range(n)]
    for stage in stages:
        held = [[[*held[a], *held[b]][p] for p in picks] for a, b, picks in stage]
    return [row[0] for row in held]
