"""Loads and stores: contiguous, reversed, strided, gathered; masked or not.

A lane whose mask is off touches no memory. A scalar masked access is a branch; a vector one is LLVM's masked intrinsic.
"""

from __future__ import annotations

from math import gcd

from lpx.codegen import types, vectors
from lpx.codegen.builder import Builder
from lpx.codegen.casts import wrap_nibble
from lpx.codegen.storage import Memory
from lpx.codegen.types import I64, Type, Value, integer, memory_element_of, poison, type_of, value_type
from lpx.dtypes import DType
from lpx.expr.nodes import Binary, Const, Expr
from lpx.records import record

_WIDEST_STRIDE = 4
"""Up to here a strided read is done by consecutive loads and shuffles; beyond, by a gather."""


@record
class Address:
    """Which elements of a buffer an access touches.

    `index` is the first element, or a vector of elements when `stride` is None. With a `stride` (in elements) the lanes
    are index, index + stride, ... `multiple` divides `index`.
    """

    index: Value
    lanes: int
    stride: int | None = 1
    multiple: int = 1


def load(b: Builder, dtype: DType, memory: Memory, address: Address, mask: Value | None) -> Value:
    """The elements at `address` as a value; lanes that are off are 0."""
    kind = type_of(memory_element_of(dtype), address.lanes)
    if address.lanes == 1:
        raw = _load_scalar(b, kind, memory, address, mask)
    elif address.stride == 1:
        raw = _load_consecutive(b, kind, memory, address, mask)
    elif address.stride == -1:
        flipped = None if mask is None else vectors.reverse(b, mask)
        raw = vectors.reverse(b, _load_consecutive(b, kind, memory, _from_last(b, address), flipped))
    elif address.stride is not None and 2 <= address.stride <= min(_WIDEST_STRIDE, address.lanes):
        raw = _load_strided(b, kind, memory, address, address.stride, mask)
    else:
        raw = _gather(b, kind, memory, address, mask)
    return from_memory(b, dtype, raw)


def store(
    b: Builder, dtype: DType, memory: Memory, address: Address, value: Value, mask: Value | None, metadata: str = ""
) -> None:
    """Write `value` at `address`, where `mask` is on."""
    raw = to_memory(b, dtype, value)
    if address.lanes == 1:
        _store_scalar(b, memory, address, raw, mask, metadata)
    elif address.stride == 1:
        _store_consecutive(b, memory, address, raw, mask, metadata)
    elif address.stride == -1:
        flipped = None if mask is None else vectors.reverse(b, mask)
        _store_consecutive(b, memory, _from_last(b, address), vectors.reverse(b, raw), flipped, metadata)
    else:
        _scatter(b, memory, address, raw, mask)


def from_memory(b: Builder, dtype: DType, raw: Value) -> Value:
    """What was loaded, as values are held in registers."""
    if dtype.is_bool:
        return b.compare("icmp ne", raw, types.zero(raw.type))
    return wrap_nibble(b, raw, signed=dtype.is_signed) if dtype.bits == 4 else raw


def to_memory(b: Builder, dtype: DType, value: Value) -> Value:
    """A value as memory holds it."""
    if dtype.is_bool:
        return b.convert("zext", value, "i8")
    return b.with_int("and", value, 15) if dtype.bits == 4 else value


def element_pointer(b: Builder, dtype: DType, memory: Memory, index: Value) -> Value:
    """The address of element `index`."""
    if index.ref == "0":
        return memory.pointer
    return b.element(memory_element_of(dtype), memory.pointer, index)


def divisor_of(index: Expr) -> int:
    """A number that divides a scalar index whatever its variables are; 0 when the index is zero."""
    match index:
        case Const(value=value):
            return abs(int(value))
        case Binary(op="add" | "sub", a=a, b=b):
            return gcd(divisor_of(a), divisor_of(b))
        case Binary(op="mul", a=a, b=b):
            return divisor_of(a) * divisor_of(b)
        case _:
            return 1


def alignment_of(memory: Memory, kind: Type, multiple: int) -> int:
    """Bytes that the address of an access at a multiple of `multiple` elements is known to be a multiple of."""
    size = kind.bits // 8
    if memory.is_in_vectors and kind.lanes > 1:
        return size * kind.lanes
    return max(size, gcd(memory.alignment, size * multiple))


