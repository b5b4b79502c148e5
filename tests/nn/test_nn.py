"""`lpx.nn` against NumPy written out, inside compiled functions and outside of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import nn
from lpx.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError

Array = NDArray[Any]
RNG = np.random.default_rng(5)


def normal(*shape: int, dtype: str = "float32") -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def erf(x: Array) -> Array:
    result: Array = np.vectorize(math.erf, otypes=[np.float64])(x)
    return result


def sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def softmax(x: Array, axis: int = -1) -> Array:
    exps = np.exp(x - x.max(axis=axis, keepdims=True))
    result: Array = exps / exps.sum(axis=axis, keepdims=True)
    return result


ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[[Array], Array]]] = {
    "relu": (nn.relu, lambda x: np.maximum(x, 0)),
    "gelu": (nn.gelu, lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))),
    "silu": (nn.silu, lambda x: x * sigmoid(x)),
    "sigmoid": (nn.sigmoid, sigmoid),
    "tanh": (nn.tanh, np.tanh),
    "erf": (nn.erf, erf),
    "softplus": (nn.softplus, lambda x: np.logaddexp(x, 0)),
    "softsign": (nn.softsign, lambda x: x / (1 + np.abs(x))),
    "leaky_relu": (nn.leaky_relu, lambda x: np.where(x < 0, x * 0.01, x)),
    "elu": (nn.elu, lambda x: np.where(x < 0, np.expm1(x), x)),
    "hard_sigmoid": (nn.hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    function, reference = ACTIVATIONS[name]
    for dtype in ("float16", "float32", "float64"):
        x = np.concatenate([np.linspace(-9, 9, 37), [0.0, -0.0, 80.0, -80.0]]).astype(dtype)
        wanted = reference(x.astype(np.float64))
        assert function(x).dtype == x.dtype
        eps = float(np.finfo(dtype).eps)
        np.testing.assert_allclose(function(x).astype(np.float64), wanted, rtol=4 * eps, atol=2 * eps)


def test_gelu_by_tanh() -> None:
    x = normal(7, 5)
    wide = x.astype(np.float64)
    wanted = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(nn.gelu(x, approximate="tanh"), wanted, rtol=1e-5, atol=1e-6)


def test_relu_of_integers_and_nan() -> None:
    assert nn.relu(np.array([-3, 4], np.int8)).tolist() == [0, 4]
    assert np.isnan(nn.relu(np.array([np.nan], np.float32)))[0]


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(axis: int) -> None:
    x = normal(3, 4, 5)
    np.testing.assert_allclose(nn.softmax(x, axis), softmax(x, axis), rtol=2e-6)
    np.testing.assert_allclose(
        nn.log_softmax(x, axis), np.log(softmax(x.astype(np.float64), axis)), rtol=1e-5, atol=1e-6
    )
    assert nn.softmax(x.astype(np.float16), axis).dtype == np.float16


def test_softmax_of_rows_with_infinities() -> None:
    inf, nan = np.inf, np.nan
    rows = np.array([[-inf] * 3, [inf, 0, 1], [inf, inf, 0], [nan, 0, 1], [0, -inf, 0]], np.float32)
    got = nn.softmax(rows)
    assert np.isnan(got[:2]).any(axis=1).all()
    assert np.isnan(got[2:4]).any(axis=1).all()
    np.testing.assert_array_equal(got[4], [0.5, 0, 0.5])


@pytest.mark.parametrize("axis", [-1, (1, 2)])
def test_norms(axis: Any) -> None:
    x = normal(3, 4, 5) * 3 + 1
    gamma, beta = normal(5), normal(5)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=axis, keepdims=True)
    layer = centred / np.sqrt((centred**2).mean(axis=axis, keepdims=True) + 1e-5)
    rms = wide / np.sqrt((wide**2).mean(axis=axis, keepdims=True) + 1e-6)
    np.testing.assert_allclose(nn.layer_norm(x, gamma, beta, axis=axis), layer * gamma + beta, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(nn.layer_norm(x, axis=axis), layer, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(nn.rms_norm(x, gamma, axis=axis), rms * gamma, rtol=1e-5, atol=1e-6)


def test_matmul_and_linear() -> None:
    a, b, bias = normal(2, 3, 4), normal(4, 5), normal(5)
    np.testing.assert_allclose(nn.matmul(a, b), a @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nn.matmul(a, b, bias, "relu"), np.maximum(a @ b + bias, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nn.linear(a, b.T, bias, activation="tanh"), np.tanh(a @ b + bias), rtol=1e-4, atol=1e-6)
    out = np.empty((2, 3, 5), np.float32)
    assert nn.matmul(a, b, out=out) is out
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)


def conv2d(x: Array, w: Array, stride: int, padding: int, dilation: int, groups: int) -> Array:
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    taps = (w.shape[2] - 1) * dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(padded, (taps, taps), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    per = w.shape[0] // groups
    inner = w.shape[1]
    parts = [
        np.einsum("nchwij,mcij->nmhw", windows[:, g * inner : (g + 1) * inner], w[g * per : (g + 1) * per])
        for g in range(groups)
    ]
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize(
    ("channels", "filters", "size", "kernel", "stride", "padding", "dilation", "groups"),
    [
        (3, 4, 9, 3, 1, 1, 1, 1),
        (4, 6, 8, 3, 2, 0, 1, 2),
        (4, 4, 7, 3, 1, 2, 2, 4),
        (2, 3, 5, 1, 1, 0, 1, 1),
        (1, 1, 4, 4, 3, 2, 1, 1),
    ],
)
def test_conv2d(
    channels: int, filters: int, size: int, kernel: int, stride: int, padding: int, dilation: int, groups: int
) -> None:
    x, w = normal(2, channels, size, size), normal(filters, channels // groups, kernel, kernel)
    bias = normal(filters)
    wanted = conv2d(x, w, stride, padding, dilation, groups) + bias[:, None, None]
    got = nn.conv2d(x, w, bias, stride, padding, dilation, groups, activation="relu")
    np.testing.assert_allclose(got, np.maximum(wanted, 0), rtol=1e-4, atol=1e-5)


def test_pools() -> None:
    x = normal(2, 3, 7, 6)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 2), axis=(2, 3))[:, :, ::2, ::1]
    np.testing.assert_array_equal(nn.max_pool(x, (3, 2), (2, 1)), windows.max((-2, -1)))
    np.testing.assert_allclose(nn.avg_pool(x, (3, 2), (2, 1)), windows.mean((-2, -1)), rtol=1e-5, atol=1e-6)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    np.testing.assert_array_equal(
        nn.max_pool(x, 2, padding=1),
        np.lib.stride_tricks.sliding_window_view(padded, (2, 2), axis=(2, 3))[:, :, ::2, ::2].max((-2, -1)),
    )
    ones = np.ones((1, 1, 4, 4), np.float32)
    np.testing.assert_array_equal(nn.avg_pool(ones, 2, padding=1, count_padding=False), np.ones((1, 1, 3, 3)))
    assert nn.avg_pool(ones, 2, padding=1)[0, 0, 0, 0] == 0.25


def attention(q: Array, k: Array, v: Array, visible: Any = True, scale: float | None = None) -> Array:
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = (q.astype(np.float64) @ np.swapaxes(k, -1, -2)) * factor
    result: Array = softmax(np.where(visible, scores, -np.inf)) @ v
    return result


def test_attention() -> None:
    q, k, v = normal(2, 4, 5, 8), normal(2, 4, 6, 8), normal(2, 4, 6, 3)
    np.testing.assert_allclose(nn.attention(q, k, v), attention(q, k, v), rtol=1e-4, atol=1e-6)
    past = np.tril(np.ones((5, 6), bool), 1)
    np.testing.assert_allclose(
        nn.attention(q, k, v, causal=True, scale=0.3), attention(q, k, v, past, 0.3), rtol=1e-4, atol=1e-6
    )
    mask = RNG.random((4, 1, 6)) > 0.3
    mask[..., 0] = True
    np.testing.assert_allclose(nn.attention(q, k, v, mask=mask), attention(q, k, v, mask), rtol=1e-4, atol=1e-6)
    added = np.where(mask, 0, -np.inf).astype(np.float32)
    np.testing.assert_allclose(nn.attention(q, k, v, mask=added), attention(q, k, v, mask), rtol=1e-4, atol=1e-6)


def test_attention_of_grouped_heads() -> None:
    q, k, v = normal(4, 5, 8, dtype="float16"), normal(2, 6, 8, dtype="float16"), normal(2, 6, 8, dtype="float16")
    wide_k, wide_v = (np.repeat(x.astype(np.float64), 2, axis=0) for x in (k, v))
    got = nn.attention(q, k, v)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, attention(q.astype(np.float64), wide_k, wide_v), rtol=2e-3, atol=1e-3)


def test_inside_compiled_functions() -> None:
    w, b = normal(4, 5), normal(5)

    @lpx.jit
    def network(x: Any) -> Any:
        return nn.softmax(nn.layer_norm(nn.gelu(x @ w + b)))

    x = normal(3, 4)
    hidden = x @ w + b
    hidden = hidden * 0.5 * (1 + erf(hidden / math.sqrt(2)))
    hidden = (hidden - hidden.mean(-1, keepdims=True)) / np.sqrt(hidden.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(network(x), softmax(hidden), rtol=1e-4, atol=1e-6)


def test_calls_compile_once_per_kind() -> None:
    compiled: Any = nn.softsign
    before = compiled.compilations
    for _ in range(3):
        nn.softsign(np.ones((2, 11), np.float32))
    assert compiled.compilations == before + 1


IMAGE, SQUARE = np.ones((1, 4, 5, 5), np.float32), np.ones((3, 3), np.float32)
BYTES = SQUARE.astype(np.int8)
SWISH: Any = "swish"
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: nn.softmax(np.arange(3)), DTypeError, r"softmax takes floats, not int64[\s\S]*astype"),
    (lambda: nn.gelu(np.arange(3)), DTypeError, r"gelu takes floats, not int64"),
    (lambda: nn.matmul(SQUARE, SQUARE.astype(np.float64)), DTypeError, r"matmul of float32, float64"),
    (lambda: nn.matmul(SQUARE, SQUARE[:2]), ShapeError, r"matmul of \(3, 3\) and \(2, 3\)"),
    (lambda: nn.matmul(SQUARE, SQUARE, None, SWISH), UnsupportedError, r"no activation 'swish'[\s\S]*relu"),
    (lambda: nn.conv2d(SQUARE, SQUARE), ShapeError, r"conv2d takes an array \[batch, channels, height, width\]"),
    (
        lambda: nn.conv2d(IMAGE, np.ones((2, 3, 3, 3), np.float32)),
        ShapeError,
        r"4 channels and 2 filters of 3 channels",
    ),
    (
        lambda: nn.conv2d(IMAGE, np.ones((2, 4, 3, 3), np.float32), SQUARE),
        ShapeError,
        r"conv2d of 2 channels takes one number per channel, not \(3, 3\)",
    ),
    (lambda: nn.conv2d(IMAGE, np.ones((2, 4, 3, 3), np.float32), stride=0), ShapeError, r"stride is \(0, 0\)"),
    (lambda: nn.max_pool(IMAGE, (1, 2, 3)), ShapeError, r"kernel is \(1, 2, 3\)"),
    (lambda: nn.avg_pool(IMAGE.astype(int), 2), DTypeError, r"avg_pool takes floats"),
    (lambda: nn.attention(SQUARE, SQUARE[:, :2], SQUARE), ShapeError, r"attention of \(3, 3\), \(3, 2\), \(3, 3\)"),
    (lambda: nn.attention(IMAGE[0, :3], IMAGE[0, :2], IMAGE[0, :2]), ShapeError, r"3 heads of q for 2 of k and v"),
    (lambda: nn.layer_norm(SQUARE, axis=2), ShapeError, r"axis 2 is out of range"),
    (
        lambda: nn.matmul_int8(BYTES, BYTES.astype(np.uint8)),
        DTypeError,
        r"matmul_int8 of int8 and uint8[\s\S]*second int8",
    ),
    (lambda: nn.matmul_int8(BYTES, BYTES, SQUARE), DTypeError, r"matmul_int8 in int32 with a bias of int32, float32"),
    (lambda: nn.matmul(SQUARE, SQUARE, residual=SQUARE[:2]), ShapeError, r"\(3, 3\) and \(2, 3\) do not broadcast"),
    (lambda: nn.group_norm(IMAGE, 3), ShapeError, r"group_norm of 4 channels in 3 groups"),
    (lambda: nn.instance_norm(SQUARE[0]), ShapeError, r"instance_norm takes an array \[batch, channels, ...\]"),
    (lambda: nn.batch_norm(IMAGE, SQUARE[0], SQUARE[0]), ShapeError, r"batch_norm of 4 channels takes one number per"),
    (
        lambda: nn.conv_transpose2d(IMAGE, np.ones((3, 4, 2, 2), np.float32)),
        ShapeError,
        r"weights of 3 channels for 4 channels in 1 group",
    ),
    (lambda: nn.conv1d(IMAGE, IMAGE), ShapeError, r"conv1d takes an array \[batch, channels, length\]"),
    (lambda: nn.attention(IMAGE, IMAGE, IMAGE, lengths=SQUARE[0]), DTypeError, r"lengths are float32"),
    (
        lambda: nn.attention(IMAGE, IMAGE, IMAGE, lengths=np.array([1, 2])),
        ShapeError,
        r"lengths of shape \(2,\) for scores \(1, 4, 5, 5\)",
    ),
    (lambda: nn.rotary_embedding(SQUARE, SQUARE, SQUARE), ShapeError, r"the last axis is made of pairs"),
    (
        lambda: nn.rotary_embedding(SQUARE[:, :2], SQUARE, SQUARE),
        ShapeError,
        r"rotary_embedding of \(3, 2\) by angles \(3, 3\)",
    ),
    (lambda: nn.top_k(SQUARE, 4), ShapeError, r"top_k of 4 among 3 elements"),
    (lambda: nn.resize(IMAGE, 0), ShapeError, r"size is \(0, 0\)[\s\S]*at least 1"),
    (lambda: nn.lstm(IMAGE[0], SQUARE, SQUARE), ShapeError, r"lstm of \(4, 5, 5\), \(3, 3\), \(3, 3\)"),
    (
        lambda: nn.gru(IMAGE[0], np.ones((6, 5), np.float32), np.ones((6, 2), np.float32), hidden=SQUARE),
        ShapeError,
        r"gru with a state or bias of shape \(3, 3\)[\s\S]*\(5, 2\)",
    ),
    (lambda: nn.softmax("text"), ArgumentError, r"'text' is not an array"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[m[:30] for *_, m in REFUSED])
def test_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
