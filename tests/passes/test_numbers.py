"""Passes about what numbers are: storage types and mathematical functions."""

from __future__ import annotations

import numpy as np
import pytest

from lpx.errors import CompileError
from lpx.expr import ops
from lpx.expr.nodes import Binary, Call, Unary
from lpx.ir.interpreter import interpret
from lpx.ir.traverse import walk_expressions
from lpx.passes.expand_math import ExpandMath
from lpx.passes.legalize_storage_types import LegalizeStorageTypes
from tests.passes.support import apply, assert_pass_keeps, parse


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_narrow_arithmetic_rounds_after_every_operation(dtype: str) -> None:
    function = parse(
        f"""func f(A: in {dtype}[16], B: in {dtype}[16], C: out {dtype}[16], D: out bool[16]) {{
          for i in 0..16 {{
            C[i] = select(A[i] <= B[i], A[i] * B[i] - A[i], min(-A[i], abs(B[i]) + A[i]))
            D[i] = A[i] != B[i]
          }} }}"""
    )
    after = assert_pass_keeps(function, LegalizeStorageTypes(), seeds=(0, 1, 2))
    narrow = [e for e in walk_expressions(after.body) if e.dtype.name == dtype]
    assert not any(isinstance(e, Binary | Unary | Call) for e in narrow)


def test_sums_of_narrow_lanes_round_in_every_step() -> None:
    function = parse("""func f(A: in float16[11], B: out float16[1]) { B[0] = reduce(add, A[ramp(0, 1, 11)]) }""")
    assert_pass_keeps(function, LegalizeStorageTypes(), seeds=range(5))


def test_four_bit_integers_have_no_arithmetic() -> None:
    function = parse("func f(A: in int4[8], B: out int4[8]) { for i in 0..8 { B[i] = A[i] + A[i] } }")
    with pytest.raises(CompileError, match="int4 has no arithmetic"):
        LegalizeStorageTypes()(function)


def test_four_bit_integers_convert() -> None:
    function = parse("func f(A: in int4[8], B: out int8[8]) { for i in 0..8 { B[i] = int8(A[i]) * 2i8 } }")
    assert LegalizeStorageTypes()(function) is function


@pytest.mark.parametrize("name", ops.MATH)
def test_every_function_has_an_expansion(name: str) -> None:
    args = ", ".join(["A[i]"] * ops.MATH[name].arity)
    function = parse(f"func f(A: in float32[4], B: out float32[4]) {{ for i in 0..4 {{ B[i] = {name}({args}) }} }}")
    after = apply(function, ExpandMath())
    assert not any(isinstance(e, Call) and e.op.kind == "math" for e in walk_expressions(after.body))
    arrays = [np.array([0.25, 0.5, 0.75, 1.0], np.float32), np.zeros(4, np.float32)]
    expected = [arrays[0], np.zeros(4, np.float32)]
    interpret(after, arrays)
    interpret(function, expected)
    assert arrays[1].tobytes() == expected[1].tobytes()