# --- scalars ----------------------------------------------------------------------------------------------------------


def _pointer(b: Builder, kind: Type, memory: Memory, address: Address) -> Value:
    return memory.pointer if address.index.ref == "0" else b.element(kind.element, memory.pointer, address.index)


def _load_scalar(b: Builder, kind: Type, memory: Memory, address: Address, mask: Value | None) -> Value:
    metadata = memory.metadata + memory.load_metadata
    align = alignment_of(memory, kind, address.multiple)
    if mask is None:
        return b.load(kind, _pointer(b, kind, memory, address), align, metadata)
    before = b.block
    with b.when(mask):
        loaded = b.load(kind, _pointer(b, kind, memory, address), align, metadata)
        then = b.block
    return b.phi(kind, (types.zero(kind), before), (loaded, then))


def _store_scalar(b: Builder, memory: Memory, address: Address, raw: Value, mask: Value | None, metadata: str) -> None:
    align = alignment_of(memory, raw.type, address.multiple)
    if mask is None:
        b.store(raw, _pointer(b, raw.type, memory, address), align, memory.metadata + metadata)
        return
    with b.when(mask):
        b.store(raw, _pointer(b, raw.type, memory, address), align, memory.metadata + metadata)


# --- consecutive elements ---------------------------------------------------------------------------------------------


def _from_last(b: Builder, address: Address) -> Address:
    """The same elements of a reversed access, from the lowest one up."""
    lowest = b.with_int("sub", address.index, address.lanes - 1)
    return Address(lowest, address.lanes, 1, gcd(address.multiple, address.lanes - 1))


def _load_consecutive(b: Builder, kind: Type, memory: Memory, address: Address, mask: Value | None) -> Value:
    pointer = _pointer(b, kind, memory, address)
    align = alignment_of(memory, kind, address.multiple)
    if mask is None:
        return b.load(kind, pointer, align, memory.metadata + memory.load_metadata)
    name = b.module.intrinsic(kind.text, f"llvm.masked.load.{kind.mangled}.p0", ["ptr", mask.type.text, kind.text])
    off = types.zero(kind)
    return b.emit(kind, f"call {kind.text} {name}(ptr align {align} {pointer.ref}, {mask}, {off}){memory.metadata}")


def _store_consecutive(
    b: Builder, memory: Memory, address: Address, raw: Value, mask: Value | None, metadata: str
) -> None:
    kind = raw.type
    pointer = _pointer(b, kind, memory, address)
    align = alignment_of(memory, kind, address.multiple)
    if mask is None:
        b.store(raw, pointer, align, memory.metadata + (metadata if align >= 16 else ""))
        return
    if b.module.is_x86 and not kind.is_float and kind.lanes <= 64:
        mask = _unknown_to_llvm(b, mask)
    name = b.module.intrinsic("void", f"llvm.masked.store.{kind.mangled}.p0", [kind.text, "ptr", mask.type.text])
    b.effect(f"call void {name}({raw}, ptr align {align} {pointer.ref}, {mask}){memory.metadata}")


def _unknown_to_llvm(b: Builder, mask: Value) -> Value:
    """The same mask, of which LLVM cannot tell how many lanes are on.

    For x86, LLVM 22 joins a truncation and a masked store; where it then sees that one lane alone is on, it stores that
    lane before it is truncated, over the elements behind.
    """
    bits = type_of(f"i{mask.type.lanes}")
    held = b.emit(bits, f"bitcast {mask} to {bits.text}")
    if bits != I64:
        held = b.emit(I64, f"zext {held} to i64")
    held = b.emit(I64, f'call i64 asm "", "=r,0"({held})')
    if bits != I64:
        held = b.emit(bits, f"trunc {held} to {bits.text}")
    return b.emit(mask.type, f"bitcast {held} to {mask.type.text}")


