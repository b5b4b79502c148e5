"""An evaluator of expressions that shares nothing with the package under test: Python integers and NumPy scalars."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lpx.dtypes import DType, index
from lpx.expr import nodes
from lpx.expr.nodes import Expr, Var

Value = Any
"""A Python int or bool for integers and bools, a NumPy scalar for floats; a list of them for vectors."""


class UndefinedError(Exception):
    """A division by zero: the expression has no value."""


def evaluate(expr: Expr, values: Mapping[Var, Value], exact: bool = False) -> Value:
    """The value of `expr`, a list of lanes for vectors. `exact`: int64 arithmetic does not wrap."""
    return _Evaluator(values, exact).run(expr)


def _trunc_div(a: int, b: int) -> int:
    return int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b))


class _Evaluator:
    def __init__(self, values: Mapping[Var, Value], exact: bool) -> None:
        self.values = values
        self.exact = exact

    def run(self, e: Expr) -> Value:
        lanes = self.lanes_of(e)
        return lanes[0] if e.lanes == 1 else lanes

    def lanes_of(self, e: Expr) -> list[Value]:
        match e:
            case nodes.Var():
                return [self.values[e]]
            case nodes.Const(value=value, dtype=dtype):
                return [dtype.to_numpy().type(value) if dtype.is_float else int(value)]
            case nodes.Binary(op=op, a=a, b=b, dtype=dtype):
                return [self.binary(op, x, y, dtype) for x, y in zip(self.lanes_of(a), self.lanes_of(b), strict=True)]
            case nodes.Compare(op=op, a=a, b=b):
                return [self.compare(op, x, y) for x, y in zip(self.lanes_of(a), self.lanes_of(b), strict=True)]
            case nodes.Unary(op=op, a=a, dtype=dtype):
                return [self.unary(op, x, dtype) for x in self.lanes_of(a)]
            case nodes.Select(cond=cond, a=a, b=b):
                return self.select(cond, a, b)
            case nodes.Cast(value=value, dtype=dtype):
                return [self.cast(x, value.dtype, dtype) for x in self.lanes_of(value)]
            case nodes.Broadcast(value=value, lanes=lanes):
                return self.lanes_of(value) * lanes
            case nodes.Ramp(base=base, stride=stride, lanes=lanes, dtype=dtype):
                (first,), (step,) = self.lanes_of(base), self.lanes_of(stride)
                return [self.wrap(first + k * step, dtype) for k in range(lanes)]
            case nodes.Shuffle(vectors=vectors, indices=indices):
                every = [x for vector in vectors for x in self.lanes_of(vector)]
                return [every[k] for k in indices]
            case _:
                raise NotImplementedError(type(e).__name__)

    def select(self, cond: Expr, a: Expr, b: Expr) -> list[Value]:
        conditions = self.lanes_of(cond)
        left = self.lanes_of(a) if any(conditions) else []
        right = self.lanes_of(b) if not all(conditions) else []
        return [left[k] if c else right[k] for k, c in enumerate(conditions)]

    def wrap(self, value: int, dtype: DType) -> int:
        return value if self.exact and dtype == index else dtype.wrap(value)

    def binary(self, op: str, x: Value, y: Value, dtype: DType) -> Value:
        if dtype.is_float:
            return self.float_binary(op, x, y, dtype)
        if op in ("floordiv", "floormod", "truncdiv", "truncmod") and y == 0:
            raise UndefinedError
        if op in ("shl", "shr") and y < 0:
            raise UndefinedError
        match op:
            case "add":
                result = x + y
            case "sub":
                result = x - y
            case "mul":
                result = x * y
            case "floordiv":
                result = x // y
            case "floormod":
                result = x % y
            case "truncdiv":
                result = _trunc_div(x, y)
            case "truncmod":
                result = x - y * _trunc_div(x, y)
            case "min":
                result = min(x, y)
            case "max":
                result = max(x, y)
            case "bitand":
                result = x & y
            case "bitor":
                result = x | y
            case "bitxor":
                result = x ^ y
            case "shl":
                result = x << min(y, 100)
            case "shr":
                result = x >> min(y, 100)
            case _:
                raise NotImplementedError(op)
        return int(result) if dtype.is_bool else self.wrap(result, dtype)

    def float_binary(self, op: str, x: Value, y: Value, dtype: DType) -> Value:
        wide = np.float32 if dtype.bits < 32 else dtype.to_numpy().type
        narrow = dtype.to_numpy().type
        a, b = wide(x), wide(y)
        with np.errstate(all="ignore"):
            match op:
                case "add":
                    return narrow(a + b)
                case "sub":
                    return narrow(a - b)
                case "mul":
                    return narrow(a * b)
                case "div":
                    return narrow(a / b)
                case "min":
                    return narrow(np.minimum(a, b))
                case "max":
                    return narrow(np.maximum(a, b))
                case _:
                    raise NotImplementedError(op)

    def compare(self, op: str, x: Value, y: Value) -> int:
        match op:
            case "eq":
                return int(x == y)
            case "ne":
                return int(x != y)
            case "lt":
                return int(x < y)
            case _:
                return int(x <= y)

    def unary(self, op: str, x: Value, dtype: DType) -> Value:
        if op == "neg":
            return -x if dtype.is_float else self.wrap(-x, dtype)
        return int(not x) if dtype.is_bool else self.wrap(~x, dtype)

    def cast(self, x: Value, source: DType, target: DType) -> Value:
        if target.is_bool:
            return int(x != 0)
        if target.is_float:
            return target.to_numpy().type(x)
        if not source.is_float:
            return target.wrap(int(x))
        if math.isnan(x):
            return 0
        if math.isinf(x):
            return target.max_value if x > 0 else target.min_value
        return min(max(int(x), target.min_value), target.max_value)


def same(a: Value, b: Value) -> bool:
    """Equality to the bit of numbers (all NaN are one), lane by lane."""
    if np.ndim(a) or np.ndim(b):
        return len(a) == len(b) and all(map(same, a, b))
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return bool(a == b) and math.copysign(1, a) == math.copysign(1, b)
