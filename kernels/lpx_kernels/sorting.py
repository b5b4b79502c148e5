"""Elements in order, and the first of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpx import nn
from lpx_kernels.registry import FLOATS, case, register


def _sort(x: Any, axis: int = -1, descending: bool = False) -> tuple[Any, Any]:
    if not descending:
        order = np.argsort(x, axis, kind="stable")
    else:
        flipped = np.flip(x, axis)
        order = np.flip(x.shape[axis] - 1 - np.argsort(flipped, axis, kind="stable"), axis)
    return np.take_along_axis(x, order, axis), order


def _top_k(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Any, Any]:
    values, order = _sort(x, axis, largest)
    first = np.arange(k)
    return np.take(values, first, axis), np.take(order, first, axis)


_DTYPES = (*FLOATS, "int32", "int8")

sort = register(nn.sort, "sorting", _sort, case((256, 256)), case((256, 256), descending=True), dtypes=_DTYPES)
top_k = register(nn.top_k, "sorting", _top_k, case((256, 512), 5), dtypes=_DTYPES)
