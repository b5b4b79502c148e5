"""What each NumPy ufunc is in graph operators. Operands arrive in the ufunc's loop dtypes."""

from __future__ import annotations

import math

from lpx import dtypes
from lpx.frontends.numpy.registry import UfuncRow, ufunc
from lpx.graph.builder import GraphBuilder
from lpx.graph.nodes import Value

# NumPy's name -> the operator of the same meaning
_SAME = {
    "subtract": "sub", "divide": "div", "negative": "neg", "maximum": "max", "minimum": "min", "positive": "identity",
    "conjugate": "identity", "sqrt": "sqrt", "rint": "rint", "fabs": "abs", "copysign": "copysign", "ldexp": "ldexp",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "cbrt": "cbrt",
    "arctan2": "atan2", "hypot": "hypot", "nextafter": "nextafter", "sign": "sign", "invert": "not",
    "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor", "matmul": "matmul",
    "signbit": "signbit",
}  # fmt: skip


def _plain(operator: str) -> UfuncRow:
    def row(builder: GraphBuilder, *operands: Value) -> Value:
        return builder.add(operator, operands)

    return row


for _numpy, _operator in _SAME.items():
    ufunc(_numpy)(_plain(_operator))


def _unless(trivial: str, taken: str, operator: str) -> UfuncRow:
    """`operator`, or the operator `trivial` for operands of the kinds `taken` (of "bool", "int", "uint")."""

    def row(builder: GraphBuilder, *operands: Value) -> Value:
        return builder.add(trivial if operands[0].dtype.kind in taken.split() else operator, operands)

    return row


ufunc("add")(_unless("bitor", "bool", "add"))
ufunc("multiply")(_unless("bitand", "bool", "mul"))
ufunc("absolute")(_unless("identity", "bool uint", "abs"))
for _name in ("floor", "ceil", "trunc"):
    ufunc(_name)(_unless("identity", "bool int uint", _name))


def number(builder: GraphBuilder, value: float, like: Value) -> Value:
    """A constant of the dtype of `like`."""
    return builder.add("full", (), shape=(), value=value, dtype=like.dtype.name)


def _float_test(operator: str, *, of_integers: bool) -> UfuncRow:
    def row(builder: GraphBuilder, x: Value) -> Value:
        if x.dtype.is_float:
            return builder.add(operator, (x,))
        return builder.add("full", (), shape=x.shape, value=of_integers, dtype="bool")

    return row


ufunc("isnan")(_float_test("isnan", of_integers=False))
ufunc("isinf")(_float_test("isinf", of_integers=False))
ufunc("isfinite")(_float_test("isfinite", of_integers=True))


def as_bool(builder: GraphBuilder, x: Value) -> Value:
    """Whether each element is not zero."""
    return x if x.dtype == dtypes.bool_ else builder.add("ne", (x, number(builder, 0, x)))


@ufunc("logical_not")
def _logical_not(builder: GraphBuilder, x: Value) -> Value:
    return builder.add("not", (as_bool(builder, x),))


def _logical(operator: str) -> UfuncRow:
    def row(builder: GraphBuilder, a: Value, b: Value) -> Value:
        return builder.add(operator, (as_bool(builder, a), as_bool(builder, b)))

    return row


ufunc("logical_and")(_logical("bitand"))
ufunc("logical_or")(_logical("bitor"))
ufunc("logical_xor")(_logical("bitxor"))


def _comparison(operator: str, *, swapped: bool = False) -> UfuncRow:
    def row(builder: GraphBuilder, a: Value, b: Value) -> Value:
        left, right = (b, a) if swapped else (a, b)
        if left.dtype == right.dtype:
            return builder.add(operator, (left, right))
        return _compare_mixed(builder, operator, left, right)

    return row


def _compare_mixed(builder: GraphBuilder, operator: str, a: Value, b: Value) -> Value:
    """A comparison of an int64 with a uint64: a negative number is below every unsigned one."""
    signed, unsigned = (a, b) if a.dtype.is_signed else (b, a)
    negative = builder.add("lt", (signed, number(builder, 0, signed)))
    wrapped = builder.add("cast", (signed,), dtype=unsigned.dtype.name)
    both = (wrapped, unsigned) if signed is a else (unsigned, wrapped)
    verdict = operator == "ne" or (operator in ("lt", "le") and signed is a)
    constant = builder.add("full", (), shape=(), value=verdict, dtype="bool")
    return builder.add("where", (negative, constant, builder.add(operator, both)))


