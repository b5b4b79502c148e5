"""Multi-dimensional accesses to single physical indices: the one place that applies layouts and strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes
from lpx.arith.analyzer import Analyzer
from lpx.errors import CompileError
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer, Layout
from lpx.expr.nodes import AddressOf, Binary, Const, Expr, Load, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Function, Stmt
from lpx.passes import knowledge
from lpx.passes.folding import fold
from lpx.passes.lane_indices import as_ramp
from lpx.records import record, replace


@record
class FlattenBuffers:
    """Give every buffer one axis, and every access the index of its element in memory.

    before: `C[i, j] = A[i, j]` with `A: float32[m, n]`
    after:  `C[i * n + j] = A[i * n + j]` with `A: float32[m * n]`

    Constants are laid out as their buffers say. Raises: CompileError for a layout over the registers of a warp.
    """

    def __call__(self, function: Function) -> Function:
        flattening = _Flattening()
        entry = knowledge.at_entry(function) if _has_layouts(function) else None
        return replace(
            function,
            params=tuple(replace(p, buffer=flattening.buffer(p.buffer)) for p in function.params),
            body=flattening.statement(function.body, entry),
            constants={flattening.buffer(b): physical_data(b, data) for b, data in function.constants.items()},
            attrs={**function.attrs, "stage": "flat"},
        )


class _Flattening:
    """The flat buffers made so far, with the strides that lead into them."""

    def __init__(self) -> None:
        self._flat: dict[Buffer, Buffer] = {}
        self._strides: dict[Buffer, tuple[Expr, ...]] = {}
        self._totals: dict[tuple[Buffer, tuple[Expr, ...]], Expr] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer of one axis that stands for `buffer`."""
        if buffer not in self._flat:
            self._flat[buffer] = replace(buffer, shape=(physical_size(buffer),), strides=None, layout=None)
            self._strides[buffer] = buffer.strides or _row_major(physical_shape(buffer))
        return self._flat[buffer]

    def statement(self, stmt: Stmt, analyzer: Analyzer | None) -> Stmt:
        """`stmt` with flat accesses. With an `analyzer`, what layouts make of indices is simplified."""
        memo: dict[Expr, Expr] = {}

        def on_node(expr: Expr) -> Expr | None:
            if isinstance(expr, Load | AddressOf):
                flat = self.buffer(expr.buffer)
                return replace(expr, buffer=flat, indices=self._index(expr.buffer, expr.indices, analyzer))
            return None

        def on_expr(expr: Expr) -> Expr:
            return expr_traverse.transform(expr, on_node, memo, within=expr_traverse.touches_memory)

        if analyzer is None:
            rebuilt = traverse.map_children(stmt, lambda s: self.statement(s, None), on_expr)
        else:
            rebuilt = knowledge.visit_children(stmt, analyzer, self.statement, on_expr)
        return self._access(rebuilt, analyzer)

    def _access(self, stmt: Stmt, analyzer: Analyzer | None) -> Stmt:
        match stmt:
            case nodes.Store(buffer=buffer, indices=indices) | nodes.AtomicUpdate(buffer=buffer, indices=indices):
                return replace(stmt, buffer=self.buffer(buffer), indices=self._index(buffer, indices, analyzer))
            case nodes.Alloc(buffer=buffer):
                return replace(stmt, buffer=self.buffer(buffer))
            case nodes.AsyncCopy():
                return replace(
                    stmt,
                    target=self.buffer(stmt.target),
                    target_indices=self._index(stmt.target, stmt.target_indices, analyzer),
                    source=self.buffer(stmt.source),
                    source_indices=self._index(stmt.source, stmt.source_indices, analyzer),
                )
            case nodes.CallFunction(buffers=buffers):
                return replace(stmt, buffers=tuple(self.buffer(b) for b in buffers))
            case _:
                return stmt

    def _index(self, buffer: Buffer, indices: tuple[Expr, ...], analyzer: Analyzer | None) -> tuple[Expr]:
        total = self._totals.get((buffer, indices))
        if total is None:
            total = self._totals[buffer, indices] = self._total(buffer, indices)
        # What reads memory has the masks that it needs, which simplification under the conditions around might drop.
        if analyzer is None or buffer.layout is None or knowledge.reads_memory(total):
            return (total,)
        return (analyzer.simplify(total),)

    def _total(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """The index of an element in memory; unrolled code asks for the same one again and again."""
        self.buffer(buffer)
        physical = indices if buffer.layout is None else _apply(buffer.layout, indices)
        total: Expr = build.const(0)
        for index, stride in zip(physical, self._strides[buffer], strict=True):
            total = _add(total, _times(fold(build.cast(index, dtypes.index)), stride))
        return as_ramp(total)


def _has_layouts(function: Function) -> bool:
    allocated = (s.buffer for s in traverse.walk(function.body) if isinstance(s, nodes.Alloc))
    buffers = (*(p.buffer for p in function.params), *function.constants, *allocated)
    return any(buffer.layout is not None for buffer in buffers)


def _apply(layout: Layout, indices: Sequence[Expr]) -> list[Expr]:
    values = dict(zip(layout.variables, indices, strict=True))
    memo: dict[Expr, Expr] = {}

    def on_node(expr: Expr) -> Expr:
        return values.get(expr, expr) if isinstance(expr, Var) else fold(expr)

    return [expr_traverse.transform(target, on_node, memo) for target in layout.targets]


def physical_shape(buffer: Buffer) -> tuple[Expr, ...]:
    """Extents of the axes that a buffer has in memory.

    Raises: CompileError when its elements are in registers of a warp.
    """
    if buffer.layout is None:
        return buffer.shape
    if buffer.layout.space != "memory":
        raise CompileError(f"{buffer.name} is laid out over the lanes of a warp, which this target does not have")
    return buffer.layout.physical_shape


def physical_size(buffer: Buffer) -> Expr:
    """Elements from the first to just past the last one of a buffer in memory."""
    shape = physical_shape(buffer)
    size: Expr = build.const(1)
    if buffer.strides is None:
        for extent in shape:
            size = _times(extent, size)
        return size
    for extent, stride in zip(shape, buffer.strides, strict=True):
        size = _add(size, _times(fold(extent - 1), stride))
    return fold(build.maximum(size, 0))  # an extent may be 0


def _row_major(shape: Sequence[Expr]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = build.const(1)
    for extent in reversed(shape):
        strides.append(step)
        step = _times(extent, step)
    return tuple(reversed(strides))


def _add(a: Expr, b: Expr) -> Expr:
    return fold(build.binary("add", a, b))


def _times(a: Expr, b: Expr) -> Expr:
    return fold(build.binary("mul", a, b))


def physical_data(buffer: Buffer, data: NDArray[np.generic]) -> NDArray[np.generic]:
    """The elements of a constant in the order they have in memory; elements that no index reaches are 0."""
    if buffer.layout is None and buffer.strides is None:
        return np.ascontiguousarray(data).reshape(-1)
    grid: Sequence[NDArray[np.int64]] = [np.asarray(axis, np.int64) for axis in np.indices(data.shape)]
    if buffer.layout is not None:
        values = dict(zip(buffer.layout.variables, grid, strict=True))
        grid = [_evaluate(target, values) for target in buffer.layout.targets]
    strides = [_evaluate(s, {}) for s in buffer.strides or _row_major(physical_shape(buffer))]
    positions = sum((g * s for g, s in zip(grid, strides, strict=True)), np.zeros(data.shape, np.int64))
    flat = np.zeros(int(_evaluate(physical_size(buffer), {})), data.dtype)
    flat[positions] = data
    return flat


_NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
}


def _evaluate(expr: Expr, values: Mapping[Var, NDArray[np.int64]]) -> NDArray[np.int64]:
    match expr:
        case Const(value=value):
            return np.asarray(value, np.int64)
        case Var() if expr in values:
            return values[expr]
        case Binary(op=op, a=a, b=b) if op in _NUMPY:
            return np.asarray(_NUMPY[op](_evaluate(a, values), _evaluate(b, values)), np.int64)
        case _:
            raise CompileError("the layout of a constant must be computed from constants and its index alone")
