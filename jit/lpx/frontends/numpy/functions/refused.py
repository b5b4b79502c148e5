"""Functions that cannot be compiled, and what to use instead."""

from __future__ import annotations

import numpy as np

from lpx.frontends.numpy.registry import REFUSED, Function

_SHAPE = "the result's shape depends on the elements; use a mask: np.where(mask, a, b), np.count_nonzero, or x * mask"
_ORDER = "sort outside of the compiled function and pass the result"
_ASSIGN = "assign: x[...] = value, or x = np.where(mask, value, x)"
_SOLVER = "call it outside of the compiled function and pass the result"


def _refuse(hint: str, *functions: Function) -> None:
    REFUSED.update(dict.fromkeys(functions, hint))


_refuse(_SHAPE, np.nonzero, np.flatnonzero, np.argwhere, np.unique, np.extract, np.compress, np.trim_zeros, np.delete)
_refuse(_SHAPE, np.intersect1d, np.union1d, np.setdiff1d, np.bincount, np.histogram)
_refuse(_ORDER, np.sort, np.argsort, np.lexsort, np.partition, np.argpartition, np.median, np.percentile, np.quantile)
_refuse(
    _SOLVER, np.linalg.inv, np.linalg.solve, np.linalg.det, np.linalg.svd, np.linalg.qr, np.linalg.eig, np.linalg.eigh
)
_refuse(_SOLVER, np.linalg.cholesky, np.linalg.lstsq, np.linalg.pinv, np.linalg.slogdet, np.linalg.eigvals)
_refuse(_ASSIGN, np.copyto, np.put, np.putmask, np.place, np.put_along_axis, np.fill_diagonal)
