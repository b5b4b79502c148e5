"""Activation functions, element by element."""

from __future__ import annotations

import math

from lpx import dtypes
from lpx.errors import DTypeError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph.operators.contraction import accumulator
from lpx.graph.operators.elementwise import Scalar, elementwise


def _relu(x: Expr) -> Expr:
    return build.maximum(x, 0)


def _gelu(x: Expr) -> Expr:
    """x times the cumulative normal distribution (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016)."""
    return x * 0.5 * (build.call("erf", x * math.sqrt(0.5)) + 1.0)


def _gelu_tanh(x: Expr) -> Expr:
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (build.call("tanh", inner) + 1.0)


def _silu(x: Expr) -> Expr:
    return x * build.call("sigmoid", x)


def _softplus(x: Expr) -> Expr:
    return build.maximum(x, 0.0) + build.call("log1p", build.call("exp", -build.call("abs", x)))


def _softsign(x: Expr) -> Expr:
    return x / (build.call("abs", x) + 1.0)


def _hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    return build.maximum(build.minimum(x * alpha + beta, 1.0), 0.0)


def _leaky_relu(x: Expr, alpha: float) -> Expr:
    return build.select(x < 0.0, x * alpha, x)


def _elu(x: Expr, alpha: float) -> Expr:
    return build.select(x < 0.0, build.call("expm1", x) * alpha, x)


def _floats_only(name: str, scalar: Scalar) -> Scalar:
    """`scalar` for floats, in their accumulator and rounded once."""

    def at(x: Expr, **attrs: float) -> Expr:
        if not x.dtype.is_float:
            raise DTypeError(f"{name} takes floats, not {x.dtype}", hint='cast first: x.astype("float32")')
        wide: dtypes.DType = accumulator(x.dtype)
        return build.cast(scalar(build.cast(x, wide), **attrs), x.dtype)

    return at


elementwise("relu", _relu)
_SMOOTH: dict[str, Scalar] = {
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
    "softplus": _softplus,
    "softsign": _softsign,
    "hard_sigmoid": _hard_sigmoid,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
}
for _name, _scalar in _SMOOTH.items():
    elementwise(_name, _floats_only(_name, _scalar))
