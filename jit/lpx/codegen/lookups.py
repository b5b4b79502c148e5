"""Lookups in tables of constants: permutations of registers where the processor has them, else reads of memory."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.codegen import memory, types, vectors
from lpx.codegen.builder import Builder
from lpx.codegen.memory import Address
from lpx.codegen.storage import Memory
from lpx.codegen.types import PTR, Type, Value, floating, type_of, value_type
from lpx.dtypes import DType
from lpx.records import record

_ALIGNMENT = 64
_MOST_PERMUTATIONS = 4
"""Of one lookup; a table that needs more is read from memory."""


@record
class _Permutation:
    """An instruction that picks lanes of a register of `lanes` by the low bits of an index, and its sibling that picks
    from two registers, "" where there is none; on processors with `feature`.
    """

    element: str
    lanes: int
    feature: str
    of_one: str
    of_two: str = ""


_PERMUTATIONS = (
    _Permutation("float", 16, "avx512f", "llvm.x86.avx512.permvar.sf.512", "llvm.x86.avx512.vpermi2var.ps.512"),
    _Permutation("float", 8, "avx512vl", "llvm.x86.avx2.permps", "llvm.x86.avx512.vpermi2var.ps.256"),
    _Permutation("float", 8, "avx2", "llvm.x86.avx2.permps"),
    _Permutation("double", 8, "avx512f", "llvm.x86.avx512.permvar.df.512", "llvm.x86.avx512.vpermi2var.pd.512"),
    _Permutation("double", 4, "avx512vl", "llvm.x86.avx512.permvar.df.256", "llvm.x86.avx512.vpermi2var.pd.256"),
)
"""Wide ones before narrow ones."""


def lookup(b: Builder, dtype: DType, table: Sequence[float], index: Value) -> Value:
    """`table[index % len(table)]`, lane by lane."""
    kind = value_type(dtype, index.type.lanes)
    index = b.resize(index, f"i{kind.bits}", signed=False)
    permutation = _permutation(b, kind)
    if permutation is not None and len(table) <= _MOST_PERMUTATIONS * permutation.lanes:
        return _by_registers(b, permutation, table, index)
    data = b"".join(dtype.to_numpy().type(value).tobytes() for value in table)
    place = Memory(Value(PTR, b.module.constant_bytes("table", data, _ALIGNMENT)), _ALIGNMENT)
    stride = 1 if kind.lanes == 1 else None
    return memory.load(b, dtype, place, Address(b.with_int("and", index, len(table) - 1), kind.lanes, stride), None)


def _permutation(b: Builder, kind: Type) -> _Permutation | None:
    """The permutation of the widest registers that `kind` fills; LLVM 22 loses lanes of a register used in part."""
    for found in _PERMUTATIONS:
        if found.element == kind.element and kind.lanes % found.lanes == 0 and found.feature in b.capabilities.features:
            return found
    return None


def _by_registers(b: Builder, permutation: _Permutation, table: Sequence[float], index: Value) -> Value:
    lanes, width = index.type.lanes, permutation.lanes
    if lanes == width:
        return _pick(b, permutation, table, index)
    parts = [vectors.shuffle(b, [index], range(first, first + width)) for first in range(0, lanes, width)]
    return vectors.shuffle(b, [_pick(b, permutation, table, part) for part in parts], range(lanes))


def _pick(b: Builder, permutation: _Permutation, table: Sequence[float], index: Value) -> Value:
    """The lookup of one register of lanes; in a large table by halves, between which a bit of the index chooses."""
    kind = index.type.of(permutation.element)
    size = len(table)
    if size <= kind.lanes:
        repeated = _constants(kind, [*table] * (kind.lanes // size))
        return b.call(kind, permutation.of_one, (repeated, index))
    low, high = table[: size // 2], table[size // 2 :]
    if size == 2 * kind.lanes and permutation.of_two:
        return b.call(kind, permutation.of_two, (_constants(kind, low), index, _constants(kind, high)))
    bit = b.with_int("and", index, size // 2)
    upper, lower = _pick(b, permutation, high, index), _pick(b, permutation, low, index)
    return b.select(b.compare("icmp ne", bit, types.zero(bit.type)), upper, lower)


def _constants(kind: Type, values: Sequence[float]) -> Value:
    element = type_of(kind.element)
    return Value(kind, "<" + ", ".join(str(floating(element, value)) for value in values) + ">")
