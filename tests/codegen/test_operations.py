"""Every operator and primitive on every dtype, against the reference interpreter, in scalar and in vector code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import cast

import numpy as np
import pytest

from lpx import dtypes
from lpx.dtypes import DType
from lpx.expr import build
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import BinaryOp, CompareOp, Expr
from lpx.ir.nodes import Function, Role
from tests.codegen.harness import (
    BASELINE,
    HOST,
    Array,
    Compute,
    assert_same_bits,
    buffer,
    check,
    elementwise,
    function,
    load,
    run,
    serial,
    store,
)

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
Unary = Callable[[Expr], Expr]
Binary = Callable[[Expr, Expr], Expr]

FLOAT_CORNERS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.49999997, -0.49999997, 3.7, -3.7, 1e-40, -1e-40, 1e30,
    -1e30, 8388607.5, -8388607.5, 8388608.0, 4503599627370495.5, -4503599627370495.5, 4503599627370496.0,
    np.inf, -np.inf, np.nan, 1.1754944e-38,
]  # fmt: skip


def corners(dtype: DType) -> Array:
    """Values where operations go wrong."""
    if dtype.is_float:
        with np.errstate(over="ignore", under="ignore"):
            return np.array(FLOAT_CORNERS).astype(dtype.to_numpy())
    if dtype.is_bool:
        return np.array([False, True])
    base = (0, 1, 2, 3, 5, 7, 10, 64, dtype.max_value, dtype.max_value - 1, dtype.max_value // 2 + 1)
    signed = (-1, -2, -3, -7, -10, dtype.min_value, dtype.min_value + 1) if dtype.is_signed else ()
    return np.array([*base, *signed], dtype.to_numpy())


def pairs(dtype: DType, lanes: int, *, divisors: bool = False) -> tuple[Array, Array]:
    """Every pair of corner values, padded to whole vectors."""
    right = [v for v in corners(dtype) if not divisors or v != 0]
    both = list(product(corners(dtype), right))
    size = -(-len(both) // lanes) * lanes
    a, b = (np.resize(np.array(column, dtype.to_numpy()), size) for column in zip(*both, strict=True))
    return a, b


def all_of(name: str, dtype: str, arity: int, size: int, lanes: int, ops: Mapping[str, Compute]) -> Function:
    """One function that computes every operation of `ops` into an output of its own."""
    inputs = [buffer(n, dtype, size) for n in "ABC"[:arity]]
    i = build.var("i")
    index = build.ramp(i * lanes, 1, lanes) if lanes > 1 else i
    operands = [load(b, index) for b in inputs]
    results = {op: compute(*operands) for op, compute in ops.items()}
    outputs = {op: buffer(op, value.dtype, size) for op, value in results.items()}
    stores = [store(outputs[op], index, value) for op, value in results.items()]
    params: dict[Buffer, Role] = {**dict.fromkeys(inputs, "in"), **dict.fromkeys(outputs.values(), "out")}
    return function(name, params, serial(i, size // lanes, *stores))


def differential(dtype: str, lanes: int, ops: Mapping[str, Compute], operands: Sequence[Array]) -> None:
    program = all_of("ops", dtype, len(operands), len(operands[0]), lanes, ops)
    inputs = dict(zip("ABC", operands, strict=False))
    outputs = {p.buffer.name: np.zeros(len(operands[0]), p.buffer.dtype.to_numpy()) for p in program.params}
    check(program, {**outputs, **inputs})


def binary(op: str) -> Binary:
    return functools.partial(build.binary, cast("BinaryOp", op))


def compare(op: str) -> Binary:
    return functools.partial(build.compare, cast("CompareOp", op))


def by_constant(op: str, value: int) -> Unary:
    return lambda a: build.binary(cast("BinaryOp", op), a, value)


def primitive(op: str) -> Compute:
    return functools.partial(build.call, op)


COMPARES = {op: compare(op) for op in ("eq", "ne", "lt", "le")}


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_operators(dtype: str, lanes: int) -> None:
    names = ("add", "sub", "mul", "min", "max", "bitand", "bitor", "bitxor", "shl", "shr")
    ops = {n: binary(n) for n in names} | COMPARES | {"mulhi": primitive("mulhi")}
    differential(dtype, lanes, ops, pairs(dtypes.parse(dtype), lanes))


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_divisions(dtype: str, lanes: int) -> None:
    ops = {n: binary(n) for n in ("floordiv", "floormod", "truncdiv", "truncmod")}
    differential(dtype, lanes, ops, pairs(dtypes.parse(dtype), lanes, divisors=True))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_divisions_and_shifts_by_constants(dtype: str) -> None:
    element = dtypes.parse(dtype)
    a = np.resize(corners(element), 32)
    divisors = [c for c in (1, 2, 3, 7, 10, 64, element.max_value, -1, -2, -7, element.min_value) if c]
    legal = [c for c in divisors if element.min_value <= c <= element.max_value]
    ops: dict[str, Unary] = {}
    for c in legal:
        for op in ("floordiv", "floormod", "truncdiv", "truncmod"):
            ops[f"{op}{c}".replace("-", "m")] = by_constant(op, c)
    for c in (0, 1, element.bits - 1, element.bits, 100):
        for op in ("shl", "shr"):
            ops[f"{op}{c}"] = by_constant(op, c)
    for lanes in (1, 8):
        differential(dtype, lanes, ops, [a])


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_unary_operations(dtype: str, lanes: int) -> None:
    ops: dict[str, Unary] = {"neg": lambda a: -a, "invert": lambda a: ~a}
    ops |= {n: primitive(n) for n in ("abs", "popcount", "clz", "ctz")}
    differential(dtype, lanes, ops, [np.resize(corners(dtypes.parse(dtype)), 32)])


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_operators(dtype: str, lanes: int) -> None:
    ops = {n: binary(n) for n in ("add", "sub", "mul", "div", "min", "max")} | COMPARES
    ops["copysign"] = primitive("copysign")
    differential(dtype, lanes, ops, pairs(dtypes.parse(dtype), lanes))


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_unary_operations(dtype: str, lanes: int) -> None:
    ops: dict[str, Unary] = {"neg": lambda a: -a}
    ops |= {n: primitive(n) for n in ("sqrt", "floor", "ceil", "trunc", "rint", "abs")}
    ops |= {n: primitive(n) for n in ("isnan", "isinf", "isfinite", "signbit")}
    rng = np.random.default_rng(3)
    near = np.concatenate([corners(dtypes.parse(dtype)), rng.uniform(-5, 5, 36).astype(dtype)])
    differential(dtype, lanes, ops, [near])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("constant", [0.0, -0.0, 1.0, np.nan, np.inf])
def test_minimum_and_maximum_with_a_constant(dtype: str, constant: float) -> None:
    ops: dict[str, Unary] = {
        "below": lambda a: build.minimum(a, constant),
        "above": lambda a: build.maximum(a, constant),
        "first": lambda a: build.maximum(build.const(constant, dtype), a),
    }
    differential(dtype, 4, ops, [corners(dtypes.parse(dtype))])


@pytest.mark.parametrize("lanes", [1, 4])
def test_bool_operators(lanes: int) -> None:
    names = ("bitand", "bitor", "bitxor", "min", "max")
    differential("bool", lanes, {n: binary(n) for n in names} | COMPARES, pairs(dtypes.bool_, lanes))
    negation: dict[str, Unary] = {"not": lambda a: ~a}
    differential("bool", lanes, negation, [np.array([True, False] * 4)])


def fma_operands(dtype: str, count: int) -> list[Array]:
    """Random bits; sums that cancel; exponents near the ends; ties that a second rounding would break."""
    rng = np.random.default_rng(4)
    bits = dtypes.parse(dtype).bits
    noise = [
        rng.integers(0, 1 << bits, count, np.uint64, endpoint=False).astype(f"u{bits // 8}").view(dtype) for _ in "abc"
    ]
    x, y = (rng.uniform(-2, 2, count).astype(dtype) for _ in "ab")
    with np.errstate(all="ignore"):
        close = -(x * y) * (1 + rng.integers(-2, 3, count) * np.finfo(dtype).eps)
        scale = np.array(np.finfo(dtype).tiny, dtype) * np.array(8.0, dtype)
        tiny = (x * scale, y, -(x * y * scale) * np.array(1.0, dtype))
        ulp = np.finfo(dtype).eps
        one = np.ones(count, dtype)
        ties = (one + np.array(ulp, dtype) * rng.integers(0, 9, count), one, np.full(count, ulp / 2 * (1 + ulp), dtype))
    extreme = np.array(
        [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny, 5e-324], dtype
    )
    cube = [np.array(column, dtype) for column in zip(*product(extreme, repeat=3), strict=True)]
    sets = [noise, [x, y, close], list(tiny), list(ties), cube]
    return [np.concatenate([np.asarray(s[k], dtype) for s in sets]) for k in range(3)]


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", FLOATS)
def test_fused_multiply_add_rounds_once(dtype: str, lanes: int) -> None:
    operands = fma_operands(dtype, 512)
    size = len(operands[0]) // lanes * lanes
    differential(dtype, lanes, {"fma": primitive("fma")}, [o[:size] for o in operands])


def test_emulated_multiply_add_equals_the_instruction() -> None:
    for dtype in FLOATS:
        operands = fma_operands(dtype, 20_000)
        size = len(operands[0]) // 8 * 8
        program = elementwise("fma", dtype, [(n, dtype) for n in "ABC"], primitive("fma"), size, 8)
        results = [np.zeros(size, dtype), np.zeros(size, dtype)]
        for target, result in zip((HOST, BASELINE), results, strict=True):
            assert run(program, [*(o[:size] for o in operands), result], target=target) == 0
        assert_same_bits(results[1], results[0], dtype)


@pytest.mark.parametrize("op", ["floordiv", "floormod", "truncdiv", "truncmod"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_division_by_zero_is_a_status(op: str, lanes: int) -> None:
    program = elementwise("div", "int32", [("A", "int32"), ("B", "int32")], binary(op), 16, lanes)
    a, b = np.arange(16, dtype=np.int32), np.arange(1, 17, dtype=np.int32)
    assert run(program, [a, b, np.zeros(16, np.int32)]) == 0
    b[11] = 0
    assert run(program, [a, b, np.zeros(16, np.int32)]) == 1


def test_division_by_a_guarded_divisor_does_not_fail() -> None:
    def compute(a: Expr, b: Expr) -> Expr:
        nonzero = build.compare("ne", b, 0)
        return build.select(nonzero, a // build.select(nonzero, b, 1), -1)

    program = elementwise("div", "int32", [("A", "int32"), ("B", "int32")], compute, 16, 8)
    a, b, r = np.arange(16, dtype=np.int32), np.arange(-8, 8, dtype=np.int32), np.zeros(16, np.int32)
    assert run(program, [a, b, r]) == 0
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(r, np.where(b == 0, -1, a // np.where(b == 0, 1, b)))
