"""Operators that divide by what they reduce: softmax, layer norm, RMS norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lpx import te
from lpx.errors import DTypeError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.contraction import accumulator, finish
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, empty, flag, ints, is_empty, operands
from lpx.graph.operators.reduction import reduce_axes, reduced, result_shape


def _float_operand(inputs: Inputs, name: str) -> te.Tensor:
    x = operands(inputs)[0]
    if not x.dtype.is_float:
        raise DTypeError(f"{name} takes floats, not {x.dtype}", hint='cast first: x.astype("float32")')
    return x


def widened(x: te.Tensor) -> te.Tensor:
    """`x` in the dtype its sums are kept in."""
    wide = accumulator(x.dtype)
    if wide == x.dtype:
        return x

    def at(*i: Expr) -> Expr:
        return te.cast(x[i], wide)

    return te.compute(x.shape, at, name=f"{x.name}_wide")


def _kept(indices: Sequence[Expr], axes: Sequence[int]) -> tuple[Expr, ...]:
    return tuple(k for a, k in enumerate(indices) if a not in axes)


def _define_softmax(inputs: Inputs, attrs: Attrs) -> Outputs:
    """exp(x - max) * (1 / sum) along `axis`; `log` gives (x - max) - log(sum).

    The sum is at least 1, so its reciprocal costs one more rounding and saves a division for every element.
    """
    name = "log_softmax" if flag(attrs, "log") else "softmax"
    given = _float_operand(inputs, name)
    axes = (shapes.normalize_axis(cast("int", attrs["axis"]), given.rank),)
    if is_empty(given.shape):
        return (empty(given.shape, given.dtype, name),)
    x = widened(given)
    largest = reduced(x, axes, False, te.max, "row_max")

    def exponential(*i: Expr) -> Expr:
        return build.call("exp", x[i] - largest[_kept(i, axes)])

    exps = te.compute(x.shape, exponential, name="exps")
    total = reduced(exps, axes, False, te.sum, "row_sum")

    def reciprocal(*i: Expr) -> Expr:
        return build.const(1, x.dtype) / total[i]

    def probability(*i: Expr) -> Expr:
        return exps[i] * inverse[_kept(i, axes)]

    def log_probability(*i: Expr) -> Expr:
        return x[i] - largest[_kept(i, axes)] - build.call("log", total[_kept(i, axes)])

    inverse = te.compute(total.shape, reciprocal, name="inverse")
    at = log_probability if flag(attrs, "log") else probability
    return (finish(te.compute(x.shape, at, name=name), given.dtype),)


def _define_layer_norm(inputs: Inputs, attrs: Attrs) -> Outputs:
    """(x - mean) / sqrt(var + eps) over `axes`, in float32 or wider; variance from the centred values (two passes)."""
    given = _float_operand(inputs, "layer_norm")
    x = widened(given)
    axes = shapes.normalize_axes(ints(attrs, "axes"), x.rank)
    total = reduced(x, axes, False, te.sum, "total")
    count = _count(x, axes)

    def average(*i: Expr) -> Expr:
        return total[i] / count

    mean = te.compute(total.shape, average, name="mean")

    def deviation(*i: Expr) -> Expr:
        return x[i] - mean[_kept(i, axes)]

    centred = te.compute(x.shape, deviation, name="centred")
    return (_scaled(centred, axes, cast("float", attrs["eps"]), "layer_norm", given),)


def _define_rms_norm(inputs: Inputs, attrs: Attrs) -> Outputs:
    """x / sqrt(mean(x * x) + eps) over `axes`, in float32 or wider."""
    given = _float_operand(inputs, "rms_norm")
    x = widened(given)
    axes = shapes.normalize_axes(ints(attrs, "axes"), x.rank)
    return (_scaled(x, axes, cast("float", attrs["eps"]), "rms_norm", given),)


def _scaled(x: te.Tensor, axes: Sequence[int], eps: float, name: str, given: te.Tensor) -> te.Tensor:
    """x / sqrt(mean(x * x) + eps), rounded to the dtype of `given`."""
    axis_list, index = reduce_axes(x, axes)
    count = _count(x, axes)

    def square(*i: Expr) -> Expr:
        return te.sum(x[index(i)] * x[index(i)], axis_list)

    squares = te.compute(result_shape(x, axes, False), square, name="squares")

    def reciprocal(*i: Expr) -> Expr:
        return build.const(1, x.dtype) / build.call("sqrt", squares[i] / count + build.const(eps, x.dtype))

    scale = te.compute(squares.shape, reciprocal, name="scale")

    def normal(*i: Expr) -> Expr:
        return x[i] * scale[_kept(i, axes)]

    return finish(te.compute(x.shape, normal, name=name), given.dtype)


def _count(x: te.Tensor, axes: Sequence[int]) -> Expr:
    return build.cast(shapes.size(x.shape[a] for a in axes), x.dtype)


for _name, _define in {
    "softmax": _define_softmax,
    "layer_norm": _define_layer_norm,
    "rms_norm": _define_rms_norm,
}.items():
    register(Operator(_name, "reduction", _define))
