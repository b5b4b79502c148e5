"""Rules for conversions: chains of casts, and bitcasts."""

from __future__ import annotations

from lpx.dtypes import DType
from lpx.expr import build, nodes
from lpx.expr.nodes import Expr

_SIGNIFICANT_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e5m2": 3, "float8_e4m3fn": 4}
_WIDER_FLOATS = {
    "float32": ("float64",),
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float8_e5m2": ("float16", "bfloat16", "float32", "float64"),
    "float8_e4m3fn": ("float16", "bfloat16", "float32", "float64"),
}


def rewrite(node: Expr) -> Expr | None:
    """The cast or bitcast `node` made shorter, or None."""
    match node:
        case nodes.Cast(dtype=last, value=nodes.Cast(dtype=middle, value=value)):
            return build.cast(value, last) if _can_skip(value.dtype, middle, last) else None
        case nodes.Bitcast(dtype=last, value=nodes.Bitcast(value=value)):
            return build.bitcast(value, last)
        case _:
            return None


def holds_all(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`."""
    if narrow == wide:
        return True
    if narrow.is_float:
        return wide.name in _WIDER_FLOATS.get(narrow.name, ())
    if wide.is_float:
        bits = narrow.bits - (1 if narrow.is_signed else 0)
        return bits <= _SIGNIFICANT_BITS[wide.name]
    return wide.min_value <= narrow.min_value and narrow.max_value <= wide.max_value


def _can_skip(first: DType, middle: DType, last: DType) -> bool:
    """Whether first -> middle -> last gives what first -> last gives."""
    if "handle" in (first.kind, middle.kind, last.kind):
        return False
    if holds_all(middle, first):
        return True
    wraps_only = first.is_integer and middle.is_integer and last.is_integer
    return wraps_only and last.bits <= middle.bits
