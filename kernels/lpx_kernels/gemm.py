"""Products of matrices: all layouts, batches, vectors; fused bias, activation and residual; integers of eight bits."""

from __future__ import annotations

from typing import Any

import numpy as np

import lpx
from lpx import nn
from lpx_kernels.activations import activated
from lpx_kernels.registry import FLOATS, Draw, case, register


def _matmul(a: Any, b: Any, bias: Any = 0, activation: Any = None, residual: Any = 0) -> Any:
    return activated(a @ b + bias + residual, activation)


def _linear(x: Any, weight: Any, bias: Any = 0, activation: Any = None, residual: Any = 0) -> Any:
    return _matmul(x, weight.T, bias, activation, residual)


def _matmul_int8(a: Any, b: Any, bias: Any = None, scale: Any = None, zero_point: int = 0, dtype: str = "int8") -> Any:
    total = a.astype(np.int32) @ b.astype(np.int32)
    if bias is not None:
        total = total + bias
    if scale is None:
        return total
    limits = np.iinfo(dtype)
    whole = np.rint(total.astype(np.float32) * np.asarray(scale, np.float32)).astype(np.float64) + zero_point
    return np.clip(whole, limits.min, limits.max).astype(dtype)


@lpx.jit(static=("subscripts",))
def einsum(subscripts: str, *operands: Any) -> Any:
    """Sums of products by labels, as np.einsum: einsum("bij,bjk->bik", a, b). Operands are multiplied from the left."""
    return np.einsum(subscripts, *operands)


def _depth(a: Any, _b: Any, *_: Any, **__: Any) -> int:
    return int(a.shape[-1])


def _largest(_: str, *operands: Any) -> int:
    return max(int(x.size) for x in operands)


_CUBES = [case((n, n), (n, n)) for n in (128, 512, 1024, 2048)]
_LAYERS = [
    case((m, k), (k, n), bias=Draw((n,)), activation="gelu") for m, k, n in ((128, 768, 3072), (512, 1024, 4096))
]
_BYTES = {"low": -128, "high": 128}

matmul = register(
    nn.matmul,
    "gemm",
    _matmul,
    *_CUBES,
    *_LAYERS,
    case((128, 3072), (3072, 768), bias=Draw((768,)), residual=Draw((128, 768))),
    case((4, 768), (768, 768)),
    case((333, 777), (777, 129)),
    case((12, 128, 64), (12, 64, 128)),
    case((4096, 4096), (4096,)),
    case((4096,), (4096, 4096)),
    dtypes=(*FLOATS, "int32"),
    terms=_depth,
)
linear = register(
    nn.linear,
    "gemm",
    _linear,
    case((128, 768), (3072, 768), Draw((3072,)), activation="gelu"),
    case((1, 4096), (4096, 4096)),
    terms=_depth,
)
matmul_int8 = register(
    nn.matmul_int8,
    "gemm",
    _matmul_int8,
    *(case((n, n), Draw((n, n), "int8", **_BYTES)) for n in (512, 1024)),
    case((128, 768), Draw((768, 3072), "int8", **_BYTES), scale=Draw((3072,), "float32", 0.0, 1e-3), zero_point=3),
    dtypes=("int8", "uint8"),
)
register(
    einsum,
    "gemm",
    np.einsum,
    case("bhqd,bhkd->bhqk", (2, 12, 128, 64), (2, 12, 128, 64)),
    case("ij,jk,kl->il", (256, 512), (512, 512), (512, 256)),
    terms=_largest,
)
