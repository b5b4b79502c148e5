"""Integer functions made of several operations: powers, greatest common divisors."""

from __future__ import annotations

from lpx import te
from lpx.errors import DTypeError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, operands


def _define_integer_power(inputs: Inputs, _: Attrs) -> Outputs:
    """base ** exponent of integers, wrapping, by squaring. A negative exponent is a run-time error, as it is NumPy's.

    The error is that of an index into the one-element tensor `nonnegative_exponents`.
    """
    base, exponent = operands(inputs)
    if not base.dtype.is_integer or base.dtype != exponent.dtype:
        raise DTypeError(f"integer_power of {base.dtype} and {exponent.dtype}", hint="cast both to one integer dtype")
    shape = shapes.broadcast_shapes([base.shape, exponent.shape])

    def one(_: Expr) -> Expr:
        return build.const(1, base.dtype)

    allowed = te.compute((1,), one, name="nonnegative_exponents")

    def at(*i: Expr) -> Expr:
        factor, power = (shapes.read_broadcast(x, i, shape) for x in (base, exponent))
        start: Expr = build.const(1, base.dtype)
        if exponent.dtype.is_signed:
            start = allowed[build.select(power < 0, -1, 0)]
        return _by_squaring(start, factor, power)

    return (te.compute(shape, at, name="integer_power"),)


def _by_squaring(result: Expr, factor: Expr, power: Expr) -> Expr:
    bits = power.dtype.bits - power.dtype.is_signed
    for bit in range(bits):
        result = result * build.select((power >> bit) & 1 != 0, factor, 1)
        factor = factor * factor
    return result


register(Operator("integer_power", "elementwise", _define_integer_power))
