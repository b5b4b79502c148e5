"""Hardware operations: one machine instruction each, and what it computes.

The table lets an instruction be put into a schedule, be checked against the reference interpreter, and be emitted by
the targets that have it. `register_hardware_op` adds one; extern functions get a meaning for the interpreter the same
way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lpx import dtypes
from lpx.errors import DefinitionError, UnsupportedError
from lpx.expr import build
from lpx.expr.nodes import Call
from lpx.expr.ops import Op
from lpx.ir.nodes import Evaluate, Stmt
from lpx.ir.scalars import fma_float32
from lpx.records import record

Lanes = Sequence[Any]
"""The lanes of one operand: numbers, or one `Address` (of `lpx.ir.interpreter.storage`) to `read` and `write`."""


@record
class Meaning:
    """What an operation computes.

    `apply` takes the lanes of each operand and gives those of the result. When `per_warp`, it takes such a list of
    operands for each of the 32 lanes of a warp, and gives the result of each.
    """

    apply: Callable[[Sequence[Any]], list[Any]]
    per_warp: bool = False


HARDWARE: dict[str, Op] = {}
"""Every known hardware operation by name."""
_meanings: dict[str, Meaning] = {}


def register_hardware_op(op: Op, meaning: Callable[[Sequence[Any]], list[Any]], *, per_warp: bool = False) -> Op:
    """Add an operation and the Python function that computes it (see `Meaning`).

    Raises: DefinitionError when the name is taken, or the operation is neither `hardware` nor `extern`.
    """
    if op.kind not in ("hardware", "extern"):
        raise DefinitionError(f"{op.name} is a {op.kind} operation", hint="register hardware and extern ones only")
    if op.name in _meanings:
        raise DefinitionError(f"there is a hardware operation {op.name} already")
    HARDWARE[op.name] = op
    _meanings[op.name] = Meaning(meaning, per_warp)
    return op


def meaning_of(op: Op) -> Meaning:
    """What `op` computes. Raises UnsupportedError when nobody registered that."""
    found = _meanings.get(op.name)
    if found is None:
        raise UnsupportedError(
            f"the interpreter does not know what {op.kind} operation {op.name} computes",
            hint="tell it with lpx.ir.hardware.register_hardware_op",
        )
    return found


def is_per_warp(op: Op) -> bool:
    """Whether the 32 lanes of a warp compute `op` together."""
    found = _meanings.get(op.name)
    return found is not None and found.per_warp


def _hardware(name: str, arity: int, result: str = "same") -> Op:
    return Op(name, arity, "hardware", "any", result)


def _no_effect(args: Sequence[Lanes]) -> list[Any]:
    return list(args[0])


def _vpdpbusd(args: Sequence[Lanes]) -> list[int]:
    total, unsigned, signed = args
    groups = [sum(unsigned[4 * i + k] * signed[4 * i + k] for k in range(4)) for i in range(len(total))]
    return [dtypes.int32.wrap(t + g) for t, g in zip(total, groups, strict=True)]


def _vdpbf16ps(args: Sequence[Lanes]) -> list[float]:
    total, left, right = args
    return [_dot_pair(t, left[2 * i : 2 * i + 2], right[2 * i : 2 * i + 2]) for i, t in enumerate(total)]


def _dot_pair(total: float, left: Lanes, right: Lanes) -> float:
    for k in (1, 0):  # the odd element first, as the instruction's definition has it
        total = _flush(fma_float32(_flush(left[k]), _flush(right[k]), _flush(total)))
    return total


def _tile_of_bytes(args: Sequence[Lanes]) -> list[int]:
    """16 x 16 sums of 64 products each: rows of 64 elements by groups of 4 elements for each of 16 columns."""
    total, left, right = args

    def element(row: int, column: int) -> int:
        products = (left[64 * row + k] * right[k // 4 * 64 + 4 * column + k % 4] for k in range(64))
        return dtypes.int32.wrap(total[16 * row + column] + sum(products))

    return [element(place // 16, place % 16) for place in range(len(total))]


def _tile_of_pairs(args: Sequence[Lanes]) -> list[float]:
    """16 x 16 sums of 32 products each: even and odd elements are added up apart, then both to the total."""
    total, left, right = args

    def element(row: int, column: int) -> float:
        sums = [0.0, 0.0]
        for k in range(32):
            a, b = left[32 * row + k], right[k // 2 * 32 + 2 * column + k % 2]
            sums[k % 2] = _flush(fma_float32(_flush(a), _flush(b), sums[k % 2]))
        return _add_flushed(_flush(total[16 * row + column]), _add_flushed(*sums))

    return [element(place // 16, place % 16) for place in range(len(total))]


def _add_flushed(a: float, b: float) -> float:
    return _flush(fma_float32(a, 1.0, b))


def _flush(value: float) -> float:
    """The instruction takes and gives denormal numbers as zeros, whatever the thread's rounding mode."""
    return math.copysign(0.0, value) if abs(value) < 2.0**-126 else value


