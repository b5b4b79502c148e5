"""`lpx.constant`: arrays that a compiled function may take as part of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes
from lpx.frontends.numpy.trace import is_list
from lpx.runtime.foreign import to_numpy


def constant(array: object) -> NDArray[Any]:
    """A read-only copy of an array (NumPy, DLPack, nested lists), which compiled functions take as a constant.

    `lpx.jit` folds captured read-only arrays into the code and packs them as the kernels want them, where it reads
    captured writable ones anew at each call.

    Raises: DTypeError when lpx has no such element type.
    """
    given: NDArray[Any] = np.asarray(array) if is_list(array) else to_numpy(array, "the constant")
    dtypes.parse(given.dtype)
    copy = np.array(given, order="C")
    copy.flags.writeable = False
    return copy
