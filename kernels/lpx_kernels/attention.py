"""Attention: causal, masked, with grouped heads, and one query against a cache; rotary position embedding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lpx import nn
from lpx_kernels.registry import Draw, case, register


def _attention(
    q: Any, k: Any, v: Any, causal: bool = False, mask: Any = None, scale: float | None = None, lengths: Any = None
) -> Any:
    if k.ndim > 2 and k.shape[-3] != q.shape[-3]:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    seen = _seen(int(q.shape[-2]), int(k.shape[-2]), lengths, causal)
    if mask is not None and mask.dtype == np.bool_:
        seen = seen & mask
    elif mask is not None:
        scores = scores + mask
    with np.errstate(invalid="ignore"):
        scores = np.where(seen, scores, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        return powers / powers.sum(-1, keepdims=True) @ v


def _seen(rows: int, columns: int, lengths: Any, causal: bool) -> Any:
    """Which columns [..., m, n] a row may see."""
    counted = columns if lengths is None else np.asarray(lengths)[..., None, None, None]
    row, column = np.arange(rows)[:, None], np.arange(columns)
    return (column < counted) & ((column <= row + counted - rows) | (not causal))


def _rotary_embedding(x: Any, cos: Any, sin: Any, interleaved: bool = False) -> Any:
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    parts = [a * cos - b * sin, a * sin + b * cos]
    return np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)


def _heads(heads: int, rows: int, depth: int, kept: int = 0, columns: int = 0) -> tuple[Draw, Draw, Draw]:
    """q, k and v of one sample."""
    key = Draw((1, kept or heads, columns or rows, depth))
    return Draw((1, heads, rows, depth)), key, key


def _terms(_: Any, k: Any, *__: Any, **___: Any) -> int:
    """Those of a score, and those of a mean of values."""
    return int(k.shape[-1] + k.shape[-2])


attention = register(
    nn.attention,
    "attention",
    _attention,
    case(*_heads(12, 128, 64)),
    case(*_heads(8, 1024, 64), causal=True),
    case(*_heads(32, 512, 128, kept=8), causal=True),
    case(*_heads(32, 1, 128, kept=8, columns=4096), lengths=Draw((1,), "int64", 3000, 3001)),
    terms=_terms,
)
rotary_embedding = register(
    nn.rotary_embedding,
    "attention",
    _rotary_embedding,
    case((1, 32, 512, 128), (512, 64), (512, 64)),
    case((1, 32, 512, 128), (512, 64), (512, 64), interleaved=True),
    tolerance=4.0,  # of differences of two products
)
