"""lpx and numba: lpx's kernels inside of `@numba.njit` functions, and `@numba.njit` functions of scalars inside of te.

Where lpx is installed numba finds the first by itself (the entry point `numba_extensions`); else importing this package
makes them known.
"""

from __future__ import annotations

from lpx.interop.numba.lowering import register

register()