ufunc("equal")(_comparison("eq"))
ufunc("not_equal")(_comparison("ne"))
ufunc("less")(_comparison("lt"))
ufunc("less_equal")(_comparison("le"))
ufunc("greater")(_comparison("lt", swapped=True))
ufunc("greater_equal")(_comparison("le", swapped=True))


def _shift(operator: str) -> UfuncRow:
    """A shift by at least the width empties an integer (keeps its sign on the right), as NumPy defines it."""

    def row(builder: GraphBuilder, x: Value, count: Value) -> Value:
        bits = x.dtype.bits
        unsigned = builder.add("cast", (count,), dtype=f"uint{bits}")  # a negative count is a very large one
        inside = builder.add("lt", (unsigned, number(builder, bits, unsigned)))
        last = number(builder, bits - 1, count)
        shifted = builder.add(operator, (x, builder.add("where", (inside, count, last))))
        if operator == "shr" and x.dtype.is_signed:
            return shifted
        return builder.add("where", (inside, shifted, number(builder, 0, x)))

    return row


ufunc("left_shift")(_shift("shl"))
ufunc("right_shift")(_shift("shr"))


@ufunc("square")
def _square(builder: GraphBuilder, x: Value) -> Value:
    return builder.add("mul", (x, x))


@ufunc("reciprocal")
def _reciprocal(builder: GraphBuilder, x: Value) -> Value:
    operator = "div" if x.dtype.is_float else "truncdiv"
    return builder.add(operator, (number(builder, 1, x), x))


def _scaled(factor: float) -> UfuncRow:
    def row(builder: GraphBuilder, x: Value) -> Value:
        return builder.add("mul", (x, number(builder, factor, x)))

    return row


ufunc("degrees", "rad2deg")(_scaled(180 / math.pi))
ufunc("radians", "deg2rad")(_scaled(math.pi / 180))


def _ignoring_nan(operator: str) -> UfuncRow:
    def row(builder: GraphBuilder, a: Value, b: Value) -> Value:
        both = builder.add(operator, (a, b))
        if not a.dtype.is_float:
            return both
        a_or_both = builder.add("where", (builder.add("isnan", (b,)), a, both))
        return builder.add("where", (builder.add("isnan", (a,)), b, a_or_both))

    return row


ufunc("fmax")(_ignoring_nan("max"))
ufunc("fmin")(_ignoring_nan("min"))


@ufunc("fmod")
def _fmod(builder: GraphBuilder, a: Value, b: Value) -> Value:
    return builder.add("fmod" if a.dtype.is_float else "truncmod", (a, b))


def _quotient_and_remainder(builder: GraphBuilder, a: Value, b: Value) -> tuple[Value, Value]:
    if a.dtype.is_float:
        return _float_divmod(builder, a, b)
    return builder.add("floordiv", (a, b)), builder.add("floormod", (a, b))


ufunc("divmod")(_quotient_and_remainder)


@ufunc("floor_divide")
def _floor_divide(builder: GraphBuilder, a: Value, b: Value) -> Value:
    return _quotient_and_remainder(builder, a, b)[0]


@ufunc("remainder")
def _remainder(builder: GraphBuilder, a: Value, b: Value) -> Value:
    return _quotient_and_remainder(builder, a, b)[1]


def _float_divmod(builder: GraphBuilder, a: Value, b: Value) -> tuple[Value, Value]:
    """Python's float division and modulo, as NumPy computes them: from fmod, with the sign of the divisor."""
    add = builder.add
    zero, one = number(builder, 0.0, a), number(builder, 1.0, a)
    truncated = add("fmod", (a, b))
    inexact = add("ne", (truncated, zero))
    opposed = add("bitxor", (add("lt", (b, zero)), add("lt", (truncated, zero))))
    moved = add("bitand", (inexact, opposed))
    modulo = add("where", (moved, add("add", (truncated, b)), truncated))
    modulo = add("where", (inexact, modulo, add("copysign", (zero, b))))
    quotient = add("div", (add("sub", (a, truncated)), b))
    quotient = add("where", (moved, add("sub", (quotient, one)), quotient))
    floored = add("floor", (quotient,))
    far = add("lt", (number(builder, 0.5, a), add("sub", (quotient, floored))))
    nudged = add("where", (far, add("add", (floored, one)), floored))
    signed_zero = add("copysign", (zero, add("div", (a, b))))
    exact = add("where", (add("ne", (quotient, zero)), nudged, signed_zero))
    by_zero = add("eq", (b, zero))
    return add("where", (by_zero, add("div", (a, b)), exact)), add("where", (by_zero, truncated, modulo))


