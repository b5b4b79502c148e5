"""Contractions: sums of products, recognised by their algebra, and what the ways to schedule them share.

Each axis of the block plays a role by where it occurs: `column` is the last axis of the result of more than one place
(vector lanes), `row` an axis of the other operand only (register rows), `inner` axes are summed, the rest are batches
of results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lpx import dtypes
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Axis, Binary, Cast, Compare, Const, Expr, Load, Select, Var
from lpx.rules.facts import BlockFacts, extent_of
from lpx.schedule import queries
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.rewriting import mentions_memory
from lpx.schedule.schedule import Schedule
from lpx.schedule.values import IndexMap

PARALLEL_PRODUCTS = 1 << 19
"""Products from which on threads pay for their start."""

SIDE_BY_SIDE = 8
"""Rows that lie side by side in memory, from which on they are the rows of tiles."""


@dataclass(frozen=True)
class Contraction:
    """The roles in `result[.., row, .., column] += row_operand * column_operand`. `row` may be missing (a vector)."""

    facts: BlockFacts
    row_operand: Load
    column_operand: Load
    row: Axis | None
    column: Axis
    inner: tuple[Axis, ...]


def recognise(facts: BlockFacts) -> Contraction | None:
    """The contraction that a block is, if it is one."""
    if not facts.is_reduction or not facts.is_plain or facts.axes("sequential") or not facts.writes_in_order():
        return None
    value = facts.stores[0].value
    product = _product(value.b) if isinstance(value, Binary) and value.op == "add" else None
    if product is None:
        return None
    left, right = _operand(product.a), _operand(product.b)
    spatial = facts.axes("spatial")
    if left is None or right is None or not spatial:
        return None
    long = [a for a in spatial if not _is_one(a)]
    column = (long or spatial)[-1]
    if _mentions(left, column) == _mentions(right, column):
        return None
    rows, columns = (right, left) if _mentions(left, column) else (left, right)
    candidates = [a for a in long if a is not column and _mentions(rows, a) and not _mentions(columns, a)]
    row = max(candidates, key=lambda a: _worth_as_row(facts, rows, a), default=None)
    if not all(_mentions(rows, a) or _mentions(columns, a) for a in facts.axes("reduce")):
        return None
    if row is None and facts.stride(columns.indices, columns.buffer, column.var) != 1:
        return None  # a matrix by a vector, row by row: a plain reduction
    return Contraction(facts, rows, columns, row, column, facts.axes("reduce"))


def _product(added: Expr) -> Binary | None:
    """The product that is added, perhaps only where indices compare in some way."""
    if (
        isinstance(added, Select)
        and isinstance(added.b, Const)
        and added.b.value == 0
        and _compares_indices(added.cond)
    ):
        added = added.a
    return added if isinstance(added, Binary) and added.op == "mul" else None


def _compares_indices(condition: Expr) -> bool:
    return isinstance(condition, Compare) and condition.a.dtype == dtypes.index and not mentions_memory(condition)


def _worth_as_row(facts: BlockFacts, operand: Load, axis: Axis) -> tuple[bool, int]:
    """The more rows the better, unless they lie side by side in memory: no other axis then gives whole cache lines."""
    extent = extent_of(axis.extent)
    return extent >= SIDE_BY_SIDE and facts.stride(operand.indices, operand.buffer, axis.var) == 1, extent


def _is_one(axis: Axis) -> bool:
    return isinstance(axis.extent, Const) and axis.extent.value == 1


def _operand(expr: Expr) -> Load | None:
    inside = expr.value if isinstance(expr, Cast) else expr
    return inside if isinstance(inside, Load) else None


def _mentions(load: Load, axis: Axis) -> bool:
    return any(axis.var in expr_traverse.free_vars(i) for i in load.indices)


def divide_evenly(extent: int, most: int) -> int:
    """The size of at most `most` that covers `extent` in equal parts, as far as it goes."""
    return -(-extent // -(-extent // most)) if extent > 0 else 1


def loops_inside(schedule: Schedule, name: str, outer: LoopHandle, variables: Sequence[Var]) -> list[LoopHandle]:
    """The loops of a block inside `outer` that the given axes are bound to; an axis of one place has none."""
    loops = list(schedule.loops(name))
    inside = loops[next(k for k, h in enumerate(loops) if h is outer) + 1 :]
    values = queries.axis_values(schedule.block_of(name))
    bound = {v for variable in variables for v in expr_traverse.free_vars(values[variable])}
    return [h for h in inside if h.var in bound]


def pack_columns(schedule: Schedule, contraction: Contraction, width: int) -> BlockHandle:
    """Copy the column operand into panels: [other axes, panel, summed axes, within the panel]."""
    load = contraction.column_operand
    along = next(k for k, i in enumerate(load.indices) if i is contraction.column.var)
    summed = {a.var for a in contraction.inner}
    inner = [k for k, i in enumerate(load.indices) if i in summed]
    variables = tuple(build.var(f"i{k}") for k in range(len(load.indices)))
    others = [v for k, v in enumerate(variables) if k != along and k not in inner]
    targets = (*others, variables[along] // width, *(variables[k] for k in inner), variables[along] % width)
    return schedule.pack(contraction.facts.block.name, load.buffer, IndexMap(variables, targets))
