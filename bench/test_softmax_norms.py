"""Softmax and normalisations, of rows and of images.

pytest bench/test_softmax_norms.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bench.compare import Compare

from lpx.cli.comparison import operations
from lpx.cli.comparison.program import Function, Nodes, Program, normal

SHAPES = [(1536, 128), (512, 1024), (128, 768), (32, 32000), (2048, 1024)]
OF_ROWS = [
    operations.softmax,
    operations.log_softmax,
    operations.layer_norm,
    operations.rms_norm,
]
IMAGES = (8, 32, 56, 56)
GROUPS = 8
EPSILON = 1e-5


@pytest.mark.parametrize(("m", "n"), SHAPES)
@pytest.mark.parametrize("kernel", OF_ROWS, ids=lambda f: f.__name__)
def test_rows(compare: Compare, kernel: Any, m: int, n: int) -> None:
    """One function of each row of a matrix."""
    compare(kernel(m, n))


def scaled(xp: Any, x: Any, gamma: Any, beta: Any, axes: tuple[int, ...]) -> Any:
    """Centred, divided by the deviation over `axes`, times `gamma` plus `beta`."""
    mean = xp.mean(x, axis=axes, keepdims=True)
    variance = xp.mean(xp.square(x - mean), axis=axes, keepdims=True)
    return (x - mean) / xp.sqrt(variance + EPSILON) * gamma + beta


def grouped(xp: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """Group normalisation of images, channels first."""
    n, c, h, w = x.shape
    parts = xp.reshape(x, (n, GROUPS, c // GROUPS * h * w))
    mean = xp.mean(parts, axis=2, keepdims=True)
    variance = xp.mean(xp.square(parts - mean), axis=2, keepdims=True)
    normed = xp.reshape((parts - mean) / xp.sqrt(variance + EPSILON), x.shape)
    return normed * gamma + beta


def instance_in_torch(torch: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """PyTorch's own."""
    return torch.nn.functional.instance_norm(x, weight=gamma.ravel(), bias=beta.ravel(), eps=EPSILON)


def grouped_in_torch(torch: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """PyTorch's own."""
    return torch.nn.functional.group_norm(x, GROUPS, gamma.ravel(), beta.ravel(), EPSILON)


def batch_in_torch(torch: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """PyTorch's own."""
    return torch.nn.functional.batch_norm(x, None, None, gamma.ravel(), beta.ravel(), training=True, eps=EPSILON)


FLAT = [("Reshape", ["g", "flat"], "gamma", {}), ("Reshape", ["b", "flat"], "beta", {})]
OWN: Nodes = [*FLAT, ("InstanceNormalization", ["x", "gamma", "beta"], "y", {"epsilon": EPSILON})]
NORMS: dict[str, tuple[Function, Function, Nodes]] = {
    "instance": (lambda xp, x, g, b: scaled(xp, x, g, b, (2, 3)), instance_in_torch, OWN),
    "group": (grouped, grouped_in_torch, ()),
    "batch": (lambda xp, x, g, b: scaled(xp, x, g, b, (0, 2, 3)), batch_in_torch, ()),
}


@pytest.mark.parametrize("kind", NORMS)
def test_norm_of_images(compare: Compare, kind: str) -> None:
    """Normalisation of channels, or of groups of them, written in NumPy."""
    function, torch, nodes = NORMS[kind]
    channels = (IMAGES[1], 1, 1)
    program = Program(
        f"{kind} norm {' x '.join(map(str, IMAGES))}",
        {"x": normal(*IMAGES), "g": normal(*channels, seed=1), "b": normal(*channels, seed=2)},
        function,
        torch=torch,
        nodes=nodes,
        attributes={"flat": np.asarray([-1])},
        tolerance=1e-4,
    )
    compare(program)
