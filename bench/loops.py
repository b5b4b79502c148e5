"""What numba compiles: loops, each of which writes to `out` or returns its result."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from lpx.cli.comparison.libraries import installed

prange: Any = import_module("numba").prange if installed("numba") else range
"""The range of a loop whose iterations numba may share among threads."""


def chain_of_one(x: Any, out: Any) -> None:
    """max(2 x + 1, 0) - 0.5 x."""
    for i in prange(x.size):
        out[i] = max(x[i] * np.float32(2) + np.float32(1), np.float32(0)) - x[i] * np.float32(0.5)


def chain_of_three(a: Any, b: Any, c: Any, out: Any) -> None:
    """max(2.5 a + b, 0) c - a."""
    for i in prange(a.size):
        out[i] = max(a[i] * np.float32(2.5) + b[i], np.float32(0)) * c[i] - a[i]


def broadcast_chain(x: Any, a: Any, b: Any, c: Any, out: Any) -> None:
    """max(x a + b, 0) - c, a and c by rows, b by columns."""
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = max(x[i, j] * a[i] + b[j], np.float32(0)) - c[i]


def black_scholes(spot: Any, strike: Any, years: Any, out: Any) -> None:
    """The price of call options (see `bench/test_elementwise.py`)."""
    one, rate, volatility = np.float32(1), np.float32(0.02), np.float32(0.3)
    drift = rate + volatility * volatility * np.float32(0.5)
    for i in prange(spot.size):
        spread = volatility * np.sqrt(years[i])
        above = (np.log(spot[i] / strike[i]) + drift * years[i]) / spread
        price = np.float32(0)
        for d, weight in ((above, spot[i]), (above - spread, -strike[i] * np.exp(-rate * years[i]))):
            k = one / (one + np.float32(0.2316419) * np.abs(d))
            series = np.float32(1.330274429) * k - np.float32(1.821255978)
            series = ((series * k + np.float32(1.781477937)) * k - np.float32(0.356563782)) * k + np.float32(
                0.319381530
            )
            tail = np.float32(0.39894228) * np.exp(-d * d * np.float32(0.5)) * series * k
            price += weight * (one - tail if d > np.float32(0) else tail)
        out[i] = price


def transposed_in_tiles(x: Any, out: Any) -> None:
    """Tiles of 16 x 16."""
    tile = 16
    for i in prange(x.shape[0] // tile):
        for j in range(x.shape[1] // tile):
            for a in range(tile):
                for b in range(tile):
                    out[j * tile + b, i * tile + a] = x[i * tile + a, j * tile + b]


def five_points(x: Any, out: Any) -> None:
    """The mean of each inner element's neighbours and of itself."""
    for i in prange(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            around = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
            out[i - 1, j - 1] = (around + x[i, j]) * np.float32(0.2)


def rows(x: Any, where: Any, out: Any) -> None:
    """Rows of x."""
    for i in prange(where.size):
        for j in range(x.shape[1]):
            out[i, j] = x[where[i], j]


def elements(x: Any, where: Any, out: Any) -> None:
    """Elements of x."""
    for i in prange(where.size):
        out[i] = x[where[i]]


def column_sums(x: Any) -> Any:
    """Row by row, so that memory is read in order."""
    out = np.zeros(x.shape[1], np.float32)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j] += x[i, j]
    return out


def running_sums(x: Any, out: Any) -> None:
    """Along the rows."""
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
            out[i, j] = total
