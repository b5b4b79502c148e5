"""Functions of other compilers in kernels: here, of LLVM IR written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lpx
from lpx import dtypes, te
from lpx.errors import UnsupportedError, VerifyError
from lpx.expr import build
from lpx.expr.foreign import ForeignFunction, register_foreign
from lpx.expr.ops import Op
from lpx.ir.interpreter import interpret
from lpx.ir.parser import parse_function
from lpx.ir.verify import verify

MIX = """
define double @"test.mix.0"(i1 %a0, float %a1, i32 %a2) alwaysinline {
  %x = fpext float %a1 to double
  %n = sitofp i32 %a2 to double
  %s = fadd double %x, %n
  %y = select i1 %a0, double %s, double %x
  ret double %y
}
"""
ABOVE = """
define i1 @"test.above.0"(float %a0, float %a1) alwaysinline {
  %y = fcmp ogt float %a0, %a1
  ret i1 %y
}
"""


def mix(flag: bool, x: float, n: int) -> float:
    return x + n if flag else x


def above(x: float, y: float) -> bool:
    return x > y


FLAG, F32, I32 = dtypes.bool_, dtypes.float32, dtypes.int32
MIXED = ForeignFunction(Op("test.mix.0", 3, "foreign", "any", "float64"), (FLAG, F32, I32), mix, MIX)
COMPARED = ForeignFunction(Op("test.above.0", 2, "foreign", "any", "bool"), (F32, F32), above, ABOVE)
for _function in (MIXED, COMPARED):
    register_foreign(_function)


def inputs(count: int) -> list[Any]:
    """x, y, f and n in the order in which the program reads them."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(count).astype(np.float32)
    return [x, x[::-1].copy(), rng.random(count) < 0.5, rng.integers(-9, 9, count, np.int32)]


def program(count: int) -> Any:
    """c = mix(f, x, n) where above(x, y), else 0."""
    f, x, n, y = (
        te.placeholder((count,), name=name, dtype=dtype)
        for name, dtype in (("f", "bool"), ("x", "float32"), ("n", "int32"), ("y", "float32"))
    )
    return te.compute(
        (count,),
        lambda i: te.where(build.call(COMPARED.op, x[i], y[i]), build.call(MIXED.op, f[i], x[i], n[i]), 0.0),
        name="c",
    )


@pytest.mark.parametrize("lanes", [1, 2, 4, 16, 64])
def test_every_number_of_lanes(lanes: int) -> None:
    s = lpx.create_schedule(program(77))
    _, inner = s.split(s.loops("c")[0], lanes)
    s.vectorize(inner)
    given = inputs(77)
    x, y, f, n = given
    wanted = (x.astype(np.float64) + n * f) * (x > y)
    np.testing.assert_array_equal(lpx.build(s)(*given), wanted)
    out = np.empty(77)
    interpret(s.function, [*given, out])
    np.testing.assert_array_equal(out, wanted)


def test_lanes_become_vectors() -> None:
    s = lpx.create_schedule(program(64))
    s.vectorize(s.split(s.loops("c")[0], 8)[1])
    assembly = lpx.lower_program(s, "cpu:x86-64-v3").asm
    assert "call" not in assembly
    assert "vcvtdq2pd" in assembly


def test_text_names_the_function_and_the_verifier_its_operands() -> None:
    text = """func f(a: in float32[4], c: out bool[4]) {
  for i in 0..4 {
    c[i] = foreign["test.above.0", any, bool, 1](a[i], 0.5f32)
  }
}"""
    function = parse_function(text)
    verify(function)
    assert str(function) == text
    a = np.array([0, 1, 2, -3], np.float32)
    np.testing.assert_array_equal(lpx.build(function)(a), a > 0.5)
    with pytest.raises(VerifyError, match=r"of test.above.0 has operands of float32 and float64"):
        verify(parse_function(text.replace("0.5f32", "0.5f64")))


def test_unknown_function() -> None:
    with pytest.raises(UnsupportedError, match=r"the program calls test\.nobody, which this process does not know"):
        lpx.build(
            parse_function("""func f(a: in float32[4], c: out float32[4]) {
              for i in 0..4 { c[i] = foreign["test.nobody", any, float32, 1](a[i]) }
            }""")
        )
