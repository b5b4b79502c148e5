"""lpx and numba: lpx's kernels inside of `@numba.njit` functions, and `@numba.njit` functions of scalars inside of te.

Where lpx is installed numba finds the first by itself (the entry point `numba_extensions`); else importing this package
makes them known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.interop.numba.lowering import register as register
from lpx.lazy import attributes

if TYPE_CHECKING:
    from lpx.interop.numba.scalars import ScalarFunction as ScalarFunction
    from lpx.interop.numba.scalars import scalar as scalar
else:
    _HOME = "lpx.interop.numba.scalars"
    __getattr__ = attributes(__name__, {"ScalarFunction": _HOME, "scalar": _HOME})

register()