def _mma_m16n8k16(lanes: Sequence[Sequence[Lanes]]) -> list[list[float]]:
    """D = A B + C with A 16x16, B 16x8, C 16x8 spread over the warp; operands (C: 4, A: 8, B: 4 elements per lane).

    Fragments as in the PTX manual, "Matrix fragments for mma.m16n8k16". The instruction leaves the order and rounding
    of the sums open; here each is exact and rounded once, so compare with a tolerance.
    """
    a = {_a_place(lane, i): ops[1][i] for lane, ops in enumerate(lanes) for i in range(8)}
    b = {_b_place(lane, i): ops[2][i] for lane, ops in enumerate(lanes) for i in range(4)}

    def element(row: int, column: int, start: float) -> float:
        terms = [a[row, k] * b[k, column] for k in range(16)]
        return build.round_to(_sum((*terms, start)), dtypes.float32)

    return [[element(*c_place(lane, i), ops[0][i]) for i in range(4)] for lane, ops in enumerate(lanes)]


def _sum(terms: Sequence[float]) -> float:
    return math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)


def _a_place(lane: int, i: int) -> tuple[int, int]:
    row = lane // 4 + (8 if i % 4 >= 2 else 0)
    return row, lane % 4 * 2 + i % 2 + (8 if i >= 4 else 0)


def _b_place(lane: int, i: int) -> tuple[int, int]:
    return lane % 4 * 2 + i % 2 + (8 if i >= 2 else 0), lane // 4


def c_place(lane: int, i: int) -> tuple[int, int]:
    """Row and column of element `i` of a lane's accumulator fragment of mma.m16n8k16."""
    return lane // 4 + (8 if i >= 2 else 0), lane % 4 * 2 + i % 2


def _ldmatrix(count: int, transposed: bool) -> Callable[[Sequence[Sequence[Lanes]]], list[list[Any]]]:
    """Loads `count` 8x8 matrices of 16-bit elements; lane 8 m + r has the address of row r of matrix m."""

    def element(lanes: Sequence[Sequence[Lanes]], matrix: int, row: int, column: int) -> Any:
        if transposed:
            row, column = column, row
        return lanes[8 * matrix + row][0][0].read(column)

    def apply(lanes: Sequence[Sequence[Lanes]]) -> list[list[Any]]:
        return [
            [element(lanes, m, lane // 4, lane % 4 * 2 + k) for m in range(count) for k in range(2)]
            for lane in range(len(lanes))
        ]

    return apply


PREFETCH = register_hardware_op(_hardware("prefetch", 1), _no_effect)
"""Ask for the cache line of an address; the address need not exist."""


LINE_BYTES = 64
"""Bytes of a line, as `line_offset` counts them."""


def _line_offset(args: Sequence[Lanes]) -> list[Any]:
    """Where arrays begin is no part of a program's meaning: here all of them begin at lines."""
    return [0]


LINE_OFFSET = register_hardware_op(_hardware("line_offset", 1, "int64"), _line_offset)
"""(address) -> int64: by how many bytes, 0 to 63, it lies behind a multiple of 64."""


def is_prefetch(stmt: Stmt) -> bool:
    """Whether a statement only asks for a cache line: it touches no element."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op == PREFETCH


VNNI_DOT = register_hardware_op(_hardware("x86.vpdpbusd", 3), _vpdpbusd)
"""(int32 x n, uint8 x 4n, int8 x 4n) -> int32 x n: each lane plus the four products of its group; the sum wraps."""

BF16_DOT = register_hardware_op(_hardware("x86.vdpbf16ps", 3), _vdpbf16ps)
"""(float32 x n, bfloat16 x 2n, bfloat16 x 2n) -> float32 x n: each lane plus the two products of its pair."""

TILE_DOTS = {
    (left, right): register_hardware_op(_hardware(f"x86.{name}", 3), _tile_of_bytes)
    for left, right, name in (
        ("int8", "int8", "tdpbssd"),
        ("int8", "uint8", "tdpbsud"),
        ("uint8", "int8", "tdpbusd"),
        ("uint8", "uint8", "tdpbuud"),
    )
}
"""By element types: (int32 x 256, left x 1024, right x 1024) -> int32 x 256, a product of tiles with wrapping sums.

A tile is 16 rows of 64 bytes as one vector. Left has a row of 64 elements for each row of the sums; right has, for each
4 of these, 4 elements for each of the 16 columns (Intel SDM, AMX).
"""

BF16_TILE_DOT = register_hardware_op(_hardware("x86.tdpbf16ps", 3), _tile_of_pairs)
"""(float32 x 256, bfloat16 x 512, bfloat16 x 512) -> float32 x 256: the same with pairs for groups of 4."""

MMA_F16 = register_hardware_op(_hardware("nvvm.mma.m16n8k16.f32.f16", 3), _mma_m16n8k16, per_warp=True)
"""(float32 x 4, float16 x 8, float16 x 4) -> float32 x 4 in every lane of a warp: D = A B + C."""

MMA_BF16 = register_hardware_op(_hardware("nvvm.mma.m16n8k16.f32.bf16", 3), _mma_m16n8k16, per_warp=True)
"""The same on bfloat16."""

LDMATRIX = {
    (count, transposed): register_hardware_op(
        _hardware(f"nvvm.ldmatrix.x{count}{'.trans' if transposed else ''}", 1, "float16"),
        _ldmatrix(count, transposed),
        per_warp=True,
    )
    for count in (1, 2, 4)
    for transposed in (False, True)
}
"""(address) -> float16 x 2 count, by (count, transposed); `bitcast` the result for bfloat16."""
