"""Lookups in tables of constants: permutations of registers where the processor has them, else reads of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lpx.codegen import memory, types, vectors
from lpx.codegen.builder import Builder
from lpx.codegen.memory import Address
from lpx.codegen.storage import Memory
from lpx.codegen.types import PTR, Type, Value, floating, integers, type_of, value_type
from lpx.dtypes import DType
from lpx.records import record

Pick = Callable[[Builder, Type, Sequence[float], Value], Value]
"""One instruction, and what prepares its operands: elements of a table by the low bits of a register of indices."""

_ALIGNMENT = 64
_MOST_PICKS = 4
"""Of one lookup; a table that needs more is read from memory."""
_BYTES = type_of("i8", 16)


@record
class _Permutation:
    """How processors with `feature` pick for registers of `lanes` lanes from up to `largest` constants."""

    feature: str
    element: str
    lanes: int
    largest: int
    pick: Pick


def lookup(b: Builder, dtype: DType, table: Sequence[float], index: Value) -> Value:
    """`table[index % len(table)]`, lane by lane."""
    kind = value_type(dtype, index.type.lanes)
    index = b.resize(index, f"i{kind.bits}", signed=False)
    permutation = _permutation(b, kind)
    if permutation is not None and len(table) <= _MOST_PICKS * permutation.largest:
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
        return _by_halves(b, permutation, table, index)
    parts = [vectors.shuffle(b, [index], range(first, first + width)) for first in range(0, lanes, width)]
    return vectors.shuffle(b, [_by_halves(b, permutation, table, part) for part in parts], range(lanes))


def _by_halves(b: Builder, permutation: _Permutation, table: Sequence[float], index: Value) -> Value:
    """The lookup of one register of lanes; between halves of a large table a bit of the index chooses."""
    size = len(table)
    if size <= permutation.largest:
        return permutation.pick(b, index.type.of(permutation.element), table, index)
    halves = (table[size // 2 :], table[: size // 2])
    upper, lower = (_by_halves(b, permutation, half, index) for half in halves)
    bit = b.with_int("and", index, size // 2)
    return b.select(b.compare("icmp ne", bit, types.zero(bit.type)), upper, lower)


# --- instructions -----------------------------------------------------------------------------------------------------


def _x86(of_one: str, of_two: str = "") -> Pick:
    """The permutations by 32-bit or 64-bit elements of one register and of two."""

    def pick(b: Builder, kind: Type, table: Sequence[float], index: Value) -> Value:
        if len(table) > kind.lanes:
            low, high = (_constants(kind, part) for part in (table[: kind.lanes], table[kind.lanes :]))
            return b.call(kind, f"llvm.x86.{of_two}", (low, index, high))
        return b.call(kind, f"llvm.x86.{of_one}", (_constants(kind, [*table] * (kind.lanes // len(table))), index))

    return pick


def _neon(b: Builder, kind: Type, table: Sequence[float], index: Value) -> Value:
    """`tbl`, which picks bytes: those of element i are at i * size, i * size + 1, ..."""
    size, lanes = kind.bits // 8, kind.lanes
    table = [*table] * max(lanes // len(table), 1)
    low = b.reinterpret(b.with_int("and", index, len(table) - 1), _BYTES)
    element = b.shuffle(low, low, [lane * size for lane in range(lanes) for _ in range(size)])
    first = b.with_int("shl", element, size.bit_length() - 1)
    places = b.binary("or", first, integers(_BYTES, [*range(size)] * lanes))
    parts = [b.reinterpret(_constants(kind, table[i : i + lanes]), _BYTES) for i in range(0, len(table), lanes)]
    name = f"llvm.aarch64.neon.tbl{len(parts)}.v16i8"
    return b.reinterpret(b.call(_BYTES, name, (*parts, places)), kind)


def _constants(kind: Type, values: Sequence[float]) -> Value:
    element = type_of(kind.element)
    return Value(kind, "<" + ", ".join(str(floating(element, value)) for value in values) + ">")


_PERMUTATIONS = (
    _Permutation("avx512f", "float", 16, 32, _x86("avx512.permvar.sf.512", "avx512.vpermi2var.ps.512")),
    _Permutation("avx512vl", "float", 8, 16, _x86("avx2.permps", "avx512.vpermi2var.ps.256")),
    _Permutation("avx2", "float", 8, 8, _x86("avx2.permps")),
    _Permutation("avx512f", "double", 8, 16, _x86("avx512.permvar.df.512", "avx512.vpermi2var.pd.512")),
    _Permutation("avx512vl", "double", 4, 8, _x86("avx512.permvar.df.256", "avx512.vpermi2var.pd.256")),
    _Permutation("neon", "float", 4, 16, _neon),
    _Permutation("neon", "double", 2, 8, _neon),
)
"""Wide ones before narrow ones."""
