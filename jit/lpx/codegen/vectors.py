"""Making, picking apart and combining vectors."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.codegen import types
from lpx.codegen.arithmetic import binary
from lpx.codegen.builder import Builder
from lpx.codegen.integers import constant_of
from lpx.codegen.types import Value, integers, poison, type_of
from lpx.dtypes import DType
from lpx.expr.nodes import BinaryOp


def ramp(b: Builder, base: Value, stride: Value, lanes: int) -> Value:
    """base, base + stride, ..., base + (lanes - 1) * stride."""
    kind = type_of(base.type.element, lanes)
    step = constant_of(stride)
    if step is None:
        offsets = b.binary("mul", b.splat(stride, lanes), integers(kind, range(lanes)))
    else:
        offsets = integers(kind, [step * lane for lane in range(lanes)])
    return offsets if constant_of(base) == 0 else b.binary("add", b.splat(base, lanes), offsets)


def shuffle(b: Builder, vectors: Sequence[Value], indices: Sequence[int]) -> Value:
    """Lanes `indices` of the concatenation of `vectors`, which may differ in their lanes."""
    if len(indices) == 1:
        return _extract(b, vectors, indices[0])
    if len(vectors) == 1 and vectors[0].type.lanes > 1:
        return b.shuffle(vectors[0], poison(vectors[0].type), indices)
    if len(vectors) == 2 and vectors[0].type is vectors[1].type and vectors[0].type.lanes > 1:
        return b.shuffle(vectors[0], vectors[1], indices)
    return _gather_lanes(b, vectors, indices)


def _extract(b: Builder, vectors: Sequence[Value], index: int) -> Value:
    for vector in vectors:
        if index < vector.type.lanes:
            return b.extract(vector, index)
        index -= vector.type.lanes
    raise IndexError(index)


def _gather_lanes(b: Builder, vectors: Sequence[Value], indices: Sequence[int]) -> Value:
    """One vector after the other puts its lanes into the result."""
    lanes = len(indices)
    result = poison(type_of(vectors[0].type.element, lanes))
    offset = 0
    for vector in vectors:
        width = vector.type.lanes
        places = {place: i - offset for place, i in enumerate(indices) if offset <= i < offset + width}
        offset += width
        if not places:
            continue
        if width == 1:
            for place in places:
                result = b.insert(result, vector, place)
            continue
        spread = b.shuffle(vector, poison(vector.type), [places.get(place, -1) for place in range(lanes)])
        result = b.shuffle(result, spread, [lanes + place if place in places else place for place in range(lanes)])
    return result


def horizontal_reduce(b: Builder, op: BinaryOp, dtype: DType, value: Value) -> Value:
    """All lanes combined: lane i with lane i + lanes / 2 in each step, an odd last lane carried over."""
    while value.type.lanes > 1:
        half, odd = divmod(value.type.lanes, 2)
        low = shuffle(b, [value], range(half))
        high = shuffle(b, [value], range(half, 2 * half))
        combined = binary(b, op, dtype, low, high)
        value = shuffle(b, [combined, b.extract(value, 2 * half)], range(half + 1)) if odd else combined
    return value


def reverse(b: Builder, value: Value) -> Value:
    """The lanes in the opposite order."""
    return b.shuffle(value, poison(value.type), range(value.type.lanes - 1, -1, -1))


def all_lanes(b: Builder, condition: Value) -> Value:
    """Whether a bool vector is true in every lane."""
    return _test_lanes(b, condition, "icmp eq", -1)


def any_lane(b: Builder, condition: Value) -> Value:
    """Whether a bool vector is true in some lane."""
    return _test_lanes(b, condition, "icmp ne", 0)


def _test_lanes(b: Builder, condition: Value, predicate: str, pattern: int) -> Value:
    lanes = condition.type.lanes
    if lanes == 1:
        return condition
    bits = b.reinterpret(condition, type_of(f"i{lanes}"))
    return b.compare(predicate, bits, types.integer(bits.type, pattern))
