"""Softmax and normalisations of rows, next to NumPy and ONNX Runtime in the same run.

pytest bench/test_softmax_norms.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bench import peers
from bench.interleave import Array, compare

import lpx

SHAPES = [(1536, 128), (512, 1024), (128, 768), (32, 32000), (2048, 1024)]
IMAGES = (8, 32, 56, 56)
GROUPS = 8
EPSILON = np.float32(1e-5)


def rows(m: int, n: int) -> tuple[Array, Array, Array]:
    """A matrix, and a factor and a shift for each column."""
    rng = np.random.default_rng(0)
    return (rng.standard_normal((m, n), dtype=np.float32), *rng.standard_normal((2, n), dtype=np.float32))


@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_softmax(benchmark: Any, m: int, n: int) -> None:
    """`lpx.nn.softmax` of the rows."""
    benchmark.group = f"softmax {m} x {n}"
    x, _, _ = rows(m, n)
    compiled, mine = lpx.jit(lambda x: lpx.nn.softmax(x, axis=-1)), np.empty_like(x)

    def numpy() -> Array:
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    candidates = peers.present(
        numpy=numpy,
        onnxruntime=peers.onnx_runtime([("Softmax", ["x"], "y", {"axis": -1})], {"x": x}, "y"),
        lpx=lambda: compiled(x, out=mine),
    )
    compare(benchmark, candidates)


@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_log_softmax(benchmark: Any, m: int, n: int) -> None:
    """`lpx.nn.log_softmax` of the rows."""
    benchmark.group = f"log-softmax {m} x {n}"
    x, _, _ = rows(m, n)
    compiled, mine = lpx.jit(lambda x: lpx.nn.log_softmax(x, axis=-1)), np.empty_like(x)

    def numpy() -> Array:
        centred = x - x.max(axis=1, keepdims=True)
        return np.asarray(centred - np.log(np.exp(centred).sum(axis=1, keepdims=True)))

    candidates = peers.present(
        numpy=numpy,
        onnxruntime=peers.onnx_runtime([("LogSoftmax", ["x"], "y", {"axis": -1})], {"x": x}, "y"),
        lpx=lambda: compiled(x, out=mine),
    )
    compare(benchmark, candidates)


@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_layer_norm(benchmark: Any, m: int, n: int) -> None:
    """`lpx.nn.layer_norm` of the rows."""
    benchmark.group = f"layer norm {m} x {n}"
    x, gamma, beta = rows(m, n)
    compiled, mine = lpx.jit(lambda x, g, b: lpx.nn.layer_norm(x, g, b, eps=1e-5)), np.empty_like(x)

    def numpy() -> Array:
        centred = x - x.mean(axis=1, keepdims=True)
        variance = np.square(centred).mean(axis=1, keepdims=True)
        return np.asarray(centred / np.sqrt(variance + EPSILON) * gamma + beta)

    nodes = [("LayerNormalization", ["x", "g", "b"], "y", {"axis": -1, "epsilon": 1e-5})]
    candidates = peers.present(
        numpy=numpy,
        onnxruntime=peers.onnx_runtime(nodes, {"x": x, "g": gamma, "b": beta}, "y"),
        lpx=lambda: compiled(x, gamma, beta, out=mine),
    )
    compare(benchmark, candidates, tolerance=1e-4)


@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_rms_norm(benchmark: Any, m: int, n: int) -> None:
    """`lpx.nn.rms_norm` of the rows."""
    benchmark.group = f"RMS norm {m} x {n}"
    x, gamma, _ = rows(m, n)
    compiled, mine = lpx.jit(lambda x, g: lpx.nn.rms_norm(x, g, eps=1e-5)), np.empty_like(x)

    def numpy() -> Array:
        return np.asarray(x / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + EPSILON) * gamma)

    candidates = {"numpy": numpy, "lpx": lambda: compiled(x, gamma, out=mine)}
    compare(benchmark, candidates, tolerance=1e-4)


def scaled(x: Any, gamma: Any, beta: Any, axes: tuple[int, ...]) -> Any:
    """Centred, divided by the deviation over `axes`, times `gamma` plus `beta`, in NumPy's words."""
    mean = np.mean(x, axis=axes, keepdims=True)
    variance = np.mean(np.square(x - mean), axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + EPSILON) * gamma + beta


def grouped(x: Any, gamma: Any, beta: Any) -> Any:
    """Group normalisation of images, channels first."""
    n, c, h, w = x.shape
    parts = np.reshape(x, (n, GROUPS, c // GROUPS * h * w))
    mean = np.mean(parts, axis=2, keepdims=True)
    variance = np.mean(np.square(parts - mean), axis=2, keepdims=True)
    normal = np.reshape((parts - mean) / np.sqrt(variance + EPSILON), x.shape)
    return normal * gamma + beta


NORMS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "instance": (lambda x, g, b: scaled(x, g, b, (2, 3)), "InstanceNormalization", {"epsilon": 1e-5}),
    "group": (grouped, "GroupNormalization", {"epsilon": 1e-5, "num_groups": GROUPS}),
    "batch": (lambda x, g, b: scaled(x, g, b, (0, 2, 3)), "", {}),
}


@pytest.mark.parametrize("kind", NORMS)
def test_norm_of_images(benchmark: Any, kind: str) -> None:
    """Normalisation of channels, or of groups of them, written in NumPy."""
    function, operator, attrs = NORMS[kind]
    benchmark.group = f"{kind} norm {' x '.join(map(str, IMAGES))}"
    rng = np.random.default_rng(0)
    x = rng.standard_normal(IMAGES, dtype=np.float32)
    gamma, beta = rng.standard_normal((2, IMAGES[1], 1, 1), dtype=np.float32)
    compiled, mine = lpx.jit(function), np.empty_like(x)
    feed = {"x": x, "g": gamma.ravel(), "b": beta.ravel()}
    nodes = [(operator, ["x", "g", "b"], "y", attrs)]
    candidates = peers.present(
        numpy=lambda: np.asarray(function(x, gamma, beta)),
        onnxruntime=peers.onnx_runtime(nodes, feed, "y") if operator == "InstanceNormalization" else None,
        lpx=lambda: compiled(x, gamma, beta, out=mine),
    )
    compare(benchmark, candidates, tolerance=1e-4, work={"copied bytes": float(x.nbytes)})
