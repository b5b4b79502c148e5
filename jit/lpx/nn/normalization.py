"""Softmax and normalisations, in float32 or wider and rounded once."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.frontends.numpy.functions.shaping import as_axes, as_axis
from lpx.frontends.numpy.trace import TracedArray
from lpx.nn.primitive import Array, floats, primitive, same_dtype


@primitive
def softmax(x: Array, axis: int = -1) -> Array:
    """exp(x - max) / sum(exp(x - max)) along `axis` of floats [...]; a row with NaN or all -inf gives NaN."""
    array = floats("softmax", x)
    return array.owner.add("softmax", array, axis=as_axis(array, axis), log=False)


@primitive
def log_softmax(x: Array, axis: int = -1) -> Array:
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
) -> Array:
    """gamma * (x - mean) / sqrt(var + eps) + beta over `axis` of floats [...]; gamma and beta broadcast to x.

    The variance is that of the centred values (Ba, Kiros and Hinton, "Layer Normalization", 2016).

    Raises: DTypeError, ShapeError.
    """
    array = floats("layer_norm", x)
    made = array.owner.add("layer_norm", array, axes=as_axes(array, axis), eps=float(eps))
    return _affine("layer_norm", made, gamma, beta)


@primitive
def rms_norm(x: Array, gamma: Array | None = None, eps: float = 1e-6, axis: int | Sequence[int] = -1) -> Array:
    """gamma * x / sqrt(mean(x * x) + eps) over `axis` of floats [...]; gamma broadcasts to x.

    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

    Raises: DTypeError, ShapeError.
    """
    array = floats("rms_norm", x)
    made = array.owner.add("rms_norm", array, axes=as_axes(array, axis), eps=float(eps))
    return _affine("rms_norm", made, gamma, None)


def _affine(name: str, x: TracedArray, gamma: Array | None, beta: Array | None) -> TracedArray:
    for operator, operand in (("mul", gamma), ("add", beta)):
        if operand is not None:
            array = x.owner.array(operand)
            same_dtype(name, x, array)
            x = x.owner.add(operator, x, array)
    return x
