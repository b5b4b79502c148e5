"""Operators that work on each element: arithmetic, comparison, logic, activations, casts."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import ModelError
from lpx.frontends.onnx import tensors
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.registry import Call, handles

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "BitwiseNot": "not", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "IsNaN": "isnan", "Log": "log", "Neg": "neg", "Not": "not", "Relu": "relu", "Round": "rint", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_BINARY = {  # ONNX operator -> (graph operator, operands swapped)
    "Add": ("add", False), "Sub": ("sub", False), "Mul": ("mul", False),
    "And": ("bitand", False), "Or": ("bitor", False), "Xor": ("bitxor", False),
    "BitwiseAnd": ("bitand", False), "BitwiseOr": ("bitor", False), "BitwiseXor": ("bitxor", False),
    "Equal": ("eq", False), "Less": ("lt", False), "LessOrEqual": ("le", False),
    "Greater": ("lt", True), "GreaterOrEqual": ("le", True),
}  # fmt: skip
_ALPHA = {"LeakyRelu": ("leaky_relu", 0.01), "Elu": ("elu", 1.0)}
_VARIADIC = {"Min": "min", "Max": "max", "Sum": "add"}


@handles(*_UNARY)
def unary(ctx: Context, call: Call) -> Operand:
    """One operand, no attributes."""
    call.attrs.ignore("consumed_inputs")
    return ctx.add(_UNARY[call.op], call.input(0))


@handles("Identity")
def identity(_: Context, call: Call) -> Operand:
    """The operand itself."""
    return call.input(0)


@handles("Reciprocal")
def reciprocal(ctx: Context, call: Call) -> Operand:
    """1 / x."""
    call.attrs.ignore("consumed_inputs")
    x = call.input(0)
    return ctx.add("div", ctx.number(1, x.dtype), x)


@handles(*_BINARY)
def binary(ctx: Context, call: Call) -> Operand:
    """Two operands that broadcast."""
    a, b = aligned(ctx, call)
    name, swapped = _BINARY[call.op]
    return ctx.add(name, b, a) if swapped else ctx.add(name, a, b)


def aligned(ctx: Context, call: Call) -> tuple[Operand, Operand]:
    """The two operands, ready to broadcast NumPy's way.

    Before operator set 7 the second one broadcast only when asked to, from a given axis on: it gets ones behind it.
    """
    a, b = call.input(0), call.input(1)
    call.attrs.ignore("consumed_inputs")
    if call.version >= 7:
        return a, b
    axis = call.attrs.integer("axis", -1)
    if not call.attrs.flag("broadcast") or not b.rank:
        return a, b
    start = axis if axis >= 0 else a.rank + axis + 1 - b.rank if "axis" in call.attrs else a.rank - b.rank
    trailing = a.rank - start - b.rank
    if start < 0 or trailing < 0:
        raise ModelError(f"axis {axis} leaves no room for {b.value.type_text} in {a.value.type_text}")
    return a, ctx.add("reshape", b, shape=(*b.shape, *(1,) * trailing))


@handles("Div")
def divide(ctx: Context, call: Call) -> Operand:
    """Division; that of integers truncates."""
    a, b = aligned(ctx, call)
    return ctx.add("div" if a.dtype.is_float else "truncdiv", a, b)


@handles("Mod")
def modulo(ctx: Context, call: Call) -> Operand:
    """The remainder with the sign of the divisor, or with `fmod` that of the dividend."""
    a, b = call.input(0), call.input(1)
    if call.attrs.flag("fmod"):
        return ctx.add("fmod" if a.dtype.is_float else "truncmod", a, b)
    return _float_modulo(ctx, a, b) if a.dtype.is_float else ctx.add("floormod", a, b)


def _float_modulo(ctx: Context, a: Operand, b: Operand) -> Operand:
    """a - b * floor(a / b), exactly: the remainder of the truncated quotient, moved into the divisor's sign."""
    zero = ctx.number(0, a.dtype)
    rest = ctx.add("fmod", a, b)
    signs_differ = ctx.add("ne", ctx.add("lt", rest, zero), ctx.add("lt", b, zero))
    is_zero = ctx.add("eq", rest, zero)
    moved = ctx.add("where", signs_differ, ctx.add("add", rest, b), rest)
    return ctx.add("where", is_zero, ctx.add("copysign", rest, b), moved)


