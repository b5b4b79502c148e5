"""Operations that move memory: transposes, stencils, copies, gathers, pooling, resizing.

Rates are of what must at least be read and written.

pytest bench/test_memory.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bench import loops
from bench.compare import Compare

import lpx
from lpx.cli.comparison.operations import permute, transpose
from lpx.cli.comparison.program import Array, Program, aligned_copy, normal

IMAGE = (8, 64, 112, 112)
SCALES = {"scales": np.asarray([1, 1, 2, 2], np.float32)}
WHERE = aligned_copy(np.random.default_rng(0).integers(0, 4096, 8192))
PLACES = aligned_copy(np.random.default_rng(0).integers(0, 1 << 20, 1 << 21))


def five_points(_xp: Any, x: Any) -> Any:
    """The mean of each inner element's neighbours and of itself."""
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return (around + x[1:-1, 1:-1]) * 0.2


def windows_of_three(x: Array) -> Any:
    """Maxima of windows of 3 x 3, two elements apart, around the edges as well."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.float32(-np.inf))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows[:, :, ::2, ::2].max(axis=(4, 5))


def pooled_by_jax(kind: str, window: int, stride: int, pad: int = 0) -> Any:
    """Windows over the last two axes."""

    def pool(jax: Any, x: Any) -> Any:
        start, step = (-np.inf, jax.lax.max) if kind == "max" else (0.0, jax.lax.add)
        pads = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        reduced = jax.lax.reduce_window(
            x, np.float32(start), step, (1, 1, window, window), (1, 1, stride, stride), pads
        )
        return reduced if kind == "max" else reduced / window**2

    return pool


def doubled(torch: Any, x: Any) -> Any:
    """Each pixel four times."""
    return torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")


def joined(axis: int, rows: int, columns: int) -> Program:
    """Two matrices as one."""
    return Program(
        f"concat of two {rows} x {columns} by {('rows', 'columns')[axis]}",
        {"x": normal(rows, columns), "y": normal(rows, columns, seed=1)},
        lambda xp, x, y: xp.concatenate([x, y], axis=axis),
        numpy=lambda x, y, out: np.concatenate([x, y], axis=axis, out=out),
        torch=lambda torch, x, y, out: torch.cat([x, y], axis, out=out),
        nodes=[("Concat", ["x", "y"], "z", {"axis": axis})],
    )


PROGRAMS = [
    permute((2048, 2048), (1, 0), name="transpose 2048 x 2048", numba=loops.transposed_in_tiles),
    transpose(1000, 1500),
    permute((64, 128, 256), (2, 0, 1)),
    permute((64, 128, 256), (0, 2, 1)),
    permute((64, 128, 256), (1, 0, 2)),
    permute((8, 64, 56, 56), (0, 2, 3, 1), name="channels last 8 x 64 x 56 x 56"),
    permute((8, 3, 224, 224), (0, 2, 3, 1), name="channels last 8 x 3 x 224 x 224"),
    permute((8, 56, 56, 64), (0, 3, 1, 2), name="channels first 8 x 56 x 56 x 64"),
    permute((8, 512, 12, 64), (0, 2, 1, 3), name="heads 8 x 512 x 12 x 64"),
    Program(
        "stencil of five points 2048 x 2048",
        {"x": normal(2048, 2048)},
        five_points,
        numba=loops.five_points,
        flop=5.0 * 2046 * 2046,
    ),
    joined(0, 1024, 2048),
    joined(1, 2048, 1024),
    Program(
        "slice of 2048 x 2048",
        {"x": normal(2048, 2048)},
        lpx=lambda x: x[100:-100, 50:-50],
        numpy=lambda x, out: np.copyto(out, x[100:-100, 50:-50]),
        torch=lambda torch, x: x[100:-100, 50:-50].contiguous(),
        jax=lambda jax, x: x[100:-100, 50:-50],
    ),
    Program(
        "pad of 8 x 64 x 56 x 56",
        {"x": normal(8, 64, 56, 56)},
        lambda xp, x: xp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))),
        torch=lambda torch, x: torch.nn.functional.pad(x, (1, 1, 1, 1)),
        nodes=[("Pad", ["x", "pads"], "y", {})],
        attributes={"pads": np.asarray([0, 0, 1, 1, 0, 0, 1, 1])},
    ),
    Program(
        "take of 8192 rows of 256",
        {"x": normal(4096, 256), "where": WHERE},
        lambda xp, x, where: x[where],
        numpy=lambda x, where, out: np.take(x, where, axis=0, out=out, mode="clip"),
        numba=loops.rows,
        torch=lambda torch, x, where, out: torch.index_select(x, 0, where, out=out),
        nodes=[("Gather", ["x", "where"], "y", {"axis": 0})],
    ),
    Program(
        "take of 2 million elements",
        {"x": normal(1 << 20), "where": PLACES},
        lambda xp, x, where: x[where],
        numpy=lambda x, where, out: np.take(x, where, out=out, mode="clip"),
        numba=loops.elements,
        torch=lambda torch, x, where, out: torch.index_select(x, 0, where, out=out),
        nodes=[("Gather", ["x", "where"], "y", {"axis": 0})],
    ),
    Program(
        "max pooling 2 x 2 of 8 x 64 x 112 x 112",
        {"x": normal(*IMAGE)},
        lpx=lambda x: lpx.nn.max_pool(x, 2),
        numpy=lambda x: x.reshape(8, 64, 56, 2, 56, 2).max(axis=(3, 5)),
        torch=lambda torch, x: torch.nn.functional.max_pool2d(x, 2),
        jax=pooled_by_jax("max", 2, 2),
        nodes=[("MaxPool", ["x"], "y", {"kernel_shape": (2, 2), "strides": (2, 2)})],
    ),
    Program(
        "max pooling 3 x 3 by 2 of 8 x 64 x 112 x 112",
        {"x": normal(*IMAGE)},
        lpx=lambda x: lpx.nn.max_pool(x, 3, 2, 1),
        numpy=windows_of_three,
        torch=lambda torch, x: torch.nn.functional.max_pool2d(x, 3, 2, 1),
        jax=pooled_by_jax("max", 3, 2, 1),
        nodes=[("MaxPool", ["x"], "y", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)})],
    ),
    Program(
        "average pooling 2 x 2 of 8 x 64 x 112 x 112",
        {"x": normal(*IMAGE)},
        lpx=lambda x: lpx.nn.avg_pool(x, 2),
        numpy=lambda x: x.reshape(8, 64, 56, 2, 56, 2).mean(axis=(3, 5)),
        torch=lambda torch, x: torch.nn.functional.avg_pool2d(x, 2),
        jax=pooled_by_jax("average", 2, 2),
        nodes=[("AveragePool", ["x"], "y", {"kernel_shape": (2, 2), "strides": (2, 2)})],
    ),
    Program(
        "mean of each channel of 8 x 64 x 112 x 112",
        {"x": normal(*IMAGE)},
        lambda xp, x: xp.mean(x, axis=(2, 3), keepdims=True),
        nodes=[("GlobalAveragePool", ["x"], "y", {})],
    ),
    Program(
        "resize by 2, nearest, 8 x 64 x 112 x 112",
        {"x": normal(*IMAGE)},
        lambda xp, x: xp.repeat(xp.repeat(x, 2, axis=2), 2, axis=3),
        torch=doubled,
        nodes=[
            (
                "Resize",
                ["x", "", "scales"],
                "y",
                {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
            )
        ],
        attributes=SCALES,
    ),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_memory(compare: Compare, program: Program) -> None:
    """One operation by everyone who can do it."""
    compare(program)
