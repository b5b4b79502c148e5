"""Multiply-accumulate operators: matrix multiplication, convolution, and their transposed forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lpx import dtypes, te
from lpx.errors import DTypeError, ShapeError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.movement import Attrs, Inputs, Outputs, ints, operands, pad
from lpx.graph.shapes import Dim


def accumulator(dtype: dtypes.DType) -> dtypes.DType:
    """The dtype sums of products are kept in: float32 for narrower floats, else the dtype itself."""
    return dtypes.float32 if dtype.is_float and dtype.bits < 32 else dtype


def finish(total: te.Tensor, dtype: dtypes.DType) -> te.Tensor:
    """`total` rounded once to `dtype`; itself when it has it already."""
    if total.dtype == dtype:
        return total
    return te.compute(total.shape, lambda *i: te.cast(total[i], dtype), name=f"{total.name}_rounded")


def _define_matmul(inputs: Inputs, _: Attrs) -> Outputs:
    """NumPy's matmul: the last two axes multiply, axes before them broadcast, 1-D operands lose their axis again."""
    a, b = operands(inputs)
    if a.dtype != b.dtype:
        raise DTypeError(f"matmul of {a.dtype} and {b.dtype}")
    if not a.shape or not b.shape:
        raise ShapeError("matmul takes operands of one dimension or more", hint="use * for scalars")
    row, column = len(a.shape) > 1, len(b.shape) > 1
    inner = a.shape[-1]
    if not shapes.same_dim(shapes.dim(inner), shapes.dim(b.shape[-2 if column else -1])):
        raise ShapeError(
            f"matmul of {shapes.shape_text(a.shape)} and {shapes.shape_text(b.shape)}: inner dimensions differ"
        )
    batch = shapes.broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    shape = (*batch, *a.shape[-2:-1], *(b.shape[-1:] if column else ()))
    k = te.reduce_axis(inner, name="k")
    wide = accumulator(a.dtype)

    def at(*indices: Expr) -> Expr:
        lead = indices[: len(batch)]
        tail = list(indices[len(batch) :])
        left = (*_batch_index(a, lead, batch), *([tail.pop(0)] if row else []), k)
        right = (*_batch_index(b, lead, batch), k, *tail) if column else (k,)
        return te.sum(te.cast(a[left], wide) * te.cast(b[right], wide), axis=k)

    return (finish(te.compute(shape, at, name="matmul"), a.dtype),)


def _batch_index(x: te.Tensor, lead: Sequence[Expr], batch: Sequence[Dim]) -> list[Expr]:
    own = shapes.dims(x.shape[:-2])
    offset = len(batch) - len(own)
    zero = build.const(0, "int64")
    return [
        lead[offset + i] if shapes.same_dim(d, batch[offset + i]) else zero
        for i, d in enumerate(own)
    ]


register(Operator("matmul", "contraction", _define_matmul))


def _define_conv(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Convolution (cross-correlation) of x[N, C, spatial...] with w[M, C/groups, kernel...].

    `strides`, `dilations`, `pads_before`, `pads_after` per spatial axis; `groups`. No bias: it is an `add`.
    """
    x, w = operands(inputs)
    groups, strides, dilations = cast("int", attrs["groups"]), ints(attrs, "strides"), ints(attrs, "dilations")
    before, after = ints(attrs, "pads_before"), ints(attrs, "pads_after")
    _check_conv(x, w, groups, strides)
    kernel = shapes.static(w.shape[2:], "a convolution's kernel")
    padded = pad(x, (0, 0, *before), (0, 0, *after), build.const(0, x.dtype))
    sizes = [
        window_count(shapes.dim(d), k, s, dil)
        for d, k, s, dil in zip(padded.shape[2:], kernel, strides, dilations, strict=True)
    ]
    channels = te.reduce_axis(w.shape[1], name="c")
    taps = [te.reduce_axis(k, name=f"k{i}") for i, k in enumerate(kernel)]
    per_group = (shapes.static(w.shape[:1], "a convolution's filter count")[0]) // groups
    inner = shapes.static(w.shape[1:2], "a convolution's channel count")[0]
    wide = accumulator(x.dtype)

    def at(n: Expr, m: Expr, *spatial: Expr) -> Expr:
        channel = channels if groups == 1 else (m // per_group) * inner + channels
        places = [p * s + t * d for p, s, t, d in zip(spatial, strides, taps, dilations, strict=True)]
        left = te.cast(padded[(n, channel, *places)], wide)
        return te.sum(left * te.cast(w[(m, channels, *(t for t in taps))], wide), axis=[channels, *taps])

    return (finish(te.compute((x.shape[0], w.shape[0], *sizes), at, name="conv"), x.dtype),)


def _check_conv(x: te.Tensor, w: te.Tensor, groups: int, strides: Sequence[int]) -> None:
    if x.dtype != w.dtype:
        raise DTypeError(f"convolution of {x.dtype} with {w.dtype}")
    rank = len(x.shape)
    if rank < 3 or len(w.shape) != rank or len(strides) != rank - 2:
        raise ShapeError(
            f"convolution of {shapes.shape_text(x.shape)} with {shapes.shape_text(w.shape)}: ranks do not fit",
            hint="both are [batch or filters, channels, spatial...] of one rank",
        )
    channels, filters, inner = (shapes.dim(d) for d in (x.shape[1], w.shape[0], w.shape[1]))
    fits = isinstance(inner, int) and shapes.same_dim(channels, inner * groups)
    if not fits or not isinstance(filters, int) or filters % groups:
        raise ShapeError(
            f"{channels} channels and {filters} filters of {inner} channels do not make {groups} group(s)",
            hint="channels = groups * filter channels, and groups divides the filters",
        )


def window_count(extent: Dim, kernel: int, stride: int, dilation: int) -> Dim:
    """How many windows of `kernel` taps fit in `extent`; 0 when none does."""
    span = (kernel - 1) * dilation + 1
    if isinstance(extent, int):
        return max((extent - span) // stride + 1, 0)
    return (extent - span) // stride + 1


register(Operator("conv", "contraction", _define_conv))
