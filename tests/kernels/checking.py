"""One call of a kernel, compared with its reference."""

from __future__ import annotations

from lpx_kernels import Case, Kernel
from lpx_kernels.registry import as_tuple


def check(kernel: Kernel, case: Case, dtype: str) -> None:
    """The results are right, and floats have the dtype of the call."""
    positional, named = case.arguments(dtype)
    got = kernel.function(*positional, **named)
    assert kernel.error(got, kernel.wanted(positional, named)) <= kernel.allowed(positional, named)
    for result in as_tuple(got):
        assert result.dtype.kind not in "fV" or result.dtype.name == dtype
