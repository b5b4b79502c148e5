"""All that takes minutes: every case in every dtype, and all extents around the edges of vectors and register tiles."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from lpx_kernels import Case, Draw, Kernel, case, kernels
from tests.kernels.cases import CASES, LANES, ROWS
from tests.kernels.checking import check

pytestmark = pytest.mark.long

EDGES = (1, 2, LANES - 1, LANES, LANES + 1, 2 * LANES - 1, 2 * LANES, 2 * LANES + 1, 4 * LANES + 3, 131)
TILES = (1, 3, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS + 1)


def products() -> Iterator[tuple[str, Case]]:
    """Products of matrices: rows, columns and depths, plain and with all that may follow."""
    for m, n, k in itertools.product(TILES, EDGES, (1, 7, LANES + 1)):
        yield "matmul", case((m, k), (k, n))
    for m, n in itertools.product((1, ROWS + 1), (1, LANES + 1, 2 * LANES)):
        yield "matmul", case((m, 19), (19, n), Draw((n,)), "relu", Draw((m, n)))
        yield "linear", case((2, m, 19), (n, 19), Draw((n,)), "tanh")
    for m, n, k in itertools.product((1, ROWS, ROWS + 1), (1, LANES, LANES + 1), (1, 4, 63, 64, 67)):
        yield "matmul_int8", case((m, k), Draw((k, n), "int8", -128, 128))
    for m, n, k in itertools.product((1, ROWS + 1), (1, LANES + 1), (5, 8)):
        for subscripts in ("bik,bkj->bij", "bik,kj->ijb", "kib,bjk->bij"):
            extents = {"b": 2, "i": m, "j": n, "k": k}
            left, right = (tuple(extents[c] for c in term) for term in subscripts.partition("->")[0].split(","))
            yield "einsum", case(subscripts, left, right)
    for k, n in itertools.product((1, 63, 257), EDGES):
        yield "matmul", case((n, k), (k,))
        yield "matmul", case((k,), (k, n))


def convolutions() -> Iterator[tuple[str, Case]]:
    """Images and filters: channels, sizes, taps, strides, paddings, dilations, groups."""
    for channels, filters in itertools.product((1, 3, LANES), (1, LANES - 1, 2 * LANES + 1)):
        for size, taps in itertools.product((1, 7, ROWS + 1), (1, 3)):
            yield "conv2d", case((1, channels, size, size), (filters, channels, taps, taps), padding=taps // 2)
    for stride, padding, dilation, groups in itertools.product((1, 2), (0, 2), (1, 2), (1, 2, 6)):
        windows: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        yield "conv2d", case((2, 6, 9, 11), (6, 6 // groups, 3, 2), Draw((6,)), **windows)
        yield "conv1d", case((2, 6, LANES + 5), (12, 6 // groups, 3), **windows)
        yield "conv3d", case((1, 6, 5, 6, 7), (6, 6 // groups, 2, 3, 2), **windows)
        yield "conv_transpose2d", case((1, 6, 4, 5), (6, 12 // groups, 3, 4), **windows)
    for channels, size, stride in itertools.product((1, LANES, LANES + 1), (1, 7, 2 * LANES + 1), (1, 2)):
        yield (
            "conv2d",
            case((1, channels, size, size), (channels, 1, 3, 3), stride=stride, padding=1, groups=channels),
        )


def rows() -> Iterator[tuple[str, Case]]:
    """Whatever reduces or scans an axis, along rows and columns."""
    for name, (length, axis) in itertools.product(
        ("sum", "mean", "max", "min", "argmax", "cumsum", "softmax", "log_softmax", "layer_norm", "rms_norm"),
        itertools.product(EDGES, (0, 1)),
    ):
        shape = (3, length) if axis else (length, 5)
        yield name, case(shape, axis=axis)
    for name, length in itertools.product(("sort", "relu", "gelu", "silu", "sigmoid", "tanh"), EDGES):
        yield name, case((2, length))


def moves() -> Iterator[tuple[str, Case]]:
    """Whatever moves elements."""
    for m, n in itertools.product(EDGES, EDGES[3:]):
        yield "transpose", case((m, n))
    for axes in itertools.permutations(range(4)):
        yield "transpose", case((2, 3, 5, LANES + 1), axes=axes)
    for n in EDGES:
        yield "concat", case((n, 3), (2, 3), (n + 1, 3))
        yield "concat", case((3, n), (3, 2), (3, n + 1), axis=1)
        yield "pad", case((3, n), widths=((1, 0), (2, 3)))
        yield "gather", case((7, n), Draw((5,), "int64", -7, 7))
        yield "five_point", case((5, n), (), ())
        yield "max_pool", case((1, 2, 5, n), 2, 1, 1)
        yield "avg_pool", case((1, 2, 5, n), 3, 2, 1)
        yield "resize", case((1, 2, 3, n), size=(5, 2 * n), mode="linear")


def heads() -> Iterator[tuple[str, Case]]:
    """Attention: rows, columns, widths, shared heads, lengths."""
    for m, n, causal, kept in itertools.product((1, 5, ROWS + 1), (1, LANES + 1, 67), (False, True), (1, 2, 4)):
        q, key, value = (2, 4, m, 8), Draw((2, kept, n, 8)), Draw((2, kept, n, LANES + 1))
        if not causal or m <= n:  # else the first rows see nothing
            yield "attention", case(q, key, value, causal=causal)
        if m <= n:
            yield "attention", case(q, key, value, causal=causal, lengths=Draw((2,), "int64", m, n + 1))


def _named(group: Iterator[tuple[str, Case]]) -> list[Any]:
    return [pytest.param(kernels()[name], chosen, id=f"{name} {chosen}") for name, chosen in group]


@pytest.mark.parametrize(
    ("kernel", "chosen", "dtype"),
    [
        pytest.param(kernel, chosen, dtype, id=f"{kernel.name} {chosen} {dtype}")
        for kernel in kernels().values()
        for chosen in CASES[kernel.name]
        for dtype in kernel.dtypes
        if "int" not in dtype or chosen.named.get("activation") in (None, "relu")
    ],
)
def test_every_case_in_every_dtype(kernel: Kernel, chosen: Case, dtype: str) -> None:
    check(kernel, chosen, dtype)


@pytest.mark.parametrize(
    ("kernel", "chosen"), _named(itertools.chain(products(), convolutions(), rows(), moves(), heads()))
)
def test_extents_around_edges(kernel: Kernel, chosen: Case) -> None:
    check(kernel, chosen, kernel.dtypes[0])


@pytest.mark.parametrize("kernel", kernels().values(), ids=list(kernels()))
def test_measured_cases(kernel: Kernel) -> None:
    for chosen in kernel.cases:
        check(kernel, chosen, kernel.dtypes[0])
