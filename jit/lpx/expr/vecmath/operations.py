"""Short names for the primitive operations and bit manipulations that the expansions are written in."""

from __future__ import annotations

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.formats import Format

Operand = Expr | float


def constant(value: float, form: Format) -> Expr:
    """A number of the format."""
    return build.const(value, form.dtype)


def fma(a: Operand, b: Operand, c: Operand) -> Expr:
    """`a * b + c`, rounded once."""
    return build.call("fma", a, b, c)


def magnitude(x: Expr) -> Expr:
    """`|x|`."""
    return build.call("abs", x)


def square_root(x: Expr) -> Expr:
    """The correctly rounded square root."""
    return build.call("sqrt", x)


def with_sign(x: Operand, sign: Expr) -> Expr:
    """`|x|` with the sign of `sign`."""
    return build.call("copysign", x, sign)


def clamp(x: Expr, low: float, high: float) -> Expr:
    """`x` kept within [low, high]; NaN stays NaN."""
    return build.minimum(build.maximum(x, low), high)


def to_bits(x: Expr, form: Format) -> Expr:
    """The bits of a float as a signed integer."""
    return build.bitcast(x, form.signed)


def from_bits(bits: Expr, form: Format) -> Expr:
    """The float of those bits."""
    return build.bitcast(bits, form.dtype)


def power_of_two(shifted: Expr, form: Format) -> Expr:
    """2**(n - bias), where the lowest bits of the float `shifted` hold n and 0 < n < 2 * bias + 1; 0 for n = 0."""
    return from_bits(to_bits(shifted, form) << form.mantissa, form)
