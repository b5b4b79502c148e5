"""Reads that take turns among neighbouring rows as contiguous reads and a shuffle."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Expr, Load, Var
from lpx.ir import traverse
from lpx.ir.nodes import Function
from lpx.passes.lane_indices import one_lane
from lpx.records import record, replace

MOST_ROWS = 8
"""Rows up to which shuffles are cheaper than reading elements one by one."""


@record
class InterleaveLoads:
    """Where lanes take turns among a few rows, read the rows and interleave them in registers.

    before: `A[i + ramp(0, 1, 64) % 4, j + ramp(0, 1, 64) // 4]`
    after:  `shuffle(A[i, ramp(j, 1, 16)], A[i + 1, ramp(j, 1, 16)], A[i + 2, ...], A[i + 3, ...])`, element by element

    So are operands of dot products made, which want some neighbours of a column side by side.
    """

    def __call__(self, function: Function) -> Function:
        memo: dict[Expr, Expr] = {}

        def on_expr(expr: Expr) -> Expr:
            return expr_traverse.transform(expr, _interleaved, memo, within=expr_traverse.touches_memory)

        body = traverse.transform(function.body, on_expr=on_expr)
        return function if body is function.body else replace(function, body=body)


def _interleaved(expr: Expr) -> Expr | None:
    if not isinstance(expr, Load) or expr.lanes == 1 or expr.buffer.scope == "register":
        return None
    rows = next((n for n in (2, 4, MOST_ROWS) if _takes_turns(expr, n)), None)
    if rows is None:
        return None
    lanes = expr.lanes // rows
    parts = [_row(expr, row, rows) for row in range(rows)]
    return build.shuffle(parts, [place % rows * lanes + place // rows for place in range(expr.lanes)])


def _takes_turns(load: Load, rows: int) -> bool:
    """Whether lane q * rows + k reads element q, from somewhere on, of a row that k alone decides."""
    if load.lanes % rows or load.lanes == rows:
        return False
    turn, place, lane = build.var("turn"), build.var("place"), build.var("lane")
    analyzer = Analyzer().with_range(turn, 0, rows).with_range(place, 0, load.lanes // rows)
    lane_of: dict[Var, Expr] = {lane: place * rows + turn}
    for axis, index in enumerate(load.indices):
        scalar = index if index.lanes == 1 else one_lane(index, lane)
        form = None if scalar is None else analyzer.affine(expr_traverse.substitute(scalar, lane_of))
        is_last = axis == load.buffer.rank - 1
        if form is None or form.coefficient(place) != is_last or (is_last and form.coefficient(turn) != 0):
            return False
    return True


def _row(load: Load, row: int, rows: int) -> Expr:
    """The elements that the lanes row, row + rows, ... read."""
    picks = range(row, load.lanes, rows)
    indices = [index if index.lanes == 1 else _lane(index, row) for index in load.indices]
    indices[-1] = build.ramp(indices[-1], 1, len(picks))
    return build.load(load.buffer, indices, None if load.mask is None else build.shuffle([load.mask], picks))


def _lane(index: Expr, number: int) -> Expr:
    lane = build.var("lane", index.dtype)
    scalar = one_lane(index, lane)
    number_of: Sequence[tuple[Var, Expr]] = [(lane, build.const(number, index.dtype))]
    return index if scalar is None else Analyzer().simplify(expr_traverse.substitute(scalar, dict(number_of)))
