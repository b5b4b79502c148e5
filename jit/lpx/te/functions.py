"""Element-wise functions of tensor expressions, one per operation of `lpx.expr.ops`, plus selection and conversion.

Operands are expressions or Python numbers; a number takes the dtype of the expression beside it. Operands of different
dtypes raise DTypeError: nothing but `te.cast` converts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.te.shapes import parse_dtype

Scalar = Expr | bool | int | float
_F = TypeVar("_F", bound=Callable[..., Expr])


def const(value: bool | int | float, dtype: object = None) -> Expr:
    """The constant `value`; without `dtype` bool, int64 or float32 by its Python type."""
    return build.const(value, None if dtype is None else parse_dtype(dtype))


def cast(value: Scalar, dtype: object) -> Expr:
    """`value` converted: to nearest even among floats; float to integer truncates and saturates; integers wrap."""
    return build.cast(value, parse_dtype(dtype))


def bitcast(value: Expr, dtype: object) -> Expr:
    """The bits of `value` seen as another dtype of the same width."""
    return build.bitcast(value, parse_dtype(dtype))


def where(cond: Scalar, a: Scalar, b: Scalar) -> Expr:
    """`a` where `cond` else `b`. Only the side taken reads memory, so `cond` may guard an index of either."""
    return build.select(cond, a, b)


def minimum(a: Scalar, b: Scalar) -> Expr:
    """The smaller operand; NaN when either is NaN."""
    return build.minimum(a, b)


def maximum(a: Scalar, b: Scalar) -> Expr:
    """The larger operand; NaN when either is NaN."""
    return build.maximum(a, b)


def clip(value: Scalar, low: Scalar, high: Scalar) -> Expr:
    """`value` limited to [low, high], `high` winning where the two cross; NaN stays NaN."""
    return build.minimum(build.maximum(value, low), high)


def truncdiv(a: Scalar, b: Scalar) -> Expr:
    """The quotient of integers rounded towards zero, as in C; `//` rounds down."""
    return build.binary("truncdiv", a, b)


def truncmod(a: Scalar, b: Scalar) -> Expr:
    """The remainder of `truncdiv`, with the sign of `a`; `%` has the sign of `b`."""
    return build.binary("truncmod", a, b)


def _unary(name: str, meaning: str) -> Callable[[Scalar], Expr]:
    def apply(x: Scalar) -> Expr:
        return build.call(name, x)

    return _named(apply, name, meaning)


def _binary(name: str, meaning: str) -> Callable[[Scalar, Scalar], Expr]:
    def apply(a: Scalar, b: Scalar) -> Expr:
        return build.call(name, a, b)

    return _named(apply, name, meaning)


def _named(function: _F, name: str, meaning: str) -> _F:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


def fma(a: Scalar, b: Scalar, c: Scalar) -> Expr:
    """A * b + c of floats, rounded once."""
    return build.call("fma", a, b, c)


sqrt = _unary("sqrt", "The square root of a float; NaN below 0.")
floor = _unary("floor", "The largest integer not above a float, as a float.")
ceil = _unary("ceil", "The smallest integer not below a float, as a float.")
trunc = _unary("trunc", "A float rounded towards zero.")
rint = _unary("rint", "A float rounded to the nearest integer, ties to even.")
abs = _unary("abs", "The absolute value of a number; the most negative integer gives itself.")
copysign = _binary("copysign", "The magnitude of a with the sign of b, for floats.")
isnan = _unary("isnan", "Whether a float is NaN.")
isinf = _unary("isinf", "Whether a float is infinite.")
isfinite = _unary("isfinite", "Whether a float is neither infinite nor NaN.")
signbit = _unary("signbit", "Whether the sign bit of a float is set.")
popcount = _unary("popcount", "The number of bits of an integer that are set.")
clz = _unary("clz", "The number of leading zero bits of an integer; its width for 0.")
ctz = _unary("ctz", "The number of trailing zero bits of an integer; its width for 0.")
mulhi = _binary("mulhi", "The upper half of the double-width product of integers.")
unlikely = _unary(
    "unlikely", "A bool, said to be nearly always false: `where(unlikely(c), a, b)` keeps a behind a branch."
)

exp = _unary("exp", "e to the power x.")
exp2 = _unary("exp2", "2 to the power x.")
expm1 = _unary("expm1", "exp(x) - 1, accurate near 0.")
log = _unary("log", "The natural logarithm.")
log2 = _unary("log2", "The logarithm to base 2.")
log10 = _unary("log10", "The logarithm to base 10.")
log1p = _unary("log1p", "log(1 + x), accurate near 0.")
tanh = _unary("tanh", "The hyperbolic tangent.")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)).")
erf = _unary("erf", "The error function.")
erfc = _unary("erfc", "1 - erf(x), accurate for large x.")
rsqrt = _unary("rsqrt", "1 / sqrt(x).")
cbrt = _unary("cbrt", "The cube root.")
sin = _unary("sin", "The sine of radians.")
cos = _unary("cos", "The cosine of radians.")
tan = _unary("tan", "The tangent of radians.")
asin = _unary("asin", "The inverse sine, in radians.")
acos = _unary("acos", "The inverse cosine, in radians.")
atan = _unary("atan", "The inverse tangent, in radians.")
sinh = _unary("sinh", "The hyperbolic sine.")
cosh = _unary("cosh", "The hyperbolic cosine.")
asinh = _unary("asinh", "The inverse hyperbolic sine.")
acosh = _unary("acosh", "The inverse hyperbolic cosine.")
atanh = _unary("atanh", "The inverse hyperbolic tangent.")
pow = _binary("pow", "a to the power b, for floats.")
atan2 = _binary("atan2", "The angle of the point (b, a), in radians.")
hypot = _binary("hypot", "sqrt(a * a + b * b) without overflow on the way.")
fmod = _binary("fmod", "The remainder of a / b truncated, with the sign of a, exact.")
nextafter = _binary("nextafter", "The float next to a in the direction of b.")
