"""Evaluation of an expression over whole NumPy arrays, every operation rounded as IEEE 754 says, `fma` only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.expr import nodes, traverse
from lpx.expr.nodes import Expr, Var

Array = NDArray[Any]


def evaluate(expr: Expr, values: Mapping[Var, Array]) -> Array:
    """The value of a scalar expression for each element of the arrays that its variables stand for."""
    found: dict[Expr, Array] = dict(values.items())
    with np.errstate(all="ignore"):
        for node in traverse.walk(expr):
            if node not in found:
                found[node] = _apply(node, [found[child] for child in traverse.children(node)])
    return found[expr]


def _apply(node: Expr, args: list[Array]) -> Array:
    dtype = node.dtype.to_numpy()
    match node:
        case nodes.Const(value=value):
            return np.asarray(value, dtype)
        case nodes.Unary(op=op):
            return _UNARY[op](*args)
        case nodes.Binary(op=op):
            return np.asarray(_BINARY[op](*args), dtype)
        case nodes.Compare(op=op):
            return _COMPARE[op](*args)
        case nodes.Select():
            return np.where(*args)
        case nodes.Cast():
            return args[0].astype(dtype)
        case nodes.Bitcast():
            return args[0].view(dtype)
        case nodes.Lookup(table=table):
            return np.take(np.array(table, dtype), args[0] & (len(table) - 1))
        case nodes.Call(op=op):
            return _PRIMITIVE[op.name](*args)
        case _:
            raise AssertionError(f"vector math has no use for {type(node).__name__}")


def _shift_left(x: Array, by: Array) -> Array:
    return np.where(by < x.itemsize * 8, np.left_shift(x, by), 0)


def _shift_right(x: Array, by: Array) -> Array:
    assert x.dtype.kind == "i", "vector math shifts signed integers only"
    return np.right_shift(x, np.minimum(by, x.itemsize * 8 - 1))


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once, for float32 and float64."""
    a, b, c = np.broadcast_arrays(a, b, c)
    return _fma_single(a, b, c) if a.dtype == np.float32 else _fma_double(a, b, c)


def _fma_single(a: Array, b: Array, c: Array) -> Array:
    """In float64, where the product is exact and the sum is rounded to odd, which the rounding to float32 forgives."""
    product = a.astype(np.float64) * b.astype(np.float64)
    total, error = _two_sum(product, c.astype(np.float64))
    return _to_odd(total, error).astype(np.float32)


def _fma_double(a: Array, b: Array, c: Array) -> Array:
    """In the extended format of at least 64 bits: the product as a sum of two numbers, then the same."""
    wide = np.longdouble
    high, low = _two_product(a.astype(wide), b.astype(wide))
    upper, rest = _two_sum(high, c.astype(wide))
    rest, last = _two_sum(rest, low)
    total, error = _two_sum(upper, rest)
    plain = (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(np.float64)  # right if infinite, NaN, or a zero
    regular = np.isfinite(plain) & (total != 0)
    return np.where(regular, _wide_to_double(total, np.where(error == 0, last, error)), plain)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b exactly, for longdouble numbers that float64 holds: a product of 32 bits by 32 bits is exact."""
    splitter = np.longdouble(2**32 + 1)
    (a1, a2), (b1, b2) = _split(a, splitter), _split(b, splitter)
    high = a * b
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


def _split(a: Array, splitter: Any) -> tuple[Array, Array]:
    upper = a * splitter
    upper = upper - (upper - a)
    return upper, a - upper


def _to_odd(total: Array, error: Array) -> Array:
    """float64 sums, moved to the neighbour with an odd last bit on the error's side where they are inexact and even."""
    inexact = np.isfinite(total) & (error != 0) & ~np.isnan(error)
    even = (total.view(np.int64) & 1) == 0
    return np.where(inexact & even, np.nextafter(total, np.copysign(np.inf, error)), total)


def _wide_to_double(total: Array, error: Array) -> Array:
    """total + error, |error| below half a unit of `total`, as a float64 rounded once.

    Rounding `total` alone is wrong only where it lies midway between two float64 numbers.
    """
    rounded = total.astype(np.float64)
    difference = total - rounded.astype(np.longdouble)
    other = np.nextafter(rounded, np.where(difference > 0, np.inf, -np.inf))
    midway = (difference != 0) & (2 * difference == other.astype(np.longdouble) - rounded.astype(np.longdouble))
    return np.where(midway & (error * difference > 0), other, rounded)


_UNARY: dict[str, Callable[..., Array]] = {"neg": np.negative, "not": np.invert}
_BINARY: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "min": np.minimum,
    "max": np.maximum,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "shl": _shift_left,
    "shr": _shift_right,
}
_COMPARE: dict[str, Callable[..., Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
}
_PRIMITIVE: dict[str, Callable[..., Array]] = {
    "fma": fma,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "copysign": np.copysign,
    "rint": np.rint,
    "isnan": np.isnan,
    "signbit": np.signbit,
    "unlikely": np.asarray,
}
