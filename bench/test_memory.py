"""Operations that move memory: transposes, stencils, copies, gathers, pooling, resizing, broadcast chains.

Next to NumPy, numba and ONNX Runtime in the same run. Bytes are what must at least be read and written.

pytest bench/test_memory.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from bench import peers
from bench.interleave import Array, compare
from bench.peers import prange

import lpx

Nodes = Sequence[tuple[str, Sequence[str], str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Case:
    """One operation: arrays by name, the function for lpx, and how peers do it (numba fills its last argument)."""

    arrays: Mapping[str, Array]
    function: Callable[..., Any]
    numpy: Callable[..., Any] | None = None
    numba: Callable[..., Any] | None = None
    nodes: Nodes | None = None
    constants: Mapping[str, Array] | None = None


def normal(*shape: int) -> Array:
    """Random numbers of float32."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def permutation(shape: Sequence[int], order: tuple[int, ...]) -> Case:
    """A copy with axes in another order."""
    return Case(
        {"x": normal(*shape)},
        lambda x: np.transpose(x, order),
        numpy=lambda x, out: np.copyto(out, x.transpose(order)),
        nodes=[("Transpose", ["x"], "y", {"perm": order})],
    )


def transposed_in_tiles(x: Any, out: Any) -> None:
    """Tiles of 16 x 16, for numba."""
    tile = 16
    for i in prange(x.shape[0] // tile):
        for j in range(x.shape[1] // tile):
            for a in range(tile):
                for b in range(tile):
                    out[j * tile + b, i * tile + a] = x[i * tile + a, j * tile + b]


def five_points(x: Any) -> Any:
    """The mean of each inner element's neighbours and of itself."""
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return (around + x[1:-1, 1:-1]) * np.float32(0.2)


def five_points_in_loops(x: Any, out: Any) -> None:
    """The same for numba."""
    for i in prange(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            around = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
            out[i - 1, j - 1] = (around + x[i, j]) * np.float32(0.2)


def scaled(x: Any, a: Any, b: Any, c: Any) -> Any:
    """Rows and columns joined to a matrix."""
    return np.maximum(x * a[:, None] + b, np.float32(0)) - c[:, None]


def scaled_in_loops(x: Any, a: Any, b: Any, c: Any, out: Any) -> None:
    """The same for numba."""
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = max(x[i, j] * a[i] + b[j], np.float32(0)) - c[i]


def chain(a: Any, b: Any, c: Any) -> Any:
    """Three arrays in, one out."""
    return np.maximum(a * np.float32(2.5) + b, np.float32(0)) * c - a


def chain_in_loops(a: Any, b: Any, c: Any, out: Any) -> None:
    """The same for numba."""
    for i in prange(a.size):
        out[i] = max(a[i] * np.float32(2.5) + b[i], np.float32(0)) * c[i] - a[i]


def rows_in_loops(x: Any, where: Any, out: Any) -> None:
    """Rows of x, for numba."""
    for i in prange(where.size):
        for j in range(x.shape[1]):
            out[i, j] = x[where[i], j]


def elements_in_loops(x: Any, where: Any, out: Any) -> None:
    """Elements of x, for numba."""
    for i in prange(where.size):
        out[i] = x[where[i]]


def windows_of_three(x: Array) -> Any:
    """Maxima of windows of 3 x 3, two elements apart, around the edges as well."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.float32(-np.inf))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows[:, :, ::2, ::2].max(axis=(4, 5))


def resized(mode: str, scale: int) -> Nodes:
    """ONNX's Resize of the last two axes."""
    how = {"mode": mode, "coordinate_transformation_mode": "asymmetric" if mode == "nearest" else "half_pixel"}
    if mode == "nearest":
        how["nearest_mode"] = "floor"
    return [("Resize", ["x", "", "scales"], "y", how)]


IMAGE = (8, 64, 112, 112)
SCALES = {"scales": np.asarray([1, 1, 2, 2], np.float32)}
WHERE = np.random.default_rng(0).integers(0, 4096, 8192)
PLACES = np.random.default_rng(0).integers(0, 1 << 20, 1 << 21)

CASES: dict[str, Case] = {
    "transpose 2048 x 2048": Case(
        {"x": normal(2048, 2048)},
        lambda x: x.T,
        numpy=lambda x, out: np.copyto(out, x.T),
        numba=transposed_in_tiles,
        nodes=[("Transpose", ["x"], "y", {"perm": (1, 0)})],
    ),
    "transpose 1000 x 1500": permutation((1000, 1500), (1, 0)),
    "permute 64 x 128 x 256 by (2, 0, 1)": permutation((64, 128, 256), (2, 0, 1)),
    "permute 64 x 128 x 256 by (0, 2, 1)": permutation((64, 128, 256), (0, 2, 1)),
    "permute 64 x 128 x 256 by (1, 0, 2)": permutation((64, 128, 256), (1, 0, 2)),
    "channels last 8 x 64 x 56 x 56": permutation((8, 64, 56, 56), (0, 2, 3, 1)),
    "channels first 8 x 56 x 56 x 64": permutation((8, 56, 56, 64), (0, 3, 1, 2)),
    "heads 8 x 512 x 12 x 64": permutation((8, 512, 12, 64), (0, 2, 1, 3)),
    "stencil of five points 2048 x 2048": Case({"x": normal(2048, 2048)}, five_points, numba=five_points_in_loops),
    "concat of two 1024 x 2048 by rows": Case(
        {"x": normal(1024, 2048), "y": normal(1024, 2048) + 1},
        lambda x, y: np.concatenate([x, y], axis=0),
        numpy=lambda x, y, out: np.concatenate([x, y], axis=0, out=out),
        nodes=[("Concat", ["x", "y"], "z", {"axis": 0})],
    ),
    "concat of two 2048 x 1024 by columns": Case(
        {"x": normal(2048, 1024), "y": normal(2048, 1024) + 1},
        lambda x, y: np.concatenate([x, y], axis=1),
        numpy=lambda x, y, out: np.concatenate([x, y], axis=1, out=out),
        nodes=[("Concat", ["x", "y"], "z", {"axis": 1})],
    ),
    "slice of 2048 x 2048": Case(
        {"x": normal(2048, 2048)},
        lambda x: x[100:-100, 50:-50],
        numpy=lambda x, out: np.copyto(out, x[100:-100, 50:-50]),
    ),
    "pad of 8 x 64 x 56 x 56": Case(
        {"x": normal(8, 64, 56, 56)},
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))),
        nodes=[("Pad", ["x", "pads"], "y", {})],
        constants={"pads": np.asarray([0, 0, 1, 1, 0, 0, 1, 1])},
    ),
    "take of 8192 rows of 256": Case(
        {"x": normal(4096, 256), "where": WHERE},
        lambda x, where: x[where],
        numpy=lambda x, where, out: np.take(x, where, axis=0, out=out, mode="clip"),
        numba=rows_in_loops,
        nodes=[("Gather", ["x", "where"], "y", {"axis": 0})],
    ),
    "take of 2 million elements": Case(
        {"x": normal(1 << 20), "where": PLACES},
        lambda x, where: x[where],
        numpy=lambda x, where, out: np.take(x, where, out=out, mode="clip"),
        numba=elements_in_loops,
        nodes=[("Gather", ["x", "where"], "y", {"axis": 0})],
    ),
    "max pooling 2 x 2 of 8 x 64 x 112 x 112": Case(
        {"x": normal(*IMAGE)},
        lambda x: lpx.nn.max_pool(x, 2),
        numpy=lambda x: x.reshape(8, 64, 56, 2, 56, 2).max(axis=(3, 5)),
        nodes=[("MaxPool", ["x"], "y", {"kernel_shape": (2, 2), "strides": (2, 2)})],
    ),
    "max pooling 3 x 3 by 2 of 8 x 64 x 112 x 112": Case(
        {"x": normal(*IMAGE)},
        lambda x: lpx.nn.max_pool(x, 3, 2, 1),
        numpy=windows_of_three,
        nodes=[("MaxPool", ["x"], "y", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)})],
    ),
    "average pooling 2 x 2 of 8 x 64 x 112 x 112": Case(
        {"x": normal(*IMAGE)},
        lambda x: lpx.nn.avg_pool(x, 2),
        numpy=lambda x: x.reshape(8, 64, 56, 2, 56, 2).mean(axis=(3, 5)),
        nodes=[("AveragePool", ["x"], "y", {"kernel_shape": (2, 2), "strides": (2, 2)})],
    ),
    "mean of each channel of 8 x 64 x 112 x 112": Case(
        {"x": normal(*IMAGE)},
        lambda x: np.mean(x, axis=(2, 3), keepdims=True),
        nodes=[("GlobalAveragePool", ["x"], "y", {})],
    ),
    "broadcast chain 2048 x 2048": Case(
        {"x": normal(2048, 2048), "a": normal(2048), "b": normal(2048), "c": normal(2048)},
        scaled,
        numba=scaled_in_loops,
    ),
    "max(a * 2.5 + b, 0) * c - a of 4 million": Case(
        {name: normal(1 << 22) + k for k, name in enumerate("abc")}, chain, numba=chain_in_loops
    ),
    "resize by 2, nearest, 8 x 64 x 112 x 112": Case(
        {"x": normal(*IMAGE)},
        lambda x: np.repeat(np.repeat(x, 2, axis=2), 2, axis=3),
        nodes=resized("nearest", 2),
        constants=SCALES,
    ),
}


