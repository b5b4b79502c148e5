"""The two binary formats that vector math computes in, and the integers of the same width that hold their bits."""

from __future__ import annotations

from typing import TypeVar

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import InternalError
from lpx.expr.nodes import Expr
from lpx.records import record

T = TypeVar("T")


@record
class Format:
    """A binary floating-point format: `mantissa` stored bits, exponents stored with `bias` added."""

    dtype: DType
    signed: DType
    unsigned: DType
    mantissa: int
    bias: int

    @property
    def is_double(self) -> bool:
        return self.mantissa == 52

    @property
    def rounder(self) -> float:
        """Adding it rounds a number of up to 2**(mantissa - 1) to an integer and leaves that in the lowest bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next number."""
        return 2.0**-self.mantissa

    @property
    def sign_bit(self) -> int:
        """The sign bit as a signed integer."""
        return self.signed.min_value

    def bits_of(self, exponent: int) -> int:
        """The bits of 2**exponent."""
        return (exponent + self.bias) << self.mantissa

    @property
    def exponent_mask(self) -> int:
        """Sign and exponent bits set, as a signed integer."""
        return -1 << self.mantissa

    def pick(self, single: T, double: T) -> T:
        """What belongs to this format of a pair of choices."""
        return double if self.is_double else single


BINARY32 = Format(dtypes.float32, dtypes.int32, dtypes.uint32, mantissa=23, bias=127)
BINARY64 = Format(dtypes.float64, dtypes.int64, dtypes.uint64, mantissa=52, bias=1023)
_FORMATS = {form.dtype: form for form in (BINARY32, BINARY64)}


def format_of(expr: Expr) -> Format:
    """The format of a float32 or float64 expression.

    Raises: InternalError for any other dtype; narrower floats are turned into float32 before.
    """
    form = _FORMATS.get(expr.dtype)
    if form is None:
        raise InternalError(f"vector math computes in float32 and float64, not {expr.dtype}")
    return form
