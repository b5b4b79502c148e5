"""Softmax and normalisations, in float32 or wider and rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lpx.errors import ShapeError
from lpx.frontends.numpy.array_operators import apply
from lpx.frontends.numpy.functions.reductions import widened
from lpx.frontends.numpy.functions.shaping import as_axes, as_axis, reshaped
from lpx.frontends.numpy.trace import TracedArray
from lpx.graph import shapes
from lpx.nn.primitive import Array, floats, per_channel, primitive, same_dtype
from lpx.source import capture


@primitive
def softmax(x: Array, axis: int = -1, *, out: Array | None = None) -> Array:
    """exp(x - max) / sum(exp(x - max)) along `axis` of floats [...]; a row with NaN or all -inf gives NaN."""
    array = floats("softmax", x)
    return array.owner.add("softmax", array, axis=as_axis(array, axis), log=False)


@primitive
def log_softmax(x: Array, axis: int = -1, *, out: Array | None = None) -> Array:
    """The logarithm of softmax along `axis` of floats [...]."""
    array = floats("log_softmax", x)
    return array.owner.add("softmax", array, axis=as_axis(array, axis), log=True)


@primitive
def layer_norm(
    x: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
    axis: int | Sequence[int] = -1,
    *,
    out: Array | None = None,
) -> Array:
    """gamma * (x - mean) / sqrt(var + eps) + beta over `axis` of floats [...]; gamma and beta broadcast to x.

    The variance is that of the centred values (Ba, Kiros and Hinton, "Layer Normalization", 2016).

    Raises: DTypeError, ShapeError.
    """
    array = floats("layer_norm", x)
    made = array.owner.add("layer_norm", array, axes=as_axes(array, axis), eps=float(eps))
    return _affine("layer_norm", made, gamma, beta)


@primitive
def rms_norm(
    x: Array,
    gamma: Array | None = None,
    eps: float = 1e-6,
    axis: int | Sequence[int] = -1,
    *,
    out: Array | None = None,
) -> Array:
    """gamma * x / sqrt(mean(x * x) + eps) over `axis` of floats [...]; gamma broadcasts to x.

    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

    Raises: DTypeError, ShapeError.
    """
    array = floats("rms_norm", x)
    made = array.owner.add("rms_norm", array, axes=as_axes(array, axis), eps=float(eps))
    return _affine("rms_norm", made, gamma, None)


@primitive
def group_norm(
    x: Array,
    groups: int,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
    *,
    out: Array | None = None,
) -> Array:
    """gamma * (x - mean) / sqrt(var + eps) + beta of x[n, c, ...], over each of `groups` groups of channels.

    gamma and beta have one number per channel. Wu and He, "Group Normalization", 2018.

    Raises: DTypeError, ShapeError.
    """
    array = _with_channels("group_norm", x)
    batch, channels, *spatial = shapes.static(array.shape, "group_norm")
    if groups < 1 or channels % groups:
        raise ShapeError(
            f"group_norm of {channels} channels in {groups} groups", hint="groups divide channels", span=capture()
        )
    rows = reshaped(array, (batch, groups, channels // groups * math.prod(spatial)))
    made = array.owner.add("layer_norm", rows, axes=(2,), eps=float(eps))
    return _per_channel("group_norm", reshaped(made, array.shape), gamma, beta)


@primitive
def instance_norm(
    x: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
    *,
    out: Array | None = None,
) -> Array:
    """gamma * (x - mean) / sqrt(var + eps) + beta of x[n, c, ...], over each channel of each sample by itself.

    gamma and beta have one number per channel. Ulyanov et al., "Instance Normalization", 2016.

    Raises: DTypeError, ShapeError.
    """
    array = _with_channels("instance_norm", x)
    made = array.owner.add("layer_norm", array, axes=tuple(range(2, array.ndim)), eps=float(eps))
    return _per_channel("instance_norm", made, gamma, beta)


@primitive
def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    eps: float = 1e-5,
    *,
    out: Array | None = None,
) -> Array:
    """gamma * (x - mean) / sqrt(variance + eps) + beta of x[n, c, ...], with one number of each per channel.

    For inference: mean and variance are given. Each channel takes one multiplication and one addition, whose numbers
    are computed in float32 or wider. Ioffe and Szegedy, "Batch Normalization", 2015.

    Raises: DTypeError, ShapeError.
    """
    array = _with_channels("batch_norm", x)
    centre, spread = (widened(per_channel("batch_norm", array, v)) for v in (mean, variance))
    factor = 1 / apply(np.sqrt, spread + float(eps))
    if gamma is not None:
        factor = widened(per_channel("batch_norm", array, gamma)) * factor
    shift = -centre * factor
    if beta is not None:
        shift = widened(per_channel("batch_norm", array, beta)) + shift
    return array.owner.cast(widened(array) * factor + shift, array.value.dtype)


def _with_channels(name: str, x: Array) -> TracedArray:
    array = floats(name, x)
    if array.ndim < 2:
        raise ShapeError(
            f"{name} takes an array [batch, channels, ...], not one of shape {shapes.shape_text(array.shape)}",
            hint="reshape it, with extents 1 for axes that are missing",
            span=capture(),
        )
    return array


def _per_channel(name: str, x: TracedArray, gamma: Array | None, beta: Array | None) -> TracedArray:
    scale, shift = (None if v is None else per_channel(name, x, v) for v in (gamma, beta))
    return _affine(name, x, scale, shift)


def _affine(name: str, x: TracedArray, gamma: Array | None, beta: Array | None) -> TracedArray:
    for operator, operand in (("mul", gamma), ("add", beta)):
        if operand is not None:
            array = x.owner.array(operand)
            same_dtype(name, x, array)
            x = x.owner.add(operator, x, array)
    return x
