"""LLVM types and values, as text that knows what it is.

LLVM IR is written directly as text: making objects first costs several times as much, and text reaches everything LLVM
can say. A `Type` is one of LLVM's integers, floats, the pointer, or a fixed-width vector of them; a `Value` is an
operand of that type.

How element types are held in registers: a bool is `i1`; `float16`, `bfloat16` and the `float8` types are their bits
(`i16`, `i8`), so that no operation on them can reach the back end by accident; 4-bit integers are an `i8`, extended.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from lpx.dtypes import DType


class Type(NamedTuple):
    """An LLVM type: `element` is a scalar type, `lanes` is 1 for a scalar; `text` is how LLVM writes it."""

    element: str
    lanes: int
    text: str

    @property
    def mangled(self) -> str:
        """The type's part in the name of an overloaded intrinsic."""
        name = _MANGLED.get(self.element, self.element)
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    @property
    def bits(self) -> int:
        """Width of one lane."""
        return _BITS.get(self.element) or int(self.element[1:])

    @property
    def is_float(self) -> bool:
        return self.element in ("float", "double", "half", "bfloat")

    def of(self, element: str) -> Type:
        """The type of as many lanes of another element."""
        return type_of(element, self.lanes)


class Value(NamedTuple):
    """An operand: `ref` is a register, a constant or a global. `str` gives it with its type."""

    type: Type
    ref: str

    def __str__(self) -> str:
        return f"{self.type.text} {self.ref}"


_MANGLED = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}
_BITS = {"float": 32, "double": 64, "half": 16, "bfloat": 16, "ptr": 64}


@cache
def type_of(element: str, lanes: int = 1) -> Type:
    """The type of `lanes` lanes of `element`."""
    return Type(element, lanes, element if lanes == 1 else f"<{lanes} x {element}>")


I1 = type_of("i1")
I32 = type_of("i32")
I64 = type_of("i64")
PTR = type_of("ptr")


@cache
def element_of(dtype: DType) -> str:
    """How one value of `dtype` is held in a register."""
    if dtype.kind == "handle":
        return "ptr"
    if dtype.name in ("float32", "float64"):
        return "float" if dtype.bits == 32 else "double"
    return "i8" if dtype.bits == 4 else f"i{dtype.bits}"


@cache
def memory_element_of(dtype: DType) -> str:
    """How one value of `dtype` is held in memory: as in registers, but a bool is a byte."""
    return "i8" if dtype.is_bool else element_of(dtype)


@cache
def value_type(dtype: DType, lanes: int = 1) -> Type:
    """The register type of `lanes` values of `dtype`."""
    return type_of(element_of(dtype), lanes)


def integer(kind: Type, value: int) -> Value:
    """The integer `value`, in every lane of a vector type."""
    if kind.element == "i1":
        text = "true" if value & 1 else "false"
    else:
        text = str(value)
    return _constant(kind, text)


def floating(kind: Type, value: float) -> Value:
    """The float `value`, which `kind` holds exactly, in every lane of a vector type."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return _constant(kind, f"0x{bits:016X}")


def number(kind: Type, value: float) -> Value:
    """The constant `value` of an integer or float type, in every lane of a vector type."""
    return floating(kind, value) if kind.is_float else integer(kind, int(value))


def integers(kind: Type, lanes: Sequence[int]) -> Value:
    """An integer vector, lane by lane."""
    return Value(kind, "<" + ", ".join(f"{kind.element} {lane}" for lane in lanes) + ">")


def zero(kind: Type) -> Value:
    """All bits zero."""
    return Value(kind, "zeroinitializer") if kind.lanes > 1 else _constant(kind, "null" if kind is PTR else _zero(kind))


def poison(kind: Type) -> Value:
    """No value in particular."""
    return Value(kind, "poison")


def int32(value: int) -> Value:
    """A scalar `i32`."""
    return integer(I32, value)


def int64(value: int) -> Value:
    """A scalar `i64`."""
    return integer(I64, value)


def _zero(kind: Type) -> str:
    return "0.0" if kind.is_float else integer(kind, 0).ref


def _constant(kind: Type, text: str) -> Value:
    return Value(kind, text if kind.lanes == 1 else f"splat ({kind.element} {text})")