@ufunc("power", "float_power")
def _power(builder: GraphBuilder, a: Value, b: Value) -> Value:
    return builder.add("pow" if a.dtype.is_float else "integer_power", (a, b))


@ufunc("heaviside")
def _heaviside(builder: GraphBuilder, x: Value, at_zero: Value) -> Value:
    add, zero, one = builder.add, number(builder, 0.0, x), number(builder, 1.0, x)
    step = add("where", (add("lt", (x, zero)), zero, add("where", (add("lt", (zero, x)), one, x))))
    return add("where", (add("eq", (x, zero)), at_zero, step))


def _log_add(exp: str, log_of_2: float) -> UfuncRow:
    """log(exp(a) + exp(b)) without overflow: the larger, plus the log of 1 + exp of minus their distance.

    `log_of_2` is the logarithm of 2, in the base of `exp`.
    """

    def row(builder: GraphBuilder, a: Value, b: Value) -> Value:
        add = builder.add
        distance = add("abs", (add("sub", (a, b)),))
        correction = add("log1p", (add(exp, (add("neg", (distance,)),)),))
        if exp == "exp2":
            correction = add("mul", (correction, number(builder, 1 / math.log(2), a)))
        apart = add("add", (add("max", (a, b)), correction))
        equal = add("eq", (a, b))  # two infinities of one sign have distance NaN
        return add("where", (equal, add("add", (a, number(builder, log_of_2, a))), apart))

    return row


ufunc("logaddexp")(_log_add("exp", math.log(2)))
ufunc("logaddexp2")(_log_add("exp2", 1.0))


@ufunc("bitwise_count")
def _bitwise_count(builder: GraphBuilder, x: Value) -> Value:
    magnitude = builder.add("abs", (x,)) if x.dtype.is_signed else x
    return builder.add("cast", (builder.add("popcount", (magnitude,)),), dtype="uint8")


@ufunc("modf")
def _modf(builder: GraphBuilder, x: Value) -> tuple[Value, Value]:
    whole = builder.add("trunc", (x,))
    rest = builder.add("where", (builder.add("isinf", (x,)), number(builder, 0, x), builder.add("sub", (x, whole))))
    return builder.add("copysign", (rest, x)), whole


@ufunc("frexp")
def _frexp(builder: GraphBuilder, x: Value) -> tuple[Value, Value]:
    return builder.add("frexp_mantissa", (x,)), builder.add("frexp_exponent", (x,))


@ufunc("spacing")
def _spacing(builder: GraphBuilder, x: Value) -> Value:
    """The distance to the next float away from 0; of float16, as NumPy has it, to the next larger one."""
    infinity = number(builder, math.inf, x)
    if x.dtype.bits > 16:
        unsigned_zero = builder.add("add", (x, number(builder, 0.0, x)))
        infinity = builder.add("copysign", (infinity, unsigned_zero))
    distance = builder.add("sub", (builder.add("nextafter", (x, infinity)), x))
    return builder.add("where", (builder.add("isfinite", (x,)), distance, number(builder, math.nan, x)))


def _products(a_axes: tuple[bool, bool], b_axes: tuple[bool, bool]) -> UfuncRow:
    """matmul of operands that lack the (row, column) axes marked False, whose axes the result then lacks too."""

    def row(builder: GraphBuilder, a: Value, b: Value) -> Value:
        left = a if all(a_axes) else builder.add("reshape", (a,), shape=(*a.shape[:-1], 1, a.shape[-1]))
        right = b if all(b_axes) else builder.add("reshape", (b,), shape=(*b.shape, 1))
        product = builder.add("matmul", (left, right))
        kept = (*(product.shape[-2:-1] if a_axes[0] else ()), *(product.shape[-1:] if b_axes[1] else ()))
        return builder.add("reshape", (product,), shape=(*product.shape[:-2], *kept))

    return row


ufunc("vecdot")(_products((False, True), (True, False)))
ufunc("matvec")(_products((True, True), (True, False)))
ufunc("vecmat")(_products((False, True), (True, True)))