@handles("Pow")
def power(ctx: Context, call: Call) -> Operand:
    """The base's dtype; with integers on both sides exact modulo 2**bits."""
    x, y = aligned(ctx, call)
    if x.dtype.is_float:
        wide = x.dtype if not y.dtype.is_float or y.dtype.bits <= x.dtype.bits else y.dtype
        return cast(ctx, ctx.add("pow", cast(ctx, x, wide), cast(ctx, y, wide)), x.dtype)
    if y.dtype.is_float:
        wide = dtypes.float64
        return cast(ctx, ctx.add("pow", cast(ctx, x, wide), cast(ctx, y, wide)), x.dtype)
    return ctx.add("integer_power", x, cast(ctx, y, x.dtype))


@handles("BitShift")
def shift(ctx: Context, call: Call) -> Operand:
    """Left or right."""
    direction = call.attrs.text("direction", legal=("LEFT", "RIGHT"))
    return ctx.add("shl" if direction == "LEFT" else "shr", call.input(0), call.input(1))


@handles(*_VARIADIC)
def variadic(ctx: Context, call: Call) -> Operand:
    """Any number of operands that broadcast."""
    call.attrs.ignore("consumed_inputs")
    return functools.reduce(lambda a, b: ctx.add(_VARIADIC[call.op], a, b), _some(call))


@handles("Mean")
def mean(ctx: Context, call: Call) -> Operand:
    """The mean of any number of operands that broadcast."""
    call.attrs.ignore("consumed_inputs")
    operands = _some(call)
    total = functools.reduce(lambda a, b: ctx.add("add", a, b), operands)
    return ctx.add("div", total, ctx.number(len(operands), total.dtype))


def _some(call: Call) -> Sequence[Operand]:
    if not call.given:
        raise ModelError(f"{call.label} has no inputs")
    return call.given


@handles("Where")
def where(ctx: Context, call: Call) -> Operand:
    """The second operand where the first is true, else the third."""
    return ctx.add("where", *call.inputs)


@handles("Clip")
def clip(ctx: Context, call: Call) -> Operand:
    """min(max(x, low), high): where low > high, high wins."""
    x = call.input(0)
    call.attrs.ignore("consumed_inputs")
    if call.version < 11:
        low = ctx.number(call.attrs.number("min"), x.dtype) if "min" in call.attrs else None
        high = ctx.number(call.attrs.number("max"), x.dtype) if "max" in call.attrs else None
    else:
        low, high = call.optional(1), call.optional(2)
    if low is not None:
        x = ctx.add("max", x, _scalar(ctx, low))
    return x if high is None else ctx.add("min", x, _scalar(ctx, high))


def _scalar(ctx: Context, x: Operand) -> Operand:
    return ctx.add("reshape", x, shape=()) if x.rank else x


@handles(*_ALPHA)
def with_alpha(ctx: Context, call: Call) -> Operand:
    """Activations with one parameter."""
    call.attrs.ignore("consumed_inputs")
    name, default = _ALPHA[call.op]
    return ctx.add(name, call.input(0), alpha=call.attrs.number("alpha", default))


@handles("HardSigmoid")
def hard_sigmoid(ctx: Context, call: Call) -> Operand:
    """max(0, min(1, alpha * x + beta))."""
    call.attrs.ignore("consumed_inputs")
    alpha, beta = call.attrs.number("alpha", float(np.float32(0.2))), call.attrs.number("beta", 0.5)
    return ctx.add("hard_sigmoid", call.input(0), alpha=alpha, beta=beta)


@handles("HardSwish")
def hard_swish(ctx: Context, call: Call) -> Operand:
    """x * hard_sigmoid(x), with 1/6 and 0.5."""
    x = call.input(0)
    return ctx.add("mul", x, ctx.add("hard_sigmoid", x, alpha=float(np.float32(1 / 6)), beta=0.5))


@handles("Gelu")
def gelu(ctx: Context, call: Call) -> Operand:
    """The exact form, or the one with tanh."""
    form = call.attrs.text("approximate", "none", legal=("none", "tanh"))
    return ctx.add("gelu" if form == "none" else "gelu_tanh", call.input(0))


