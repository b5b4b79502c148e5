"""Python's operators on traced arrays: each is the ufunc that it is on an ndarray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from lpx.frontends.numpy.trace import TracedArray


_OF_BOOLS = {
    *(np.bitwise_and, np.bitwise_or, np.bitwise_xor),
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal),
}
"""What Python, too, computes of bools as bools; in all else they are the integers 0 and 1."""


def apply(ufunc: np.ufunc, *operands: object) -> TracedArray:
    """The ufunc of the operands; what Python computes of its own numbers is such a number again."""
    if not all(isinstance(getattr(x, "weak", x), type | bool | int | float) for x in operands):
        return cast("TracedArray", ufunc(*operands))
    numbers = operands if ufunc in _OF_BOOLS else [_as_integer(x) for x in operands]
    result = cast("TracedArray", ufunc(*numbers))
    result.weak = {"b": bool, "f": float}.get(result.dtype.kind, int)
    return result


def _as_integer(number: object) -> object:
    """A bool as an integer; any other number, traced or not, as it is."""
    if isinstance(number, bool):
        return int(number)
    if isinstance(number, ArrayOperators) and getattr(number, "weak", None) is bool:
        return cast("TracedArray", number).astype("int64")
    return number


class ArrayOperators:
    """Arithmetic, comparison and bit operators. Augmented assignment changes an array, and makes a new scalar."""

    __slots__ = ("is_scalar",)
    is_scalar: bool
    """Whether this stands for a number, which is never changed, rather than for an array."""

    __hash__ = object.__hash__

    def _in_place(self, ufunc: np.ufunc, other: object) -> TracedArray:
        if self.is_scalar:
            return apply(ufunc, self, other)
        return cast("TracedArray", ufunc(self, other, out=(self,)))

    def __add__(self, other: object) -> TracedArray:
        return apply(np.add, self, other)

    def __radd__(self, other: object) -> TracedArray:
        return apply(np.add, other, self)

    def __iadd__(self, other: object) -> TracedArray:
        return self._in_place(np.add, other)

    def __sub__(self, other: object) -> TracedArray:
        return apply(np.subtract, self, other)

    def __rsub__(self, other: object) -> TracedArray:
        return apply(np.subtract, other, self)

    def __isub__(self, other: object) -> TracedArray:
        return self._in_place(np.subtract, other)

    def __mul__(self, other: object) -> TracedArray:
        return apply(np.multiply, self, other)

    def __rmul__(self, other: object) -> TracedArray:
        return apply(np.multiply, other, self)

    def __imul__(self, other: object) -> TracedArray:
        return self._in_place(np.multiply, other)

    def __truediv__(self, other: object) -> TracedArray:
        return apply(np.divide, self, other)

    def __rtruediv__(self, other: object) -> TracedArray:
        return apply(np.divide, other, self)

    def __itruediv__(self, other: object) -> TracedArray:
        return self._in_place(np.divide, other)

    def __floordiv__(self, other: object) -> TracedArray:
        return apply(np.floor_divide, self, other)

    def __rfloordiv__(self, other: object) -> TracedArray:
        return apply(np.floor_divide, other, self)

    def __ifloordiv__(self, other: object) -> TracedArray:
        return self._in_place(np.floor_divide, other)

    def __mod__(self, other: object) -> TracedArray:
        return apply(np.remainder, self, other)

    def __rmod__(self, other: object) -> TracedArray:
        return apply(np.remainder, other, self)

    def __imod__(self, other: object) -> TracedArray:
        return self._in_place(np.remainder, other)

    def __divmod__(self, other: object) -> tuple[TracedArray, TracedArray]:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> tuple[TracedArray, TracedArray]:
        return other // self, other % self

    def __matmul__(self, other: object) -> TracedArray:
        return apply(np.matmul, self, other)

    def __rmatmul__(self, other: object) -> TracedArray:
        return apply(np.matmul, other, self)

    def __imatmul__(self, other: object) -> TracedArray:
        return self._in_place(np.matmul, other)

    def __pow__(self, other: object) -> TracedArray:
        return apply(np.power, self, other)

    def __rpow__(self, other: object) -> TracedArray:
        return apply(np.power, other, self)

    def __ipow__(self, other: object) -> TracedArray:
        return self._in_place(np.power, other)

    def __and__(self, other: object) -> TracedArray:
        return apply(np.bitwise_and, self, other)

    def __rand__(self, other: object) -> TracedArray:
        return apply(np.bitwise_and, other, self)

    def __iand__(self, other: object) -> TracedArray:
        return self._in_place(np.bitwise_and, other)

    def __or__(self, other: object) -> TracedArray:
        return apply(np.bitwise_or, self, other)

    def __ror__(self, other: object) -> TracedArray:
        return apply(np.bitwise_or, other, self)

    def __ior__(self, other: object) -> TracedArray:
        return self._in_place(np.bitwise_or, other)

    def __xor__(self, other: object) -> TracedArray:
        return apply(np.bitwise_xor, self, other)

    def __rxor__(self, other: object) -> TracedArray:
        return apply(np.bitwise_xor, other, self)

    def __ixor__(self, other: object) -> TracedArray:
        return self._in_place(np.bitwise_xor, other)

    def __lshift__(self, other: object) -> TracedArray:
        return apply(np.left_shift, self, other)

    def __rlshift__(self, other: object) -> TracedArray:
        return apply(np.left_shift, other, self)

    def __ilshift__(self, other: object) -> TracedArray:
        return self._in_place(np.left_shift, other)

    def __rshift__(self, other: object) -> TracedArray:
        return apply(np.right_shift, self, other)

    def __rrshift__(self, other: object) -> TracedArray:
        return apply(np.right_shift, other, self)

    def __irshift__(self, other: object) -> TracedArray:
        return self._in_place(np.right_shift, other)

    def __neg__(self) -> TracedArray:
        return apply(np.negative, self)

    def __pos__(self) -> TracedArray:
        return apply(np.positive, self)

    def __abs__(self) -> TracedArray:
        return apply(np.absolute, self)

    def __invert__(self) -> TracedArray:
        return apply(np.invert, self)

    def __lt__(self, other: object) -> TracedArray:
        return apply(np.less, self, other)

    def __le__(self, other: object) -> TracedArray:
        return apply(np.less_equal, self, other)

    def __gt__(self, other: object) -> TracedArray:
        return apply(np.greater, self, other)

    def __ge__(self, other: object) -> TracedArray:
        return apply(np.greater_equal, self, other)

    # `Any`, since the data model wants a bool here; on arrays these compare elements.
    def __eq__(self, other: object) -> Any:
        return apply(np.equal, self, other)

    def __ne__(self, other: object) -> Any:
        return apply(np.not_equal, self, other)
