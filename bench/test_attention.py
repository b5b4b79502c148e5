"""Attention: 12 heads of 128 positions, 8 causal ones of 1024, next to NumPy in the same run.

pytest bench/test_attention.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bench.interleave import Array, compare

import lpx


def plain(query: Array, key: Array, value: Array, causal: bool) -> Array:
    """Softmax of the scaled products of queries and keys, times the values."""
    scores = query @ key.swapaxes(-1, -2) * np.float32(query.shape[-1] ** -0.5)
    if causal:
        past = np.tri(scores.shape[-1], dtype=np.bool_)
        scores = np.where(past, scores, np.float32(-np.inf))
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return np.asarray(powers @ value)


@pytest.mark.parametrize(("heads", "length", "causal"), [(12, 128, False), (8, 1024, True)])
def test_attention(benchmark: Any, heads: int, length: int, causal: bool) -> None:
    """One call of `lpx.nn.attention`."""
    benchmark.group = f"{'causal ' if causal else ''}attention {heads} x {length} x 64"
    rng = np.random.default_rng(0)
    query, key, value = (rng.standard_normal((1, heads, length, 64), dtype=np.float32) for _ in range(3))
    compiled = lpx.jit(lambda q, k, v: lpx.nn.attention(q, k, v, causal=causal))
    candidates = {
        "numpy": lambda: plain(query, key, value, causal),
        "lpx": lambda: compiled(query, key, value),
    }
    compare(benchmark, candidates, tolerance=1e-4, work={"flop": 4.0 * heads * length * length * 64})
