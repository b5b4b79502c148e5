"""Builders of expressions: they check operands, convert Python numbers, and give errors at the user's line.

A Python number takes the dtype of the other operand; a scalar meets a vector by `Broadcast`. Nothing else is implicit:
operands of two dtypes are an error.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import Any
from typing import cast as typing_cast

import numpy as np

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import DTypeError, InternalError, ShapeError
from lpx.expr import nodes, ops
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr
from lpx.expr.operators import Builder, register_builder
from lpx.source import capture

_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")
_BITS = ("bitand", "bitor", "bitxor")
_SHIFTS = ("shl", "shr")


def const(value: Any, dtype: object = None) -> nodes.Const:
    """A constant. Without `dtype`: bool, int64 (`index`) for integers, float32 for floats.

    Raises: DTypeError when the value is not a number or does not fit an integer dtype.
    """
    if isinstance(value, np.generic):
        scalar = typing_cast("Any", value)
        dtype = scalar.dtype if dtype is None else dtype
        value = scalar.item()
    if not isinstance(value, bool | int | float):
        raise DTypeError(f"{value!r} is not a number", hint="pass a Python number or an expression", span=capture())
    target = _default_dtype(value) if dtype is None else dtypes.parse(dtype)
    return nodes.Const(target, 1, _fit(value, target))


def var(name: str, dtype: object = dtypes.index) -> nodes.Var:
    """A new scalar variable."""
    return nodes.Var(dtypes.parse(dtype), 1, name)


def as_expr(value: object, dtype: DType | None = None) -> Expr:
    """`value` as an expression: itself, or a constant (of `dtype` where given)."""
    return value if isinstance(value, Expr) else const(value, dtype)


def broadcast(value: Expr, lanes: int) -> Expr:
    """`value` in `lanes` lanes; itself when it has them already."""
    if value.lanes == lanes:
        return value
    if value.lanes != 1:
        raise ShapeError(f"a vector of {value.lanes} lanes meets one of {lanes}", span=capture())
    return nodes.Broadcast(value.dtype, lanes, value)


def unary(op: nodes.UnaryOp, a: object) -> Expr:
    """`op a`; `neg` of numbers, `not` of bools and integers."""
    operand = as_expr(a)
    if op == "not" and operand.dtype.is_float:
        raise DTypeError(f"~ takes bools and integers, not {operand.dtype}", span=capture())
    if op == "neg" and operand.dtype.is_bool:
        raise DTypeError("- does not take a bool", hint="cast it to an integer first", span=capture())
    return nodes.Unary(operand.dtype, operand.lanes, op, operand)


def binary(op: nodes.BinaryOp, a: object, b: object) -> Expr:
    """`a op b` for an op of `nodes.BinaryOp`.

    Raises: DTypeError when dtypes differ or the operation does not take them; ShapeError on unequal lanes.
    """
    left, right = _unify(op, a, b)
    _check_domain(op, left.dtype)
    return nodes.Binary(left.dtype, left.lanes, op, left, right)


def compare(op: nodes.CompareOp, a: object, b: object) -> Expr:
    """`a op b` as a bool, for an op of `nodes.CompareOp`."""
    left, right = _unify(op, a, b)
    return nodes.Compare(dtypes.bool_, left.lanes, op, left, right)


def minimum(a: object, b: object) -> Expr:
    """The smaller operand; NaN when either is NaN."""
    return binary("min", a, b)


def maximum(a: object, b: object) -> Expr:
    """The larger operand; NaN when either is NaN."""
    return binary("max", a, b)


def select(cond: object, a: object, b: object) -> Expr:
    """`a` where `cond` else `b`; the side not taken reads no memory."""
    condition = as_expr(cond)
    if not condition.dtype.is_bool:
        raise DTypeError(f"a condition must be bool, not {condition.dtype}", hint="compare it: x != 0", span=capture())
    left, right = _unify("where", a, b)
    lanes = max(condition.lanes, left.lanes)
    left, right, condition = broadcast(left, lanes), broadcast(right, lanes), broadcast(condition, lanes)
    return nodes.Select(left.dtype, lanes, condition, left, right)


def cast(value: object, dtype: object) -> Expr:
    """`value` converted to `dtype`; itself when it has it already."""
    target = dtypes.parse(dtype)
    if not isinstance(value, Expr):
        return const(value, target)
    return value if value.dtype is target or value.dtype == target else nodes.Cast(target, value.lanes, value)


def bitcast(value: Expr, dtype: object) -> Expr:
    """The bits of `value` as another dtype of the same width."""
    target = dtypes.parse(dtype)
    if target.bits != value.dtype.bits:
        raise DTypeError(f"cannot view the {value.dtype.bits} bits of {value.dtype} as {target}", span=capture())
    return value if value.dtype == target else nodes.Bitcast(target, value.lanes, value)


def load(buffer: Buffer, indices: Sequence[Expr], mask: Expr | None = None) -> Expr:
    """Element(s) of `buffer`; as many indices as its rank."""
    if len(indices) != buffer.rank:
        raise ShapeError(
            f"{buffer.name} has {buffer.rank} dimension(s) but is read with {len(indices)} index(es)", span=capture()
        )
    lanes = max((i.lanes for i in indices), default=1)
    return nodes.Load(buffer.dtype, lanes, buffer, tuple(indices), mask)


def address_of(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
    """The address of an element of `buffer`."""
    return nodes.AddressOf(dtypes.handle, 1, buffer, tuple(indices))


def ramp(base: object, stride: object, lanes: int) -> Expr:
    """The vector base, base + stride, ...; the base itself for one lane."""
    first, step = _unify("ramp", base, stride)
    return first if lanes == 1 else nodes.Ramp(first.dtype, lanes, first, step)


def shuffle(vectors: Sequence[Expr], indices: Sequence[int]) -> Expr:
    """Lanes `indices` of the concatenation of `vectors`."""
    total = sum(v.lanes for v in vectors)
    if not indices or not all(0 <= i < total for i in indices):
        raise InternalError(f"shuffle indices {tuple(indices)} over {total} lanes")
    return nodes.Shuffle(vectors[0].dtype, len(indices), tuple(vectors), tuple(indices))


def lookup(table: Sequence[float], index: Expr, dtype: object) -> Expr:
    """`table[index % len(table)]` for a table of constants of `dtype`, which is float32 or float64.

    Raises: DTypeError for another dtype or an index that is no integer, ShapeError unless the length is a power of two.
    """
    target = dtypes.parse(dtype)
    if target not in (dtypes.float32, dtypes.float64):
        raise DTypeError(f"a table of {target}", hint="tables hold float32 or float64", span=capture())
    if not index.dtype.is_integer:
        raise DTypeError(f"a table indexed by {index.dtype}", hint="cast to an integer first", span=capture())
    if len(table).bit_count() != 1:
        raise ShapeError(f"a table of {len(table)} constants; their number is a power of two", span=capture())
    return nodes.Lookup(target, index.lanes, tuple(round_to(v, target) for v in table), index)


def unlikely(condition: Expr) -> Expr:
    """`condition`, said to be false nearly always: `select(unlikely(c), a, b)` computes `a` only where some lane needs
    it.

    Raises: DTypeError when it is no bool.
    """
    return call("unlikely", condition)


def horizontal_reduce(op: nodes.BinaryOp, value: Expr) -> Expr:
    """All lanes of `value` combined; itself for one lane."""
    return value if value.lanes == 1 else nodes.HorizontalReduce(value.dtype, 1, op, value)


def call(op: str | ops.Op, *args: object) -> Expr:
    """`op` applied to `args`; for the named operations of `lpx.expr.ops`.

    Raises: DTypeError when the operation does not take the dtype, ShapeError on a wrong number of operands.
    """
    found = ops.ALL[op] if isinstance(op, str) else op
    if len(args) != found.arity:
        raise ShapeError(f"{found.name} takes {found.arity} operand(s), not {len(args)}", span=capture())
    if found.kind in ("hardware", "extern"):
        return hardware_call(found, [as_expr(a) for a in args])
    if found.kind == "foreign":
        return _foreign_call(found, [as_expr(a) for a in args])
    operands = _unify_all(found.name, args)
    dtype = operands[0].dtype
    if not _in_domain(found.domain, dtype):
        raise DTypeError(
            f"{found.name} does not take {dtype}", hint=f"it takes {found.domain} dtypes; cast first", span=capture()
        )
    result = dtype if found.result == "same" else dtypes.parse("bool" if found.result == "bool" else found.result)
    return nodes.Call(result, operands[0].lanes, found, tuple(operands))


def hardware_call(op: ops.Op, args: Sequence[Expr], lanes: int | None = None) -> Expr:
    """A hardware or extern operation: operands are taken as they are, the result has `lanes` (default: the first's)."""
    dtype = args[0].dtype if op.result == "same" else dtypes.parse(op.result)
    return nodes.Call(dtype, args[0].lanes if lanes is None else lanes, op, tuple(args))


def _foreign_call(op: ops.Op, args: Sequence[Expr]) -> Expr:
    lanes = max(a.lanes for a in args)
    return nodes.Call(dtypes.parse(op.result), lanes, op, tuple(broadcast(a, lanes) for a in args))


def _default_dtype(value: float) -> DType:
    if isinstance(value, bool):
        return dtypes.bool_
    return dtypes.index if isinstance(value, int) else dtypes.float32


def _fit(value: Any, dtype: DType) -> int | float:
    if dtype.is_float:
        return round_to(_exact_float(value, dtype), dtype)
    if isinstance(value, float) and not value.is_integer():
        raise DTypeError(f"{value!r} is not representable in {dtype}", hint="cast explicitly", span=capture())
    number = int(value)
    if not dtype.min_value <= number <= dtype.max_value:
        raise DTypeError(
            f"{number} does not fit {dtype}", hint=f"{dtype} holds {dtype.min_value}..{dtype.max_value}", span=capture()
        )
    return bool(number) if dtype.is_bool else number


def _exact_float(value: float, dtype: DType) -> float:
    try:
        return float(value)
    except OverflowError:
        raise DTypeError(f"{value} does not fit {dtype}", span=capture()) from None


def round_to(value: float, dtype: DType) -> float:
    """`value` rounded to nearest even in a float dtype, as a Python float."""
    if dtype.name == "float64" or math.isnan(value):
        return value
    if dtype.name == "float32":
        return _round_binary32(value)
    return _round_narrow(value, dtype)


def _round_binary32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


_NARROW = {  # dtype -> (bits of precision, smallest normal exponent, largest finite value, overflow result)
    "float16": (11, -14, 65504.0, math.inf),
    "bfloat16": (8, -126, float.fromhex("0x1.fep127"), math.inf),
    "float8_e5m2": (3, -14, 57344.0, math.inf),
    "float8_e4m3fn": (4, -6, 448.0, math.nan),
}


def _round_narrow(value: float, dtype: DType) -> float:
    precision, min_exponent, largest, overflow = _NARROW[dtype.name]
    if value == 0.0:
        return value
    if math.isinf(value):
        return math.copysign(overflow, value)
    exponent = max(math.frexp(value)[1] - 1, min_exponent)
    unit = math.ldexp(1.0, exponent - precision + 1)
    rounded = round(value / unit) * unit  # Python rounds ties to even, and the division by a power of two is exact
    if abs(rounded) > largest:
        return math.copysign(overflow, value)
    return math.copysign(rounded, value)


def _unify(what: str, a: object, b: object) -> tuple[Expr, Expr]:
    if isinstance(a, Expr) and isinstance(b, Expr) and a.dtype is b.dtype and a.lanes == b.lanes:
        return a, b
    left, right = _unify_all(what, (a, b))
    return left, right


def _unify_all(what: str, values: Sequence[object]) -> list[Expr]:
    given = [v for v in values if isinstance(v, Expr)]
    dtype = given[0].dtype if given else None
    exprs = [as_expr(v, dtype) for v in values]
    dtype = exprs[0].dtype
    for e in exprs:
        if e.dtype != dtype:
            raise DTypeError(
                f"{what} of {dtype} and {e.dtype}",
                hint="dtypes never convert by themselves: use te.cast",
                span=capture(),
            )
    lanes = max(e.lanes for e in exprs)
    return [broadcast(e, lanes) for e in exprs]


@functools.cache
def _check_domain(op: str, dtype: DType) -> None:
    if op in _DIVISIONS or op in _SHIFTS:
        legal, hint = dtype.is_integer, "use / for floats" if op in _DIVISIONS else "shifts are for integers"
    elif op == "div":
        legal, hint = dtype.is_float, "use // for integers, or cast to a float"
    elif op in _BITS:
        legal, hint = not dtype.is_float, "bit operations are for bools and integers"
    elif op in ("min", "max"):
        legal, hint = True, ""
    else:
        legal, hint = not dtype.is_bool, "cast the bool to an integer first"
    if not legal or dtype.kind == "handle":
        raise DTypeError(f"{op} does not take {dtype}", hint=hint, span=capture())


def _in_domain(domain: ops.Domain, dtype: DType) -> bool:
    match domain:
        case "float":
            return dtype.is_float
        case "integer":
            return dtype.is_integer
        case "bool":
            return dtype.is_bool
        case "number":
            return dtype.is_float or dtype.is_integer
        case _:
            return True


register_builder("binary", typing_cast("Builder", binary))
register_builder("compare", typing_cast("Builder", compare))
register_builder("unary", lambda op, a, _: unary(typing_cast("nodes.UnaryOp", op), a))