def _load_strided(b: Builder, kind: Type, memory: Memory, address: Address, stride: int, mask: Value | None) -> Value:
    """Consecutive loads over the span of the access, and shuffles that pick the lanes.

    The last load ends at the last element that is asked for: nothing is read that does not lie between two elements of
    the access. With a mask, nothing but these elements is read.
    """
    lanes = address.lanes
    span = stride * (lanes - 1) + 1
    starts = [*range(0, span - lanes, lanes), span - lanes]
    parts: list[Value] = []
    for start in starts:
        index = b.with_int("add", address.index, start) if start else address.index
        row = Address(index, lanes, 1, gcd(address.multiple, start) if start else address.multiple)
        read = None if mask is None else _spread(b, mask, start, stride)
        parts.append(_load_consecutive(b, kind, memory, row, read))
    result = poison(kind)
    done = 0
    for number, (part, start) in enumerate(zip(parts, starts, strict=True)):
        upto = min(-(-(start + lanes) // stride), lanes)
        places = [lane * stride - start + lanes if done <= lane < upto else lane for lane in range(lanes)]
        if number == 0:
            places = [place - lanes if place >= lanes else -1 for place in places]
            result = b.shuffle(part, poison(kind), places)
        else:
            result = b.shuffle(result, part, places)
        done = upto
    return result


def _spread(b: Builder, mask: Value, start: int, stride: int) -> Value:
    """The mask for consecutive elements, the first of them `start` behind that of lane 0 of a strided access."""
    lanes = mask.type.lanes
    places = [(start + e) // stride if (start + e) % stride == 0 else lanes for e in range(lanes)]
    return b.shuffle(mask, types.zero(mask.type), places)


# --- scattered elements -----------------------------------------------------------------------------------------------


def _pointers(b: Builder, kind: Type, memory: Memory, address: Address) -> Value:
    index = address.index
    if address.stride is not None:
        index = vectors.ramp(b, index, integer(index.type, address.stride), address.lanes)
    return b.element(kind.element, memory.pointer, index)


def _mask_or_all(mask: Value | None, lanes: int) -> Value:
    return integer(type_of("i1", lanes), 1) if mask is None else mask


def _gather(b: Builder, kind: Type, memory: Memory, address: Address, mask: Value | None) -> Value:
    pointers = _pointers(b, kind, memory, address)
    enabled = _mask_or_all(mask, kind.lanes)
    off = types.zero(kind)
    name = b.module.intrinsic(
        kind.text,
        f"llvm.masked.gather.{kind.mangled}.{pointers.type.mangled}",
        [pointers.type.text, enabled.type.text, kind.text],
    )
    operands = f"{pointers.type.text} align {kind.bits // 8} {pointers.ref}, {enabled}, {off}"
    return b.emit(kind, f"call {kind.text} {name}({operands}){memory.metadata}")


def _scatter(b: Builder, memory: Memory, address: Address, raw: Value, mask: Value | None) -> None:
    kind = raw.type
    pointers = _pointers(b, kind, memory, address)
    enabled = _mask_or_all(mask, kind.lanes)
    name = b.module.intrinsic(
        "void",
        f"llvm.masked.scatter.{kind.mangled}.{pointers.type.mangled}",
        [kind.text, pointers.type.text, enabled.type.text],
    )
    operands = f"{raw}, {pointers.type.text} align {kind.bits // 8} {pointers.ref}, {enabled}"
    b.effect(f"call void {name}({operands}){memory.metadata}")


# --- stack slots of register buffers ----------------------------------------------------------------------------------


def load_slot(b: Builder, dtype: DType, slot: Value, lanes: int, mask: Value | None) -> Value:
    """The value in a slot, which always exists; lanes that are off are 0."""
    kind = type_of(memory_element_of(dtype), lanes)
    value = from_memory(b, dtype, b.load(kind, slot, dtype.itemsize))
    return value if mask is None else b.select(mask, value, types.zero(value_type(dtype, lanes)))


def store_slot(b: Builder, dtype: DType, slot: Value, value: Value, mask: Value | None) -> None:
    """Put a value into a slot; lanes that are off keep what they held."""
    if mask is not None:
        value = b.select(mask, value, load_slot(b, dtype, slot, value.type.lanes, None))
    b.store(to_memory(b, dtype, value), slot, dtype.itemsize)
