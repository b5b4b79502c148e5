"""Memory for arrays that are read as long as a kernel lives: in pages as large as the system has."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

HUGE_PAGE = 2 << 20
"""Bytes of a large page on every system that has them; elsewhere only an alignment."""


def lasting_empty(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """An array of unset elements. From one large page on it has pages of its own, never used before.

    NumPy reuses memory that it has in small pages; walking through megabytes of those, a kernel waits for addresses to
    be translated.
    """
    size = prod(shape) * np.dtype(dtype).itemsize
    if size < HUGE_PAGE:
        return np.empty(shape, dtype)
    memory = mmap.mmap(-1, size + HUGE_PAGE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    first = -whole.ctypes.data % HUGE_PAGE
    return whole[first : first + size].view(dtype).reshape(shape)
