"""Multiply-accumulate operators: matrix multiplication, sums of products over named axes, convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lpx import dtypes, te
from lpx.errors import DTypeError, ShapeError
from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, ints, operands
from lpx.graph.operators.movement import pad
from lpx.graph.shapes import Dim


def accumulator(dtype: dtypes.DType) -> dtypes.DType:
    """The dtype sums of products are kept in: float32 for narrower floats, else the dtype itself."""
    return dtypes.float32 if dtype.is_float and dtype.bits < 32 else dtype


def finish(total: te.Tensor, dtype: dtypes.DType) -> te.Tensor:
    """`total` rounded once to `dtype`; itself when it has it already."""
    if total.dtype == dtype:
        return total

    def at(*i: Expr) -> Expr:
        return te.cast(total[i], dtype)

    return te.compute(total.shape, at, name=f"{total.name}_rounded")


def _product(a: Expr, b: Expr) -> Expr:
    """The product as sums of products take it: bools multiply by `and`, narrow floats in their accumulator."""
    if a.dtype.is_bool:
        return a & b
    wide = accumulator(a.dtype)
    return te.cast(a, wide) * te.cast(b, wide)


def _accumulated(value: Expr, axes: Sequence[Var]) -> Expr:
    if not axes:
        return value
    return te.any(value, axes) if value.dtype.is_bool else te.sum(value, axes)


def _define_matmul(inputs: Inputs, _: Attrs) -> Outputs:
    """NumPy's matmul: the last two axes multiply, axes before them broadcast, 1-D operands lose their axis again."""
    a, b = operands(inputs)
    return (_matmul(a, b, None),)


def _define_matmul_where(inputs: Inputs, _: Attrs) -> Outputs:
    """matmul of a and b, in which only those products are added up for whose element of a the third operand is true.

    It broadcasts to a. The other elements, and those of b that none is multiplied by, are not looked at.
    """
    a, b, chosen = operands(inputs)
    return (_matmul(a, b, chosen),)


def _matmul(a: te.Tensor, b: te.Tensor, chosen: te.Tensor | None) -> te.Tensor:
    if a.dtype != b.dtype:
        raise DTypeError(f"matmul of {a.dtype} and {b.dtype}")
    if not a.rank or not b.rank:
        raise ShapeError("matmul takes operands of one dimension or more", hint="use * for scalars")
    row, column = a.rank > 1, b.rank > 1
    inner = a.shape[-1]
    if not shapes.same_dim(inner, b.shape[-2 if column else -1]):
        raise ShapeError(
            f"matmul of {shapes.shape_text(a.shape)} and {shapes.shape_text(b.shape)}: inner dimensions differ",
            hint="the last axis of the first operand meets the last but one of the second",
        )
    batch = shapes.broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    shape = (*batch, *a.shape[-2:-1], *(b.shape[-1:] if column else ()))
    k = te.reduce_axis(inner, name="k")

    def at(*i: Expr) -> Expr:
        lead, tail = i[: len(batch)], list(i[len(batch) :])
        left = (*_batch_index(a, lead, batch), *([tail.pop(0)] if row else []), k)
        right = (*_batch_index(b, lead, batch), k, *tail) if column else (k,)
        product = _product(a[left], b[right])
        if chosen is not None:
            product = te.where(shapes.read_broadcast(chosen, left, a.shape), product, build.const(0, product.dtype))
        return _accumulated(product, [k])

    return finish(te.compute(shape, at, name="matmul"), a.dtype)


def _batch_index(x: te.Tensor, lead: Sequence[Expr], batch: Sequence[Dim]) -> list[Expr]:
    own = x.shape[:-2]
    offset = len(batch) - len(own)
    zero = build.const(0, "int64")
    return [zero if shapes.is_stretched(d, batch[offset + k]) else lead[offset + k] for k, d in enumerate(own)]


def _define_einsum(inputs: Inputs, attrs: Attrs) -> Outputs:
    """The sum of products over the labels that are not in `result`: `terms` has one label per axis of each operand.

    A label twice in a term reads a diagonal.
    """
    tensors = operands(inputs)
    terms, result = cast("tuple[str, ...]", attrs["terms"]), cast("str", attrs["result"])
    extents = _label_extents(tensors, terms)
    summed = {label: te.reduce_axis(extent, name=label) for label, extent in extents.items() if label not in result}
    wide = accumulator(tensors[0].dtype)

    def at(*i: Expr) -> Expr:
        where: dict[str, Expr] = {**summed, **dict(zip(result, i, strict=True))}
        factors = [t[_label_index(t, term, where)] for t, term in zip(tensors, terms, strict=True)]
        product = factors[0] if factors[0].dtype.is_bool else te.cast(factors[0], wide)
        for factor in factors[1:]:
            product = _product(product, te.cast(factor, product.dtype))
        return _accumulated(product, list(summed.values()))

    return (finish(te.compute([extents[label] for label in result], at, name="einsum"), tensors[0].dtype),)


