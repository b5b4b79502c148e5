"""Instructions that add up several products of narrow numbers at once, and which of them suits a contraction."""

from __future__ import annotations

from lpx.expr.nodes import Const, Var
from lpx.ir.hardware import BF16_TILE_DOT, TILE_DOTS
from lpx.records import record
from lpx.rules.contraction import Contraction
from lpx.rules.facts import extent_of
from lpx.target import CpuMachine

TILE = 16
"""Rows and columns of a tile of sums, and groups of the sum in one product of tiles."""

UNSIGNED_BY_SIGNED = ("uint8", "int8")


@record
class Dot:
    """An instruction by its name among the intrinsics of `tensorize`.

    It makes `rows` x `columns` sums of `depth` products each, and takes operands with `group` neighbours along the sum
    side by side.
    """

    intrinsic: str
    rows: int
    columns: int
    depth: int
    group: int

    @property
    def is_tile(self) -> bool:
        """Whether both operands are tiles: matrices in registers of their own."""
        return self.rows > 1


def suits(found: Contraction) -> bool:
    """Whether both operands are read at axes of known extent, none of them empty, and one axis is summed."""
    axes = found.facts.block.axes
    known = {a.var for a in axes if isinstance(a.extent, Const) and a.extent.value}
    loads = (found.row_operand, found.column_operand)
    plain = all(isinstance(i, Var) and i in known for load in loads for i in load.indices)
    distinct = all(len(set(load.indices)) == len(load.indices) for load in loads)
    shared = {found.column.var, *(a.var for a in found.inner)} & set(found.row_operand.indices)
    return len(found.inner) == 1 and plain and distinct and len(known) == len(axes) and len(shared) == 1


def find(found: Contraction, machine: CpuMachine) -> Dot | None:
    """The widest instruction of `machine` that multiplies and adds as the contraction does."""
    left, right = found.row_operand.dtype.name, found.column_operand.dtype.name
    total = found.facts.target.dtype.name
    if total == "int32":
        return _of_bytes(left, right, found, machine)
    if (left, right, total) == ("bfloat16", "bfloat16", "float32"):
        return _of_pairs(found, machine)
    return None


def _of_bytes(left: str, right: str, found: Contraction, machine: CpuMachine) -> Dot | None:
    tile = TILE_DOTS.get((left, right))
    if tile is not None and machine.has("amx-int8") and _fills_tiles(found):
        return Dot(tile.name, TILE, TILE, 4 * TILE, 4)
    lanes = machine.lanes(32)
    has_dot = machine.has("avx512vnni") or (machine.has("avxvnni") and lanes == 8)
    if has_dot and (left, right) in (UNSIGNED_BY_SIGNED, UNSIGNED_BY_SIGNED[::-1]):
        swapped = "" if left == "uint8" else ".swapped"
        return Dot(f"x86.vpdpbusd.{lanes}{swapped}", 1, lanes, 4, 4)
    return None


def _of_pairs(found: Contraction, machine: CpuMachine) -> Dot | None:
    if machine.has("amx-bf16") and _fills_tiles(found):
        return Dot(BF16_TILE_DOT.name, TILE, TILE, 2 * TILE, 2)
    if machine.has("avx512bf16"):
        return Dot("x86.vdpbf16ps.16", 1, 16, 2, 2)
    return None


def _fills_tiles(found: Contraction) -> bool:
    """Whether a good part of a tile's rows is used: else its operands are loaded for too few products."""
    return found.row is not None and 4 * extent_of(found.row.extent) > TILE
