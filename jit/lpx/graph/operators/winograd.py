"""Convolution with 3 x 3 filters by Winograd's minimal filtering, as tensor expressions.

A tile of m x m results needs (m + 2)^2 products for each channel instead of 9 m^2: the input tile and the filter are
transformed, multiplied point by point and summed over channels, and the sums are transformed back. After Lavin and
Gray, "Fast Algorithms for Convolutional Neural Networks" (2015); the matrices are those of the points 0, 1, -1 and, for
four results, 2 and -2.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import cast

from lpx import te
from lpx.errors import ShapeError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, ints, operands
from lpx.records import record

Matrix = tuple[tuple[float, ...], ...]


@record
class Algorithm:
    """F(m x m, 3 x 3): matrices that transform a column of the input, of the filter, and of the sums.

    `error` bounds the largest error of a result relative to the largest magnitude among the results, in float32 and for
    up to 512 channels of normally distributed numbers.
    """

    results: int
    of_input: Matrix = field(repr=False)
    of_filter: Matrix = field(repr=False)
    of_sums: Matrix = field(repr=False)
    error: float

    @property
    def points(self) -> int:
        """Points of a column, m + 2."""
        return self.results + 2


F2 = Algorithm(
    2,
    ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    ((1, 1, 1, 0), (0, 1, -1, -1)),
    5e-6,
)
F4 = Algorithm(
    4,
    (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
    (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
    ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
    5e-5,
)
ALGORITHMS = {F2.results: F2, F4.results: F4}


def _define_winograd(inputs: Inputs, attrs: Attrs) -> Outputs:
    """`conv` of x[N, C, H, W] with w[M, C, 3, 3], strides and dilations 1, by tiles of `results` x `results`.

    `pads_before` and `pads_after` as for `conv`. Not exact: see `Algorithm.error`.
    """
    x, w = operands(inputs)
    algorithm = ALGORITHMS[cast("int", attrs["results"])]
    if x.rank != 4 or w.rank != 4 or tuple(w.shape[2:]) != (3, 3) or x.dtype != w.dtype:
        raise ShapeError("Winograd's algorithm takes images [N, C, H, W] and filters [M, C, 3, 3] of one dtype")
    batch, channels, height, width = shapes.static(x.shape, "an image")
    before, after = ints(attrs, "pads_before"), ints(attrs, "pads_after")
    size = [d + b + a - 2 for d, b, a in zip((height, width), before, after, strict=True)]
    tiles = [-(-d // algorithm.results) for d in size]
    turned = _turned(x, tiles, before, algorithm)
    points = _points(turned, tiles, channels, algorithm)
    filters = _filters(w, algorithm)
    sums = _products(points, filters, channels)
    finished = _tiles(sums, tiles, algorithm)

    def at(n: Expr, f: Expr, i: Expr, j: Expr) -> Expr:
        return finished[n, i, j, f]

    return (te.compute((batch, w.shape[0], *size), at, name="winograd"),)


def _turned(x: te.Tensor, tiles: Sequence[int], before: Sequence[int], algorithm: Algorithm) -> te.Tensor:
    """The input with zeros around it, channels last: [N, rows, columns, C], as many as all tiles reach."""
    batch, channels, height, width = shapes.static(x.shape, "an image")
    top, left = before
    rows, columns = (n * algorithm.results + 2 for n in tiles)

    def padded(n: Expr, c: Expr, i: Expr, j: Expr) -> Expr:
        inside = (i >= top) & (i < height + top) & (j >= left) & (j < width + left)
        return build.select(inside, x[n, c, i - top, j - left], build.const(0, x.dtype))

    image = te.compute((batch, channels, rows, columns), padded, name="winograd_padded")
    return te.compute((batch, rows, columns, channels), lambda n, i, j, c: image[n, c, i, j], name="winograd_turned")


def _points(image: te.Tensor, tiles: Sequence[int], channels: int, algorithm: Algorithm) -> te.Tensor:
    """Transformed tiles of the input: [point row, point column, N, tile row, tile column, C]."""
    batch, m, size = image.shape[0], algorithm.results, algorithm.points
    matrix = algorithm.of_input

    def rows(n: Expr, p: Expr, q: Expr, a: Expr, j: Expr, c: Expr) -> Expr:
        return _combined(matrix, a, lambda i: image[n, p * m + i, q * m + j, c], image)

    half = te.compute((batch, *tiles, size, size, channels), rows, name="winograd_rows")

    def both(a: Expr, b: Expr, n: Expr, p: Expr, q: Expr, c: Expr) -> Expr:
        return _combined(matrix, b, lambda j: half[n, p, q, a, j, c], image)

    return te.compute((size, size, batch, *tiles, channels), both, name="winograd_points")


def _filters(w: te.Tensor, algorithm: Algorithm) -> te.Tensor:
    """Transformed filters: [point row, point column, C, M]."""
    filters, channels = w.shape[:2]
    size, matrix = algorithm.points, algorithm.of_filter

    def rows(a: Expr, s: Expr, c: Expr, f: Expr) -> Expr:
        return _combined(matrix, a, lambda r: w[f, c, r, s], w)

    half = te.compute((size, 3, channels, filters), rows, name="winograd_filter_rows")

    def both(a: Expr, b: Expr, c: Expr, f: Expr) -> Expr:
        return _combined(matrix, b, lambda s: half[a, s, c, f], w)

    return te.compute((size, size, channels, filters), both, name="winograd_filters")


def _products(points: te.Tensor, filters: te.Tensor, channels: int) -> te.Tensor:
    """Sums over channels, point by point: [point row, point column, N, tile row, tile column, M]."""
    c = te.reduce_axis(channels, name="c")

    def at(a: Expr, b: Expr, n: Expr, p: Expr, q: Expr, f: Expr) -> Expr:
        return te.sum(points[a, b, n, p, q, c] * filters[a, b, c, f], axis=c)

    return te.compute((*points.shape[:-1], filters.shape[-1]), at, name="winograd_products")


def _tiles(sums: te.Tensor, tiles: Sequence[int], algorithm: Algorithm) -> te.Tensor:
    """Results of whole tiles, filters last: [N, rows, columns, M]."""
    size, m, matrix = algorithm.points, algorithm.results, algorithm.of_sums
    batch, filters = sums.shape[2], sums.shape[-1]

    def rows(n: Expr, p: Expr, q: Expr, i: Expr, b: Expr, f: Expr) -> Expr:
        return _combined(matrix, i, lambda a: sums[a, b, n, p, q, f], sums)

    half = te.compute((batch, *tiles, m, size, filters), rows, name="winograd_sums")

    def both(n: Expr, i: Expr, j: Expr, f: Expr) -> Expr:
        return _combined(matrix, j % m, lambda b: half[n, i // m, j // m, i % m, b, f], sums)

    return te.compute((batch, *(n * m for n in tiles), filters), both, name="winograd_tiles")


def _combined(matrix: Matrix, row: Expr, element: Callable[[int], Expr], like: te.Tensor) -> Expr:
    """The sum of a row of `matrix` times the elements of a column, without the terms that are zero."""

    def term(k: int, weight: float) -> Expr:
        return (
            element(k) if weight == 1 else -element(k) if weight == -1 else element(k) * build.const(weight, like.dtype)
        )

    def of(weights: Sequence[float]) -> Expr:
        first, *others = (term(k, weight) for k, weight in enumerate(weights) if weight)
        return functools.reduce(operator.add, others, first)

    value = of(matrix[-1])
    for k in reversed(range(len(matrix) - 1)):
        value = build.select(row == k, of(matrix[k]), value)
    return value


register(Operator("winograd_conv", "contraction", _define_winograd))
