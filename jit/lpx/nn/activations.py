"""Activation functions. Each takes floats [...] and gives the same shape and dtype."""

from __future__ import annotations

from typing import Any, Literal

from lpx.errors import UnsupportedError
from lpx.frontends.numpy.trace import TracedArray
from lpx.nn.primitive import Array, floats, primitive, traced
from lpx.source import capture


def _elementwise(name: str, x: Array, **attrs: Any) -> TracedArray:
    array = floats(name, x)
    return array.owner.add(name, array, **attrs)


@primitive
def relu(x: Array, *, out: Array | None = None) -> Array:
    """max(x, 0), of floats or integers; NaN stays NaN."""
    (array,) = traced(x)
    return array.owner.add("relu", array)


@primitive
def gelu(x: Array, approximate: Literal["none", "tanh"] = "none", *, out: Array | None = None) -> Array:
    """x times the cumulative normal distribution, exact or by its tanh approximation (Hendrycks and Gimpel, 2016)."""
    return _elementwise("gelu_tanh" if approximate == "tanh" else "gelu", x)


@primitive
def silu(x: Array, *, out: Array | None = None) -> Array:
    """x * sigmoid(x)."""
    return _elementwise("silu", x)


@primitive
def sigmoid(x: Array, *, out: Array | None = None) -> Array:
    """1 / (1 + exp(-x))."""
    return _elementwise("sigmoid", x)


@primitive
def tanh(x: Array, *, out: Array | None = None) -> Array:
    """The hyperbolic tangent."""
    return _elementwise("tanh", x)


@primitive
def erf(x: Array, *, out: Array | None = None) -> Array:
    """The error function."""
    return _elementwise("erf", x)


@primitive
def softplus(x: Array, *, out: Array | None = None) -> Array:
    """log(1 + exp(x)), without overflow."""
    return _elementwise("softplus", x)


@primitive
def softsign(x: Array, *, out: Array | None = None) -> Array:
    """x / (1 + |x|)."""
    return _elementwise("softsign", x)


@primitive
def leaky_relu(x: Array, alpha: float = 0.01, *, out: Array | None = None) -> Array:
    """x where positive, else alpha * x."""
    return _elementwise("leaky_relu", x, alpha=float(alpha))


@primitive
def elu(x: Array, alpha: float = 1.0, *, out: Array | None = None) -> Array:
    """x where positive, else alpha * (exp(x) - 1)."""
    return _elementwise("elu", x, alpha=float(alpha))


@primitive
def hard_sigmoid(x: Array, alpha: float = 1 / 6, beta: float = 0.5, *, out: Array | None = None) -> Array:
    """alpha * x + beta, limited to [0, 1]."""
    return _elementwise("hard_sigmoid", x, alpha=float(alpha), beta=float(beta))


Activation = Literal["relu", "gelu", "silu", "sigmoid", "tanh"]
_BY_NAME = {"relu": relu, "gelu": gelu, "silu": silu, "sigmoid": sigmoid, "tanh": tanh}


def activated(x: TracedArray, activation: Activation | None) -> TracedArray:
    """`x` after the activation of a name.

    Raises: UnsupportedError when there is none of the name.
    """
    if activation is None:
        return x
    if activation not in _BY_NAME:
        raise UnsupportedError(
            f"there is no activation {activation!r}", hint=f"use one of {', '.join(_BY_NAME)}", span=capture()
        )
    found: TracedArray = _BY_NAME[activation](x)
    return found
