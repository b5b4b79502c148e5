"""Functions and methods against NumPy: axes, keepdims, dtypes, negative axes, odd shapes, sizes of zero.

`EXACT` tables move elements or compute on integers, and agree to the bit; `ROUNDED` ones sum floats in an order of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.frontends.numpy.comparing import ULPS, check_batch

RNG = np.random.default_rng(7)
NAN = RNG.standard_normal((3, 5)).astype(np.float32)
NAN[0, 1] = NAN[2, 0] = np.nan
NAN[:, 3] = np.nan
ARRAYS: Mapping[str, Any] = {
    "x": RNG.standard_normal((3, 5)).astype(np.float32),
    "y": RNG.standard_normal((3, 5)).astype(np.float32),
    "h": RNG.standard_normal((3, 5)).astype(np.float16),
    "d": RNG.standard_normal((2, 3, 4)),
    "i": RNG.integers(-9, 9, (4, 3)).astype(np.int32),
    "u": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "b": RNG.random((2, 5)) > 0.5,
    "z": np.zeros((0, 3), np.float32),
    "s": np.float64(2.5),
    "nan": NAN,
}

EXACT: dict[str, str] = {
    "reductions": """
        np.sum(i), np.sum(i, axis=0), np.sum(i, axis=(-1, 0)), np.sum(u), np.sum(b), np.sum(b, axis=-1, keepdims=True)
        np.sum(i, dtype=np.int8), np.sum(i, initial=3), np.sum(i, where=i > 0), np.sum(z), np.sum(z, axis=0)
        np.sum(z, axis=1)
        np.prod(u + 1), np.prod(i, axis=1), np.prod(z), np.prod(i, axis=0, keepdims=True), np.sum(d, axis=())
        np.max(x), np.max(x, axis=0), np.max(nan, axis=1), np.max(b, axis=0), np.max(i, initial=100)
        np.amax(d, axis=(0, 2))
        np.min(i, axis=1, keepdims=True), np.amin(u), np.min(nan), np.min(x, axis=-1, where=x > 0, initial=9)
        np.max(z, axis=1)
        np.any(x > 0), np.all(x > 0, axis=1), np.any(x, axis=0), np.all(i, keepdims=True), np.any(z)
        np.all(z, axis=0)
        np.any(b, where=b), np.all(b, axis=0, where=~b)
        np.argmax(x), np.argmax(x, axis=0), np.argmax(nan, axis=1), np.argmax(b, axis=0), np.argmax(x, keepdims=True)
        np.argmin(i, axis=-1, keepdims=True), np.argmin(nan), np.argmin(d, axis=1), np.argmax(z, axis=1)
        np.cumsum(i), np.cumsum(i, axis=0), np.cumsum(u, axis=1), np.cumsum(b), np.cumsum(i, dtype=np.int8)
        np.cumsum(z, axis=0)
        np.cumprod(i, axis=1), np.cumprod(u), np.cumulative_sum(i, axis=1, include_initial=True)
        np.cumulative_prod(i, axis=0)
        np.count_nonzero(x > 0), np.count_nonzero(i, axis=1), np.count_nonzero(i, axis=0, keepdims=True)
        np.ptp(i), np.ptp(x, axis=1), np.nansum(i), np.nanmax(nan), np.nanmin(nan, axis=0), np.nanmax(i, axis=1)
    """,
    "shapes": """
        x.reshape(5, 3), x.reshape(-1), np.reshape(x, (1, 15, 1)), d.reshape(6, -1), d.reshape((4, 2, 3))
        z.reshape(3, 0)
        np.ravel(x), x.flatten(), z.ravel(), np.ravel(s), d.reshape(2, 12).reshape(8, 3), d.reshape(3, 2, 2, 2)
        x.T, d.T, d.transpose(1, 0, 2), d.transpose((2, 0, 1)), np.transpose(d, (-1, 0, 1)), d.mT
        np.permute_dims(x, (1, 0))
        np.swapaxes(d, 0, -1), np.moveaxis(d, 0, -1), np.moveaxis(d, (0, 1), (-1, 0)), np.rollaxis(d, 2)
        np.rollaxis(d, 0, 3)
        np.expand_dims(x, 1), np.expand_dims(x, (0, -1)), np.squeeze(x[None]), np.squeeze(x[:, None], axis=1)
        x[None].squeeze(0)
        np.broadcast_to(x, (2, 3, 5)), np.broadcast_to(s, (2, 2)), np.broadcast_arrays(x, x[0], x[:, :1])
        np.atleast_1d(s), np.atleast_2d(x[0]), np.atleast_3d(x), np.atleast_3d(x[0]), np.atleast_1d(x, s)
        np.matrix_transpose(d)
        np.flip(x), np.flip(d, (0, -1)), np.fliplr(x), np.flipud(x), np.rot90(x), np.rot90(x, 2)
        np.rot90(d, -1, (1, 2)), x[::-1]
        np.roll(x, 2), np.roll(x, -1, axis=1), np.roll(x, (1, 2), (0, 1)), np.roll(x, 7, 0), np.roll(x, 1, (0, 1))
        np.roll(z, 1)
        np.shape(x)[0] + u, np.ndim(d) + u, np.size(x) + u, np.size(d, 1) + u, len(x) + u, x.nbytes + i
        x.itemsize + i
    """,
    "joining": """
        np.concatenate([x, y]), np.concatenate([x, y], axis=-1), np.concatenate([x, i[:3]], axis=1)
        np.concat([x, y], axis=None)
        np.concatenate([z, x[:, :3]]), np.concatenate([u, i, u]), np.concatenate([x, y], dtype=np.float64)
        np.stack([x, y]), np.stack([x, y], axis=-1), np.stack([i[0], u[0]]), np.unstack(d), np.unstack(x, axis=1)
        np.vstack([x, y[0]]), np.hstack([x, y]), np.hstack([x[0], y[0]]), np.dstack([x, y])
        np.column_stack([x[:, 0], y])
        np.append(i, 1), np.append(x, y, axis=1), np.block([[x, y], [y, x]]), np.block([x[0], y[0]])
        np.block([[x], [y]])
        np.tile(x, 2), np.tile(x, (2, 1)), np.tile(x[0], (2, 2)), np.tile(x, (2, 1, 3)), np.tile(s, 3), np.tile(x, 0)
        np.repeat(x, 2), np.repeat(x, 3, axis=1), np.repeat(x, [1, 0, 2], axis=0), x.repeat(2, -1), np.repeat(x, 0)
        np.pad(x, 1), np.pad(x, ((1, 2), (0, 3)), constant_values=7)
        np.pad(x, (1, 2), constant_values=((1, 2), (3, 4)))
        np.pad(x, 2, mode="edge"), np.pad(x, 2, mode="reflect"), np.pad(x, (1, 2), mode="wrap")
        np.pad(x, 1, mode="symmetric")
        np.split(x, 5, axis=1), np.split(x, [1, 2]), np.array_split(x, 2), np.array_split(x[0], 3)
        np.array_split(x, [1, -1], 1)
        np.hsplit(x, [1, 3]), np.vsplit(x, 3), np.dsplit(d, 2), np.meshgrid(x[0], y[:, 0])
        np.meshgrid(x[0], i[0], indexing="ij")
        np.meshgrid(x[0], y[:, 0], u[0], sparse=True), np.copy(x), np.unstack(x)[1]
    """,
    "choosing": """
        np.where(x > 0, x, y), np.where(b, 1, 2), np.where(x > 0, x, 0), np.where(i, i, u[:1]), np.where(nan, 1, 0)
        np.select([x > 1, x > 0], [x, y], 7), np.clip(x, -0.5, 0.5), np.clip(i, 0, None), np.clip(x, y, 1)
        x.clip(0, 1)
        np.clip(x, min=0.1), np.clip(nan, 0, 1), i.clip(max=3), np.nan_to_num(nan)
        np.nan_to_num(nan / 0, nan=1, posinf=2)
        np.nan_to_num(i), np.take(x, [2, 0, -1]), np.take(x, [2, 0], axis=0), np.take(x, [[1, 2], [0, -1]], axis=1)
        x.take(1, 0)
        np.take(x, [7, -9], axis=1, mode="wrap"), np.take(x, [7, -9], axis=1, mode="clip")
        np.take(x, i[0] % 3, axis=0)
        np.take_along_axis(x, np.argmax(x, axis=1, keepdims=True), axis=1), np.take_along_axis(x, i[:3] % 5, axis=-1)
        np.take_along_axis(x, np.argmax(x, axis=0)[None], axis=0), np.take_along_axis(x, i[0] % 15, axis=None)
        np.searchsorted(np.array([-1.0, 0, 0, 1, 2]), x), np.searchsorted(np.array([0, 2, 2, 5, 9]), i, side="right")
        np.searchsorted(np.array([1.0]), x[0]), np.searchsorted(np.array([0.0, np.nan]), nan)
        np.searchsorted(z[:, 0], x[0])
        np.isclose(x, x + 1e-9), np.allclose(x, x), np.allclose(x, y), np.isclose(nan, nan, equal_nan=True)
        np.isclose(i, 3)
        np.array_equal(x, x), np.array_equal(x, d), np.array_equal(nan, nan, equal_nan=True), np.array_equiv(x, x[:1])
        np.isposinf(nan / 0), np.isneginf(nan / 0), np.fix(x * 3), np.round(x), np.round(i, -1), np.round(i, 2)
        np.round(h)
    """,
    "making": """
        np.zeros_like(x), np.ones_like(x, dtype=np.int8), np.full_like(x, 3), np.full_like(i, 2.7)
        np.zeros_like(x, shape=(2, 2))
        np.full_like(x, x[0]), np.astype(x, np.int32), x.astype(np.float64), x.astype("int8"), i.astype(bool)
        x.astype(np.float16)
        np.tril(x), np.triu(x, 1), np.tril(d, -1), np.triu(i, -1), np.tril(x[0]), np.diag(x), np.diag(x, 1)
        np.diag(i, -2)
        np.diag(x[0]), np.diag(x[0], 2), np.diag(x[0], -1), np.diagflat(i), np.diagonal(x), np.diagonal(x, offset=2)
        x.diagonal(-1)
        np.diagonal(d, 0, 0, 2), np.diagonal(d, 1, 1, 2), np.diagonal(x, 9), np.linalg.diagonal(d), np.trace(i)
        np.trace(i, offset=1)
        np.trace(u), np.trace(i, dtype=np.int8), np.linalg.trace(i[:3]), np.real(x), x.real, x.conj()
        np.empty_like(d).shape[1] + u
        np.diff(i), np.diff(i, axis=0), np.diff(i, n=2), np.diff(b), np.diff(i, prepend=0), np.diff(u), np.ediff1d(i)
        np.diff(z)
        np.diff(i, append=i[:, :1]), np.ediff1d(i, to_end=[9, 8], to_begin=7), np.result_type(x, 1.0).itemsize + i
    """,
    "integer products": """
        i @ u.T, np.dot(i, u.T), np.dot(i, 2), np.inner(i, u), np.outer(i[0], u), np.vdot(i[:2], u), np.kron(i, u)
        np.tensordot(i, u.T, 1)
        np.einsum("ij,kj->ik", i, u), np.einsum("ij,ij->i", i[:2], u), np.einsum("ij->ji", i), np.einsum("ii", i[:3])
        np.einsum("i,j", i[0], u[0])
        np.einsum("...j,kj->...k", i, u), np.einsum("ij,kj,lj->ikl", i, u, u), np.einsum("ij->", i)
        np.einsum("bi,b", i, i[:, 0]), b @ b.T
        np.cross(i, i[::-1]), np.cross(i, i[0]), np.cross(i[:3].T, i[:3], axisa=0), np.linalg.vecdot(i, i)
        np.linalg.vecdot(i, i, axis=0)
        np.convolve(i[0], i[1]), np.convolve(i.ravel(), u[0], "same"), np.convolve(i[0, :2], i[1], "valid")
        np.correlate(i[0], u[0, :2])
        np.correlate(i[0, :2], i[1], "full"), np.correlate(i.ravel(), u[0], "same"), np.polyval([1, 2, 3], i)
        np.einsum("ijk->kij", d)
    """,
}

ROUNDED: dict[str, str] = {
    "sums": """
        np.sum(x), np.sum(x, axis=0), np.sum(x, axis=-1, keepdims=True), np.sum(h), np.sum(x, dtype=np.float64)
        x.sum(), x.prod()
        np.sum(x, initial=3), np.sum(x, where=x > 0), np.prod(x, axis=1), np.cumsum(x), np.cumsum(d, axis=1)
        np.cumprod(x, axis=0)
        np.mean(x), np.mean(i), np.mean(h, axis=0), np.mean(b), np.mean(z), x.mean(1), np.mean(x, dtype=np.float64)
        np.mean(d, (0, 2))
        np.var(x), np.var(x, axis=1, ddof=1), np.var(i), x.var(keepdims=True), np.var(x, correction=1), np.var(z)
        np.var(h)
        np.std(x, axis=0, keepdims=True), np.std(h), x.std(ddof=1), np.std(i, axis=1), np.nansum(nan)
        np.nansum(nan, axis=1)
        np.nanmean(nan, axis=0), np.nanmean(nan), np.nanprod(nan, axis=1), np.nanvar(nan), np.nanstd(nan, axis=1)
        np.nancumsum(nan)
        np.nanvar(nan, axis=0, ddof=1), np.nancumprod(nan), np.nanmean(i), np.nansum(h), np.average(x), np.trace(x)
        np.add.reduce(x)
        np.average(x, weights=np.abs(y)), np.average(x, axis=1, weights=np.array([1, 2, 3, 4, 5.0]))
        np.average(i, axis=0)
        np.average(x, axis=0, weights=np.abs(y), returned=True), np.average(x, returned=True)
        np.average(x, axis=1, keepdims=True)
        np.trapezoid(x), np.trapezoid(x, dx=0.5, axis=0), np.trapezoid(x[0], np.array([0, 1, 3, 4, 5.0]))
        np.trapezoid(x, y)
    """,
    "products": """
        x @ y.T, x @ y[0], x[0] @ y.T, x[0] @ y[0], d @ d[0].T, d @ d.mT, np.matmul(h, h.T), np.dot(x, y.T)
        np.dot(x[0], y[0])
        np.dot(d, d[0].T), np.vdot(x, y), np.inner(x, y), np.inner(x[0], y[0]), np.outer(x[0], y[1])
        np.outer(x[0], 2), x.dot(2)
        np.tensordot(d, d, axes=([0, 1], [0, 1])), np.tensordot(x, y.T, 1), np.tensordot(x[0], y[0], 0)
        np.kron(x, y[:2])
        np.einsum("ij,kj->ik", x, y), np.einsum("ij,kj,k->i", x, y, y[:, 0]), np.einsum("...ij,...kj->...ik", d, d)
        np.cross(x[:, :3], y[:, :3])
        np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x[0], 1), np.linalg.norm(x, np.inf)
        np.linalg.norm(x, 1)
        np.linalg.norm(x, "fro"), np.linalg.norm(x[0], 3), np.linalg.norm(x, axis=(0, 1), keepdims=True)
        np.linalg.norm(i)
        np.linalg.norm(x, -np.inf), np.linalg.norm(x, axis=0, ord=0), np.linalg.norm(x[0], -np.inf)
        np.linalg.norm(d, axis=(0, 2))
        np.convolve(x[0], y[0]), np.convolve(x[0], y[0, :3], "same"), np.correlate(x[0], y[0, :3]), np.vecdot(x, y)
        np.polyval([1, 2.5, 3], x)
    """,
    "element by element": """
        np.round(x, 2), x.round(1), np.around(h, 1), np.round(x, -1), np.sinc(x)
        np.interp(x, np.array([-1.0, 0, 1, 2]), np.array([3.0, 1, 4, 1]))
        np.interp(i, np.array([-3.0, 5]), np.array([1.0, 2]), left=-7, right=7), x + s, x * 2.5 + 1, x / y, x // 0.3
        x % 0.7, divmod(x, 0.4)
        i / 2, i // 4, -i % 3, divmod(i, -4), i << 2, i >> 1, u ^ 3, ~i, ~b, i & 5, b | False, abs(i), -x, +x, x**2
        2.0**x, i**2, u**u
        np.concatenate([h, x]), h + 1.5, h * s, u * 2.5, u + 1, np.logaddexp(x, y), np.hypot(x, y), np.arctan2(x, y)
        np.exp(x) + np.log(np.abs(y))
    """,
}


def lines(table: str) -> Sequence[str]:
    return [line.strip() for line in table.strip().splitlines()]


@pytest.mark.parametrize("group", EXACT)
def test_exact(group: str) -> None:
    check_batch(lines(EXACT[group]), ARRAYS, ulps=0)


@pytest.mark.parametrize("group", ROUNDED)
def test_rounded(group: str) -> None:
    check_batch(lines(ROUNDED[group]), ARRAYS, ulps=ULPS)
