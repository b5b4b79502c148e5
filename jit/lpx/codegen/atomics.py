"""Atomic updates: an instruction where there is one, else compare-and-exchange until nobody came in between."""

from __future__ import annotations

from lpx import dtypes
from lpx.codegen import arithmetic, casts
from lpx.codegen.builder import Builder
from lpx.codegen.casts import wrap_nibble
from lpx.codegen.memory import from_memory, to_memory
from lpx.codegen.types import I1, Value, memory_element_of, type_of
from lpx.dtypes import DType
from lpx.expr.nodes import BinaryOp

_INTEGER: dict[BinaryOp, str] = {"add": "add", "sub": "sub", "bitand": "and", "bitor": "or", "bitxor": "xor"}


def atomic_update(b: Builder, op: BinaryOp, dtype: DType, pointers: Value, value: Value) -> None:
    """Each element at `pointers` becomes `element op value`; a vector's lanes one after another."""
    for lane in range(pointers.type.lanes):
        _update(b, op, dtype, b.extract(pointers, lane), b.extract(value, lane))


def _update(b: Builder, op: BinaryOp, dtype: DType, pointer: Value, value: Value) -> None:
    name = _instruction(op, dtype)
    if name:
        raw = to_memory(b, dtype, value)
        b.emit(raw.type, f"atomicrmw {name} {pointer}, {raw} monotonic, align {dtype.itemsize}")
        return
    bits = type_of(f"i{8 * dtype.itemsize}")
    first = b.load(bits, pointer, dtype.itemsize)
    before, again, done = b.block, b.new_block("again"), b.new_block("done")
    b.start(again)
    retry, slot = b.placeholder(bits)
    old = from_memory(b, dtype, b.reinterpret(retry, type_of(memory_element_of(dtype))))
    new = to_memory(b, dtype, _combine(b, op, dtype, old, value))
    swap = f"cmpxchg weak {pointer}, {retry}, {b.reinterpret(new, bits)} monotonic monotonic, align {dtype.itemsize}"
    pair = b.emit(bits, swap)
    seen = b.emit(bits, f"extractvalue {{ {bits.text}, i1 }} {pair.ref}, 0")
    stored = b.emit(I1, f"extractvalue {{ {bits.text}, i1 }} {pair.ref}, 1")
    b.fill(slot, retry, f"phi {bits.text} [ {first.ref}, %{before} ], [ {seen.ref}, %{b.block} ]")
    b.branch_if(stored, done, again)
    b.start(done)


def _instruction(op: BinaryOp, dtype: DType) -> str:
    """The operand of `atomicrmw` that means just this, or nothing."""
    if dtype.is_bool or dtype.bits < 8:
        return ""
    if dtype.is_integer and op in ("min", "max"):
        return op if dtype.is_signed else f"u{op}"
    return _INTEGER.get(op, "") if dtype.is_integer else ""


def _combine(b: Builder, op: BinaryOp, dtype: DType, old: Value, value: Value) -> Value:
    if dtype.bits == 4:
        return wrap_nibble(b, arithmetic.binary(b, op, dtype, old, value), signed=dtype.is_signed)
    if not dtype.is_storage_only:
        return arithmetic.binary(b, op, dtype, old, value)
    wide = (casts.convert(b, v, dtype, dtypes.float32) for v in (old, value))
    return casts.convert(b, arithmetic.binary(b, op, dtypes.float32, *wide), dtypes.float32, dtype)