def candidates_of(case: Case) -> dict[str, Callable[[], Any]]:
    """Everyone who can do it; those that take one write to an array of their own."""
    inputs = list(case.arrays.values())
    compiled = lpx.jit(case.function)
    mine = np.empty_like(compiled(*inputs))
    given = case.numpy or case.function
    theirs, numbas = np.empty_like(mine), np.empty_like(mine)
    takes_out = case.numpy is not None and case.numpy.__code__.co_argcount > len(inputs)

    def numpy() -> Array:
        made = given(*inputs, *([theirs] if takes_out else []))
        return np.asarray(theirs if takes_out else made)

    jitted = None if case.numba is None else peers.njit(case.numba)

    def numba() -> Array:
        if jitted is not None:
            jitted(*inputs, numbas)
        return np.asarray(numbas)

    feed = {**case.arrays, **(case.constants or {})}
    nodes = case.nodes
    return peers.present(
        numpy=numpy,
        numba=None if jitted is None else numba,
        onnxruntime=None if nodes is None else peers.onnx_runtime(nodes, feed, nodes[-1][2]),
        lpx=lambda: compiled(*inputs, out=mine),
    )


@pytest.mark.parametrize("name", CASES)
def test_memory(benchmark: Any, name: str) -> None:
    """One operation by everyone who can do it."""
    case = CASES[name]
    benchmark.group = name
    candidates = candidates_of(case)
    moved = sum(a.nbytes for a in case.arrays.values()) + np.asarray(candidates["lpx"]()).nbytes
    compare(benchmark, candidates, work={"copied bytes": moved / 2})