@handles("PRelu")
def prelu(ctx: Context, call: Call) -> Operand:
    """x * slope below zero. Before operator set 7 a slope of rank 1 is per channel (axis 1)."""
    x, slope = call.input(0), call.input(1)
    call.attrs.ignore("consumed_inputs")
    if call.version < 7 and slope.rank == 1 and slope.size > 1:
        slope = ctx.add("reshape", slope, shape=(*slope.shape, *(1,) * (x.rank - 2)))
    negative = ctx.add("lt", x, ctx.number(0, x.dtype))
    return ctx.add("where", negative, ctx.add("mul", x, slope), x)


@handles("IsInf")
def is_infinite(ctx: Context, call: Call) -> Operand:
    """Which infinities count is up to two attributes."""
    x = call.input(0)
    positive, negative = (call.attrs.flag(f"detect_{sign}", True) for sign in ("positive", "negative"))
    if positive and negative:
        return ctx.add("isinf", x)
    if not positive and not negative:
        return ctx.add("full", shape=x.shape, value=False, dtype="bool")
    return ctx.add("eq", x, ctx.number(np.inf if positive else -np.inf, x.dtype))


@handles("Cast")
def cast_to(ctx: Context, call: Call) -> Operand:
    """Another dtype. Floats become integers by truncation, and saturate."""
    dtype = tensors.dtype_of(_target_code(call), f"{call.label}: attribute to")
    return _converted(ctx, call, call.input(0), dtype)


def _target_code(call: Call) -> int:
    if call.version >= 6:
        return call.attrs.integer("to")
    return tensors.code_named(call.attrs.text("to"))


@handles("CastLike")
def cast_like(ctx: Context, call: Call) -> Operand:
    """The dtype of the second operand."""
    return _converted(ctx, call, call.input(0), call.input(1).dtype)


def _converted(ctx: Context, call: Call, x: Operand, dtype: DType) -> Operand:
    """A cast of the model: floats saturate as 8-bit floats (unless told otherwise), and wrap as 4-bit integers."""
    saturates = call.attrs.flag("saturate", True)
    call.attrs.ignore("round_mode")  # of float8e8m0, which is no dtype here
    if x.dtype.is_float and dtype.is_float and dtype.bits == 8 and saturates:
        x = clamped(ctx, x, dtype)
    if x.dtype.is_float and dtype.bits == 4:
        x = cast(ctx, x, dtypes.int32)
    return cast(ctx, x, dtype)


def clamped(ctx: Context, x: Operand, dtype: DType) -> Operand:
    """Floats limited to the finite range of a narrower dtype; NaN stays."""
    low, high = (ctx.number(v, x.dtype) for v in tensors.finite_range(dtype))
    return ctx.add("min", ctx.add("max", x, low), high)


def cast(ctx: Context, x: Operand, dtype: DType) -> Operand:
    """`x` in another dtype; itself when it has it already."""
    return x if x.dtype == dtype else ctx.add("cast", x, dtype=dtype.name)


@handles("Dropout")
def dropout(ctx: Context, call: Call) -> Sequence[Operand]:
    """Nothing at inference; the mask keeps everything."""
    call.attrs.ignore("ratio", "seed", "is_test", "consumed_inputs")
    x, training = call.input(0), call.optional(2)
    if training is not None and bool(ctx.array(training, "training_mode of Dropout")):
        raise ModelError("Dropout in training mode", hint="export the model for inference")
    if not call.wants(1):
        return (x,)
    mask_dtype = dtypes.bool_ if call.version >= 10 else x.dtype
    return x, ctx.add("full", shape=x.shape, value=1, dtype=mask_dtype.name)


@handles("BitCast")
def bit_cast(ctx: Context, call: Call) -> Operand:
    """The same bits in another dtype of the same width."""
    dtype = tensors.dtype_of(call.attrs.integer("to"), f"{call.label}: attribute to")
    x = call.input(0)
    return ctx.add("bitcast", cast(ctx, x, dtypes.uint8) if x.dtype.is_bool else x, dtype=dtype.name)
