"""The parts of numba that lpx extends, in one place: numba carries no types."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lpx.errors import UnsupportedError

try:
    numba: Any = import_module("numba")
except ImportError:
    raise UnsupportedError("lpx.interop.numba needs numba", hint="pip install 'lpx[numba]'") from None

arrayobj: Any = import_module("numba.np.arrayobj")
cgutils: Any = import_module("numba.core.cgutils")
errors: Any = import_module("numba.core.errors")
extending: Any = import_module("numba.extending")
ir: Any = import_module("llvmlite.ir")
numpy_support: Any = import_module("numba.np.numpy_support")
templates: Any = import_module("numba.core.typing.templates")
types: Any = import_module("numba.core.types")

if TYPE_CHECKING:

    class CallableType:
        """numba's base of types whose values are called; a type is known by its name."""

        def __init__(self, name: str) -> None: ...

else:

    class CallableType(types.Callable, types.Opaque):
        """A callable without a representation at run time."""
