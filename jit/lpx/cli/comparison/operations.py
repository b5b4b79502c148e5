"""Programs of deep learning in the words of every library; `KERNELS` are those that `lpx bench` knows by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lpx import nn
from lpx.cli.comparison.program import Array, Function, Program, normal

EPSILON = 1e-5
GROUPS = 8
"""Groups of channels of a group normalisation."""


def matmul(m: int, n: int, k: int, *, dtype: str = "float32", constant: bool = False) -> Program:
    """A[m, k] B[k, n], with B at run time or a constant."""
    return Program(
        f"matmul {m} x {k} x {n}{_marks(dtype, constant)}",
        {"a": normal(m, k, dtype=dtype), "b": normal(k, n, seed=1, dtype=dtype)},
        lambda xp, a, b: xp.matmul(a, b),
        numpy=np.matmul if constant else lambda a, b, out: np.matmul(a, b, out=out),
        torch=lambda torch, a, b, out: torch.matmul(a, b, out=out),
        nodes=[("MatMul", ["a", "b"], "c", {})],
        constants=frozenset("b" if constant else ""),
        flop=2.0 * m * k * n,
    )


def linear(m: int, n: int, k: int, *, dtype: str = "float32", constant: bool = False) -> Program:
    """GELU(A[m, k] B[k, n] + bias[n]), a layer of a transformer."""
    a, b, bias = normal(m, k, dtype=dtype), normal(k, n, seed=1, dtype=dtype), normal(n, seed=2, dtype=dtype)
    wide = a.astype(np.float64) @ b.astype(np.float64) + bias
    erf = np.array([math.erf(x * 0.5**0.5) for x in wide.flat]).reshape(wide.shape)
    result = wide * 0.5 * (1 + erf)
    return Program(
        f"matmul {m} x {k} x {n}, bias, GELU{_marks(dtype, constant)}",
        {"a": a, "b": b, "bias": bias},
        lpx=lambda a, b, bias: nn.matmul(a, b, bias, activation="gelu"),
        torch=lambda torch, a, b, bias: torch.nn.functional.gelu(torch.addmm(bias, a, b)),
        jax=lambda jax, a, b, bias: jax.nn.gelu(a @ b + bias, approximate=False),
        nodes=[("MatMul", ["a", "b"], "c", {}), ("Add", ["c", "bias"], "x", {}), ("Gelu", ["x"], "y", {})],
        constants=frozenset(("b", "bias") if constant else ()),
        reference=lambda _a, _b, _bias: result,
        flop=2.0 * m * k * n,
    )


def softmax(rows: int, columns: int, *, dtype: str = "float32") -> Program:
    """Softmax of the rows."""

    def in_numpy(x: Array) -> Any:
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    return Program(
        f"softmax {rows} x {columns}{_marks(dtype)}",
        {"x": normal(rows, columns, dtype=dtype)},
        lpx=lambda x: nn.softmax(x, axis=-1),
        numpy=in_numpy,
        torch=lambda torch, x: torch.softmax(x, -1),
        jax=lambda jax, x: jax.nn.softmax(x, axis=-1),
        nodes=[("Softmax", ["x"], "y", {"axis": -1})],
    )


def log_softmax(rows: int, columns: int, *, dtype: str = "float32") -> Program:
    """Logarithm of the softmax of the rows."""

    def in_numpy(x: Array) -> Any:
        centred = x - x.max(axis=1, keepdims=True)
        return centred - np.log(np.exp(centred).sum(axis=1, keepdims=True))

    return Program(
        f"log-softmax {rows} x {columns}{_marks(dtype)}",
        {"x": normal(rows, columns, dtype=dtype)},
        lpx=lambda x: nn.log_softmax(x, axis=-1),
        numpy=in_numpy,
        torch=lambda torch, x: torch.log_softmax(x, -1),
        jax=lambda jax, x: jax.nn.log_softmax(x, axis=-1),
        nodes=[("LogSoftmax", ["x"], "y", {"axis": -1})],
    )


def layer_norm(rows: int, columns: int, *, dtype: str = "float32") -> Program:
    """Rows with mean 0 and deviation 1, times a factor plus a shift for each column."""

    def plain(x: Any, g: Any, b: Any) -> Any:
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / (np.float32(EPSILON) + (centred * centred).mean(axis=1, keepdims=True)) ** 0.5 * g + b

    return Program(
        f"layer norm {rows} x {columns}{_marks(dtype)}",
        _rows(rows, columns, dtype),
        lpx=lambda x, g, b: nn.layer_norm(x, g, b, eps=EPSILON),
        numpy=plain,
        torch=lambda torch, x, g, b: torch.nn.functional.layer_norm(x, (columns,), g, b, EPSILON),
        jax=lambda _jax, x, g, b: plain(x, g, b),
        nodes=[("LayerNormalization", ["x", "g", "b"], "y", {"axis": -1, "epsilon": EPSILON})],
        tolerance=1e-4,
    )


def rms_norm(rows: int, columns: int, *, dtype: str = "float32") -> Program:
    """Rows with root mean square 1, times a factor for each column."""

    def plain(x: Any, g: Any) -> Any:
        return x / ((x * x).mean(axis=1, keepdims=True) + np.float32(EPSILON)) ** 0.5 * g

    inputs = _rows(rows, columns, dtype)
    return Program(
        f"RMS norm {rows} x {columns}{_marks(dtype)}",
        {"x": inputs["x"], "g": inputs["g"]},
        lpx=lambda x, g: nn.rms_norm(x, g, eps=EPSILON),
        numpy=plain,
        torch=lambda torch, x, g: torch.nn.functional.rms_norm(x, (columns,), g, EPSILON),
        jax=lambda _jax, x, g: plain(x, g),
        tolerance=1e-4,
    )


def _rows(rows: int, columns: int, dtype: str) -> dict[str, Array]:
    shapes = {"x": (rows, columns), "g": (columns,), "b": (columns,)}
    return {name: normal(*shape, seed=seed, dtype=dtype) for seed, (name, shape) in enumerate(shapes.items())}


def attention(heads: int, length: int, width: int = 64, causal: int = 0, *, dtype: str = "float32") -> Program:
    """Softmax of the scaled products of queries and keys, times the values; causal: only of the past."""

    def in_numpy(q: Array, k: Array, v: Array) -> Any:
        scores = q @ k.swapaxes(-1, -2) * np.asarray(width**-0.5, q.dtype)
        if causal:
            scores = np.where(np.tri(length, dtype=np.bool_), scores, np.asarray(-np.inf, q.dtype))
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True) @ v

    def in_jax(jax: Any, q: Any, k: Any, v: Any) -> Any:
        by_length = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
        return jax.nn.dot_product_attention(*by_length, is_causal=bool(causal)).transpose(0, 2, 1, 3)

    def in_torch(torch: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))

    return Program(
        f"{'causal ' if causal else ''}attention {heads} x {length} x {width}{_marks(dtype)}",
        {name: normal(1, heads, length, width, seed=seed, dtype=dtype) for seed, name in enumerate("qkv")},
        lpx=lambda q, k, v: nn.attention(q, k, v, causal=bool(causal)),
        numpy=in_numpy,
        torch=in_torch,
        jax=in_jax,
        tolerance=1e-4,
        flop=4.0 * heads * length * length * width,
    )


def conv2d(
    channels: int, filters: int, size: int, window: int = 3, stride: int = 1, groups: int = 1, *, constant: bool = True
) -> Program:
    """One image[channels, size, size], padded so that windows are centred on pixels, under constant weights."""
    pad = window // 2
    out = (size + 2 * pad - window) // stride + 1
    weights = normal(filters, channels // groups, window, window, seed=1)
    shape = f"{filters}" if groups == channels else f"{channels} to {filters}"
    if 1 < groups < channels:
        shape += f" in {groups} groups"
    kind = "depthwise" if groups == channels else "conv"

    def in_torch(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, stride=stride, padding=pad, groups=groups)

    def in_jax(jax: Any, x: Any, w: Any) -> Any:
        pads = ((pad, pad), (pad, pad))
        return jax.lax.conv_general_dilated(x, w, (stride, stride), pads, feature_group_count=groups)

    return Program(
        f"{kind} {window} x {window}, {shape}, {size} x {size}, stride {stride}{'' if constant else ', arguments'}",
        {"x": normal(1, channels, size, size), "w": weights},
        lpx=lambda x, w: nn.conv2d(x, w, stride=stride, padding=pad, groups=groups),
        torch=in_torch,
        jax=in_jax,
        nodes=[
            (
                "Conv",
                ["x", "w"],
                "y",
                {"strides": [stride] * 2, "pads": [pad] * 4, "group": groups, "kernel_shape": [window] * 2},
            )
        ],
        constants=frozenset("w" if constant else ""),
        tolerance=5e-5,
        flop=2.0 * out * out * weights.size,
    )


def transpose(rows: int, columns: int, *, dtype: str = "float32") -> Program:
    """The transpose of a matrix, copied."""
    return permute((rows, columns), (1, 0), name=f"transpose {rows} x {columns}{_marks(dtype)}", dtype=dtype)


def permute(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    *,
    name: str = "",
    numba: Function | None = None,
    dtype: Any = "float32",
) -> Program:
    """A copy with axes in another order."""
    return Program(
        name or f"permute {' x '.join(map(str, shape))} by {order}",
        {"x": normal(*shape, dtype=dtype)},
        lpx=lambda x: np.transpose(x, order),
        numpy=lambda x, out: np.copyto(out, x.transpose(order)),
        numba=numba,
        torch=lambda torch, x: x.permute(order).contiguous(),
        jax=lambda jax, x: jax.numpy.transpose(x, order),
        nodes=[("Transpose", ["x"], "y", {"perm": order})],
    )


def _marks(dtype: str, constant: bool = False) -> str:
    return ("" if dtype == "float32" else f", {dtype}") + (", constant weights" if constant else "")


KERNELS: dict[str, Callable[..., Program]] = {
    "matmul": matmul,
    "linear": linear,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "attention": attention,
    "conv2d": conv2d,
    "transpose": transpose,
}
"""By name; their dimensions are parameters that may be given by name or in order."""