def _label_extents(tensors: Sequence[te.Tensor], terms: Sequence[str]) -> dict[str, Dim]:
    extents: dict[str, Dim] = {}
    for tensor, term in zip(tensors, terms, strict=True):
        for label, extent in zip(term, tensor.shape, strict=True):
            (extents[label],) = shapes.broadcast_shapes([(extents.get(label, 1),), (extent,)])
    return extents


def _label_index(tensor: te.Tensor, term: str, where: dict[str, Expr]) -> tuple[Expr, ...]:
    zero = build.const(0, "int64")
    return tuple(
        zero if isinstance(d, int) and d == 1 else where[label] for label, d in zip(term, tensor.shape, strict=True)
    )


def _define_conv(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Convolution (cross-correlation) of x[N, C, spatial...] with w[M, C/groups, kernel...].

    `strides`, `dilations`, `pads_before`, `pads_after` per spatial axis; `groups`. No bias: it is an `add`.
    """
    x, w = operands(inputs)
    groups, strides, dilations = cast("int", attrs["groups"]), ints(attrs, "strides"), ints(attrs, "dilations")
    before, after = ints(attrs, "pads_before"), ints(attrs, "pads_after")
    _check_conv(x, w, groups, strides)
    filters, inner, *kernel = shapes.static(w.shape, "a convolution's filter")
    padded = pad(x, (0, 0, *before), (0, 0, *after), build.const(0, x.dtype))
    sizes = [
        window_count(d, k, s, dil) for d, k, s, dil in zip(padded.shape[2:], kernel, strides, dilations, strict=True)
    ]
    channels: Var = te.reduce_axis(inner, name="c")
    taps: list[Var] = [te.reduce_axis(k, name=f"k{n}") for n, k in enumerate(kernel)]
    per_group = filters // groups

    def at(n: Expr, m: Expr, *spatial: Expr) -> Expr:
        channel = channels if groups == 1 else (m // per_group) * inner + channels
        places = [p * s + t * d for p, s, t, d in zip(spatial, strides, taps, dilations, strict=True)]
        return te.sum(_product(padded[(n, channel, *places)], w[(m, channels, *taps)]), [channels, *taps])

    return (finish(te.compute((x.shape[0], filters, *sizes), at, name="conv"), x.dtype),)


def _define_grouped_conv(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Convolutions side by side: x[N, G, C, spatial...] with w[G, M, C, kernel...] is [N, G, M, spatial...].

    `strides`, `dilations`, `pads_before`, `pads_after` per spatial axis, as for `conv`.
    """
    x, w = operands(inputs)
    strides, dilations = ints(attrs, "strides"), ints(attrs, "dilations")
    before, after = ints(attrs, "pads_before"), ints(attrs, "pads_after")
    if x.dtype != w.dtype or x.rank != w.rank or not shapes.same_dim(x.shape[1], w.shape[0]):
        raise ShapeError("grouped convolution takes images [N, G, C, ...] and filters [G, M, C, ...] of one dtype")
    groups, filters, inner, *kernel = shapes.static(w.shape, "a convolution's filter")
    padded = pad(x, (0, 0, 0, *before), (0, 0, 0, *after), build.const(0, x.dtype))
    sizes = [
        window_count(d, k, s, dil) for d, k, s, dil in zip(padded.shape[3:], kernel, strides, dilations, strict=True)
    ]
    channels: Var = te.reduce_axis(inner, name="c")
    taps: list[Var] = [te.reduce_axis(k, name=f"k{n}") for n, k in enumerate(kernel)]

    def at(n: Expr, g: Expr, m: Expr, *spatial: Expr) -> Expr:
        places = [p * s + t * d for p, s, t, d in zip(spatial, strides, taps, dilations, strict=True)]
        return te.sum(_product(padded[(n, g, channels, *places)], w[(g, m, channels, *taps)]), [channels, *taps])

    return (finish(te.compute((x.shape[0], groups, filters, *sizes), at, name="conv"), x.dtype),)


def _check_conv(x: te.Tensor, w: te.Tensor, groups: int, strides: Sequence[int]) -> None:
    if x.dtype != w.dtype:
        raise DTypeError(f"convolution of {x.dtype} with {w.dtype}")
    if x.rank < 3 or w.rank != x.rank or len(strides) != x.rank - 2:
        raise ShapeError(
            f"convolution of {shapes.shape_text(x.shape)} with {shapes.shape_text(w.shape)}: ranks do not fit",
            hint="both are [batch or filters, channels, spatial...] of one rank",
        )
    channels, filters, inner = x.shape[1], w.shape[0], w.shape[1]
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
    return build.maximum((extent - span) // stride + 1, 0)


for _name, _define in {
    "matmul": _define_matmul,
    "matmul_where": _define_matmul_where,
    "einsum": _define_einsum,
    "conv": _define_conv,
    "grouped_conv": _define_grouped_conv,
}.items():
    register(Operator(_name, "contraction", _define))
