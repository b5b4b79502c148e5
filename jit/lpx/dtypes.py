"""Element types, and their correspondence with NumPy.

`float16`, `bfloat16` and the `float8` types are storage types: arithmetic on them is exact in float32 and rounded once,
to nearest even. `int4`/`uint4` are storage only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from lpx.errors import DTypeError
from lpx.records import record

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["bool", "int", "uint", "float", "handle"]


@record(eq=False)
class DType:
    """An element type. `bits` is the width of a value; a bool occupies one byte in memory.

    There is one instance of each, so they are compared by identity; copies and pickles give the same one.
    """

    name: str
    kind: Kind
    bits: int

    @property
    def itemsize(self) -> int:
        """Bytes one element occupies in memory."""
        return (self.bits + 7) // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_storage_only(self) -> bool:
        """Whether arithmetic goes through a wider type."""
        return (self.kind == "float" and self.bits < 32) or self.bits == 4

    @property
    def min_value(self) -> int:
        """The smallest integer of an integer or bool dtype."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def max_value(self) -> int:
        """The largest integer of an integer or bool dtype."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1

    def wrap(self, value: int) -> int:
        """`value` modulo 2**bits, in this integer dtype's range."""
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if self.kind == "int" and value > self.max_value else value

    def to_numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same elements (from ml_dtypes where NumPy has none)."""
        return _to_numpy(self)

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return _of_name, (self.name,)


bool_ = DType("bool", "bool", 1)
int4 = DType("int4", "int", 4)
int8 = DType("int8", "int", 8)
int16 = DType("int16", "int", 16)
int32 = DType("int32", "int", 32)
int64 = DType("int64", "int", 64)
uint4 = DType("uint4", "uint", 4)
uint8 = DType("uint8", "uint", 8)
uint16 = DType("uint16", "uint", 16)
uint32 = DType("uint32", "uint", 32)
uint64 = DType("uint64", "uint", 64)
float8_e4m3fn = DType("float8_e4m3fn", "float", 8)
float8_e5m2 = DType("float8_e5m2", "float", 8)
float16 = DType("float16", "float", 16)
bfloat16 = DType("bfloat16", "float", 16)
float32 = DType("float32", "float", 32)
float64 = DType("float64", "float", 64)
handle = DType("handle", "handle", 64)
"""The type of an address; not an element type."""

index = int64
"""The dtype of loop variables, extents and indices; narrowed to 32 bits late, where proved to fit."""

ALL: tuple[DType, ...] = (
    bool_, int4, int8, int16, int32, int64, uint4, uint8, uint16, uint32, uint64,
    float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64,
)  # fmt: skip
_BY_NAME = {dtype.name: dtype for dtype in ALL}

_ML_DTYPES = frozenset({"int4", "uint4", "float8_e4m3fn", "float8_e5m2", "bfloat16"})


def _of_name(name: str) -> DType:
    """The instance that a pickle means."""
    return handle if name == handle.name else _BY_NAME[name]


def parse(spec: object) -> DType:
    """The DType meant by a `DType`, its name, a NumPy dtype or a NumPy scalar type.

    Raises: DTypeError when there is no such element type.
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in _BY_NAME:
        return _BY_NAME[spec]
    return _from_numpy(spec)


@functools.cache
def _to_numpy(dtype: DType) -> np.dtype[Any]:
    import numpy as np

    if dtype.name not in _ML_DTYPES:
        return np.dtype(dtype.name)
    import ml_dtypes

    scalar: type[np.generic] = getattr(ml_dtypes, dtype.name)
    return np.dtype(scalar)


def _from_numpy(spec: Any) -> DType:
    import numpy as np

    try:
        found = _BY_NAME.get(np.dtype(spec).name)
    except TypeError:
        found = None
    if found is None:
        raise DTypeError(f"{spec!r} is not an element type lpx knows", hint=f"use one of {', '.join(_BY_NAME)}")
    return found
