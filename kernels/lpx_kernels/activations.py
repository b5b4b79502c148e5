"""Activation functions, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lpx import nn
from lpx_kernels.registry import case, register


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _silu(x: Any) -> Any:
    return x * _sigmoid(x)


_REFERENCES: dict[str | None, Callable[[Any], Any]] = {
    None: lambda x: x,
    "relu": _relu,
    "gelu": _gelu,
    "silu": _silu,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
}


def activated(x: Any, activation: str | None) -> Any:
    """The reference of the activation of a name."""
    return _REFERENCES[activation](x)


_SIZES = (case((1 << 16,)), case((1 << 20,)))

relu = register(nn.relu, "activation", _relu, *_SIZES)
gelu = register(nn.gelu, "activation", _gelu, *_SIZES, case((1 << 20,), approximate="tanh"))
silu = register(nn.silu, "activation", _silu, *_SIZES)
sigmoid = register(nn.sigmoid, "activation", _sigmoid, *_SIZES)
tanh = register(nn.tanh, "activation", np.tanh, *_SIZES)
