"""What a function written with NumPy's own operations is compiled into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx

Array = NDArray[np.float32]


def softmax(x: Any) -> Any:
    exps = np.exp(x - x.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("shape", [(6, 40), (2, 12, 16, 16), (2, 3, 17, 17)], ids=str)
@pytest.mark.parametrize("function", [softmax, layer_norm])
def test_steps_of_a_row_share_one_loop(function: Any, shape: tuple[int, ...]) -> None:
    x: Array = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    compiled = lpx.jit(function)
    np.testing.assert_allclose(compiled(x), function(x), rtol=1e-5, atol=1e-6)
    assert len(compiled.lower(x).kernels) == 1
    assert "row by row" in compiled.explain(x)


def test_views_cost_no_kernel() -> None:
    x: Array = np.random.default_rng(0).standard_normal((9, 10), dtype=np.float32)

    def stencil(a: Any) -> Any:
        return a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2].T.T + a[1:-1, 2:]

    compiled = lpx.jit(stencil)
    np.testing.assert_allclose(compiled(x), stencil(x), rtol=1e-6)
    assert len(compiled.lower(x).kernels) == 1
