"""Elementwise chains that one kernel computes, next to NumPy, numba and ONNX Runtime in the same run.

pytest bench/test_elementwise.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pytest
from bench import peak, peers
from bench.interleave import Array, compare, interleave
from bench.peers import prange

import lpx
from lpx import te

CHAIN = peak.COPIED
EXP = 1 << 20
OPTIONS = 1 << 20


def test_chain(benchmark: Any) -> None:
    """max(2 x + 1, 0) - 0.5 x of 4 million elements: as fast as memory."""
    benchmark.group = f"elementwise chain of {CHAIN}"
    x, mine, theirs, parts = (peak.aligned(CHAIN) for _ in range(4))

    def numpy() -> Array:
        np.multiply(x, 2, out=theirs)
        np.add(theirs, 1, out=theirs)
        np.maximum(theirs, 0, out=theirs)
        np.multiply(x, 0.5, out=parts)
        return np.subtract(theirs, parts, out=theirs)

    def loop(x: Any, out: Any) -> Any:
        for i in range(x.size):
            out[i] = max(x[i] * np.float32(2) + np.float32(1), np.float32(0)) - x[i] * np.float32(0.5)
        return out

    a = te.placeholder((CHAIN,), name="x")
    kernel = lpx.build(te.compute((CHAIN,), lambda i: te.maximum(a[i] * 2.0 + 1.0, 0.0) - a[i] * 0.5, name="y"))
    jitted, numbas = peers.njit(loop), peak.aligned(CHAIN)
    candidates = peers.present(
        numpy=numpy,
        numba=None if jitted is None else lambda: jitted(x, numbas),
        lpx=lambda: kernel(x, out=mine),
    )
    compare(benchmark, candidates, work={"copied bytes": 4.0 * CHAIN})


def of_one(x: te.Tensor, _b: te.Tensor, _c: te.Tensor, i: te.Scalar) -> te.Scalar:
    """Reads one array."""
    return te.maximum(x[i] * 2.0 + 1.0, 0.0) - x[i] * 0.5


def of_three(a: te.Tensor, b: te.Tensor, c: te.Tensor, i: te.Scalar) -> te.Scalar:
    """Reads three arrays."""
    return te.maximum(a[i] * 2.5 + b[i], 0.0) * c[i] - a[i]


@pytest.mark.parametrize(("chain", "reads"), [(of_one, 1), (of_three, 3)])
def test_a_chain_is_as_fast_as_copying(chain: Callable[..., te.Scalar], reads: int) -> None:
    """At least 85% of the bytes per second of the faster way to copy, in turns with it.

    Bytes are those read and those written, of arrays; each kernel writes to an array of its own (see `bench.peak`).
    """
    tensors = [te.placeholder((CHAIN,), name=name) for name in "abc"]
    inputs = [peak.aligned(CHAIN) for _ in range(reads)]
    kernel = lpx.build(te.compute((CHAIN,), lambda i: chain(*tensors, i), name="y"))
    copies = [lpx.build(peak.copy(CHAIN, past_caches=way)) for way in (False, True)]
    runs = {
        "chain": partial(kernel, *inputs, out=peak.aligned(CHAIN)),
        "copy": partial(copies[0], inputs[0], out=peak.aligned(CHAIN)),
        "copy past caches": partial(copies[1], inputs[0], out=peak.aligned(CHAIN)),
    }
    seconds = {name: median(measured) for name, measured in interleave(runs).items()}
    copying = 2 / min(seconds["copy"], seconds["copy past caches"])
    share = (reads + 1) / seconds["chain"] / copying
    print(f"\n{share:.0%} of the speed of copying")
    assert share >= 0.85


def test_exp(benchmark: Any) -> None:
    """One mathematical function."""
    benchmark.group = f"exp of {EXP}"
    x = np.random.default_rng(0).standard_normal(EXP, dtype=np.float32)
    mine, theirs = np.empty_like(x), np.empty_like(x)
    a = te.placeholder((EXP,), name="x")
    kernel = lpx.build(te.compute((EXP,), lambda i: te.exp(a[i]), name="y"))
    candidates = peers.present(
        numpy=lambda: np.exp(x, out=theirs),
        onnxruntime=peers.onnx_runtime([("Exp", ["x"], "y", {})], {"x": x}, "y"),
        lpx=lambda: kernel(x, out=mine),
    )
    compare(benchmark, candidates)


def black_scholes(spot: Any, strike: Any, years: Any) -> Any:
    """The price of a call option, by the formula of Black and Scholes (1973), with a rational form of the normal
    distribution (Abramowitz and Stegun 26.2.17).
    """
    rate, volatility = np.float32(0.02), np.float32(0.3)
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility * volatility * np.float32(0.5)) * years) / spread
    discounted = strike * np.exp(-rate * years)
    return spot * normal_below(d1) - discounted * normal_below(d1 - spread)


def normal_below(d: Any) -> Any:
    """The share of a normal distribution below `d`."""
    k = np.float32(1) / (np.float32(1) + np.float32(0.2316419) * np.abs(d))
    series = np.float32(1.330274429) * k - np.float32(1.821255978)
    series = ((series * k + np.float32(1.781477937)) * k - np.float32(0.356563782)) * k + np.float32(0.319381530)
    tail = np.float32(0.39894228) * np.exp(-d * d * np.float32(0.5)) * series * k
    return np.where(d > np.float32(0), np.float32(1) - tail, tail)


def normal_below_in_loops(d: Any) -> Any:
    """`normal_below` of one number, for numba."""
    one = np.float32(1)
    k = one / (one + np.float32(0.2316419) * np.abs(d))
    series = np.float32(1.330274429) * k - np.float32(1.821255978)
    series = ((series * k + np.float32(1.781477937)) * k - np.float32(0.356563782)) * k + np.float32(0.319381530)
    tail = np.float32(0.39894228) * np.exp(-d * d * np.float32(0.5)) * series * k
    return one - tail if d > np.float32(0) else tail


def black_scholes_in_loops(share: Any) -> Any:
    """`black_scholes` for numba, with `normal_below` compiled by it as `share`."""

    def loops(spot: Any, strike: Any, years: Any, out: Any) -> Any:
        rate, volatility = np.float32(0.02), np.float32(0.3)
        drift = rate + volatility * volatility * np.float32(0.5)
        for i in prange(spot.size):
            spread = volatility * np.sqrt(years[i])
            d1 = (np.log(spot[i] / strike[i]) + drift * years[i]) / spread
            discounted = strike[i] * np.exp(-rate * years[i])
            out[i] = spot[i] * share(d1) - discounted * share(d1 - spread)
        return out

    return loops


def test_black_scholes(benchmark: Any) -> None:
    """A formula of logarithms, exponentials and roots, written in NumPy."""
    benchmark.group = f"Black-Scholes of {OPTIONS}"
    rng = np.random.default_rng(0)
    spot, strike = (rng.uniform(50, 150, OPTIONS).astype(np.float32) for _ in range(2))
    years = rng.uniform(0.1, 2, OPTIONS).astype(np.float32)
    compiled, mine, numbas = lpx.jit(black_scholes), *np.empty((2, OPTIONS), np.float32)
    jitted = peers.njit(black_scholes_in_loops(peers.njit(normal_below_in_loops)))
    candidates = peers.present(
        numpy=lambda: black_scholes(spot, strike, years),
        numba=None if jitted is None else lambda: jitted(spot, strike, years, numbas),
        lpx=lambda: compiled(spot, strike, years, out=mine),
    )
    compare(benchmark, candidates, tolerance=1e-4)
