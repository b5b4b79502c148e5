"""What a kernel takes and returns: its parameters, their shapes, and the messages of its run-time checks."""

from __future__ import annotations

from typing import Literal

from lpx.dtypes import DType
from lpx.errors import InternalError
from lpx.records import record

Role = Literal["in", "inout", "out", "bound"]
Dimension = int | str


@record
class Parameter:
    """One buffer of a kernel, C-contiguous and aligned to its element.

    A dimension is an extent or the name of a symbolic one. Roles: `in` is read, `inout` is read and written, `out` is
    only written (whatever it held before does not matter) and is allocated when the caller gives none; `bound` is no
    argument but an array fixed when the kernel is linked.
    """

    name: str
    dtype: DType
    shape: tuple[Dimension, ...]
    role: Role = "in"

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@record
class Signature:
    """The buffers of a kernel in the order of its slots, then its symbolic extents.

    A call passes the `in` and `inout` parameters in this order, then perhaps the `out` ones (or `out=`). `extents` name
    the symbolic extents that arguments bind, in slot order. `derived` extents occur in `out` shapes only and are
    computed from `extents` by the kernel's derive function (see `Specialisation`). `checks[k - 1]` is the message of
    status k.

    Raises InternalError for a symbolic dimension that nothing binds.
    """

    name: str
    parameters: tuple[Parameter, ...]
    extents: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        bound = {dimension for parameter in self.inputs for dimension in parameter.shape}
        for extent in self.extents:
            if extent not in bound:
                raise InternalError(f"extent {extent} of {self.name} occurs in the shape of no argument")
        known = {*self.extents, *self.derived}
        for parameter in self.parameters:
            allowed = known if parameter.role == "out" else self.extents
            for dimension in parameter.shape:
                if isinstance(dimension, str) and dimension not in allowed:
                    raise InternalError(
                        f"extent {dimension} of {parameter} in {self.name} is not bound by any argument"
                    )

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        """Parameters a call must give, in call order."""
        return tuple(parameter for parameter in self.parameters if parameter.role in ("in", "inout"))

    @property
    def outputs(self) -> tuple[Parameter, ...]:
        """Parameters a call returns."""
        return tuple(parameter for parameter in self.parameters if parameter.role == "out")

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.inputs))
        results = ", ".join(map(str, self.outputs))
        return f"{self.name}({arguments}) -> ({results})"
