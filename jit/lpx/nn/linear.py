"""Matrix products. What follows a product, element by element, becomes part of the same kernel."""

from __future__ import annotations

from typing import Literal

import numpy as np

from lpx import dtypes
from lpx.errors import DTypeError
from lpx.frontends.numpy.array_operators import apply
from lpx.frontends.numpy.trace import TracedArray
from lpx.nn.activations import Activation, activated
from lpx.nn.primitive import Array, primitive, same_dtype, traced
from lpx.source import capture


@primitive
def matmul(
    a: Array,
    b: Array,
    bias: Array | None = None,
    activation: Activation | None = None,
    residual: Array | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """activation(a @ b + bias + residual) of a[..., m, k] and b[..., k, n].

    `bias` and `residual` broadcast to the product [..., m, n]. Leading axes broadcast, 1-D operands are vectors, as in
    np.matmul; transposed operands (`b.T` inside of a compiled function) are read where they lie. Sums are kept in
    float32 for narrower floats and rounded once. Operands and result have one dtype; integers wrap.

    Raises: DTypeError, ShapeError.
    """
    x, y = traced(a, b)
    same_dtype("matmul", x, y)
    product = x.owner.add("matmul", x, y)
    for operand in (bias, residual):
        if operand is not None:
            addend = x.owner.array(operand)
            same_dtype("matmul", product, addend)
            product = x.owner.add("add", product, addend)
    return activated(product, activation)


@primitive
def linear(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    activation: Activation | None = None,
    residual: Array | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """activation(x @ weight.T + bias + residual) of x[..., k], weight[n, k], bias[n]: a layer of a network, [..., n].

    Raises: DTypeError, ShapeError.
    """
    rows, columns = traced(x, weight)
    return matmul(rows, columns.T, bias, activation, residual)


@primitive
def matmul_int8(
    a: Array,
    b: Array,
    bias: Array | None = None,
    scale: Array | None = None,
    zero_point: int = 0,
    dtype: Literal["int8", "uint8"] = "int8",
    *,
    out: Array | None = None,
) -> Array:
    """a @ b + bias of a[..., m, k] in int8 or uint8, and b[..., k, n] in int8, in int32: exact unless a sum overflows.

    With `scale`, float32 that broadcasts to [..., m, n] (one number, or one for each column), the result is
    requantised: round(scale * sum) + zero_point, ties to even, saturated to `dtype`. `bias` is int32.

    Raises: DTypeError, ShapeError.
    """
    x, y = traced(a, b)
    _check_bytes(x, y)
    total = x.owner.add("matmul", x.owner.cast(x, "int32"), x.owner.cast(y, "int32"))
    if bias is not None:
        addend = x.owner.array(bias)
        same_dtype("matmul_int8 in int32 with a bias", total, addend)
        total = x.owner.add("add", total, addend)
    return total if scale is None else _requantised(total, scale, zero_point, dtypes.parse(dtype))


def _check_bytes(x: TracedArray, y: TracedArray) -> None:
    if x.value.dtype.name in ("int8", "uint8") and y.value.dtype.name == "int8":
        return
    raise DTypeError(
        f"matmul_int8 of {x.value.dtype} and {y.value.dtype}",
        hint="the first operand must be int8 or uint8, the second int8",
        span=capture(),
    )


def _requantised(total: TracedArray, scale: Array, zero_point: int, dtype: dtypes.DType) -> TracedArray:
    trace = total.owner
    factor = trace.cast(trace.array(scale), "float32")
    whole = apply(np.rint, trace.cast(total, "float32") * factor)
    low, high = (trace.number(bound - zero_point, "float32") for bound in (dtype.min_value, dtype.max_value))
    kept = trace.add("clip", whole, low, high)
    return trace.cast(trace.cast(kept, "int32") + trace.number(zero_point, "int32"), dtype)
