"""Functions of scalars that another compiler made: what they compute, and their code.

A program names such a function by an operation of kind `foreign`, whose name has a digest of its code, so that a
program's text identifies it. Whoever interprets or compiles the program finds the rest here.
"""

from __future__ import annotations

from collections.abc import Callable

from lpx.dtypes import DType
from lpx.errors import UnsupportedError
from lpx.expr.ops import Op
from lpx.records import record


@record(eq=False)
class ForeignFunction:
    """A function of scalars of the dtypes `parameters`, without effects, that returns for any operands.

    `meaning` computes it on Python numbers. `definition` is an LLVM module that defines the function `op.name`, with
    bools as `i1`, and needs nothing but intrinsics and the C library.
    """

    op: Op
    parameters: tuple[DType, ...]
    meaning: Callable[..., int | float]
    definition: str


_functions: dict[str, ForeignFunction] = {}


def register_foreign(function: ForeignFunction) -> None:
    """Makes a function known to this process; a second one of its name is the same one."""
    _functions.setdefault(function.op.name, function)


def foreign_function(op: Op) -> ForeignFunction:
    """The function that `op` names. Raises UnsupportedError when this process does not know it."""
    found = _functions.get(op.name)
    if found is None:
        raise UnsupportedError(
            f"the program calls {op.name}, which this process does not know",
            hint="make it known as the program that was printed did: lpx.interop.numba.scalar",
        )
    return found
