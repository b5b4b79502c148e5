"""Hardware operations against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lpx import dtypes
from lpx.errors import DefinitionError, MemoryAccessError, UnsupportedError
from lpx.expr.ops import Op
from lpx.ir.hardware import HARDWARE, VNNI_DOT, meaning_of, register_hardware_op
from lpx.ir.interpreter import interpret
from lpx.ir.parser import parse_function
from lpx.ir.verify import verify

BF16 = dtypes.bfloat16.to_numpy()


def run(text: str, *arrays: Any) -> None:
    function = parse_function(text)
    verify(function)
    interpret(function, arrays)


def test_vnni_dot() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, 16).astype(np.uint8), rng.integers(-128, 128, 16).astype(np.int8)
    c = np.array([0, 2**31 - 1, 5, -7], np.int32)
    expected = c + (a.astype(np.int32) * b).reshape(4, 4).sum(axis=1, dtype=np.int32)
    run(
        """func f(A: in uint8[16], B: in int8[16], C: inout int32[4]) {
          C[ramp(0, 1, 4)] = hardware["x86.vpdpbusd", any, same, 4](
            C[ramp(0, 1, 4)], A[ramp(0, 1, 16)], B[ramp(0, 1, 16)])
        }""",
        a, b, c,
    )  # fmt: skip
    np.testing.assert_array_equal(c, expected)


def test_bfloat16_dot() -> None:
    a = np.array([3, 2, 1, 2.0**-70], BF16)
    b = np.array([4, 1, 1, 2.0**-70], BF16)
    c = np.array([2.0**24, 0], np.float32)
    run(
        """func f(A: in bfloat16[4], B: in bfloat16[4], C: inout float32[2]) {
          C[ramp(0, 1, 2)] = hardware["x86.vdpbf16ps", any, same, 2](
            C[ramp(0, 1, 2)], A[ramp(0, 1, 4)], B[ramp(0, 1, 4)])
        }""",
        a, b, c,
    )  # fmt: skip
    # 2**24 + 2 first, then + 12; the product 2**-140 is denormal and so nothing.
    assert c.tolist() == [2.0**24 + 14, 1.0]


WARP_MATMUL = """
func f(A: in float16[16, 16], B: in float16[16, 8], C: out float32[16, 8]) {
  for l in 0..32 bind(threadIdx.x) {
    alloc c: float32[4] scope(local)
    alloc a: float16[8] scope(local)
    alloc b: float16[4] scope(local)
    c[ramp(0, 1, 4)] = broadcast(0.0f32, 4)
    a[ramp(0, 1, 8)] = LOAD_A
    for i in 0..4 { b[i] = B[l % 4 * 2 + i % 2 + i // 2 * 8, l // 4] }
    c[ramp(0, 1, 4)] = hardware["nvvm.mma.m16n8k16.f32.f16", any, same, 4](
      c[ramp(0, 1, 4)], a[ramp(0, 1, 8)], b[ramp(0, 1, 4)])
    for i in 0..4 { C[l // 4 + i // 2 * 8, l % 4 * 2 + i % 2] = c[i] }
  }
}"""
LDMATRIX = 'hardware["nvvm.ldmatrix.x4", any, float16, 8](&A[l % 16, l // 16 * 8])'


def test_mma_with_ldmatrix() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-8, 9, s).astype(np.float16) for s in ((16, 16), (16, 8)))
    c = np.zeros((16, 8), np.float32)
    run(WARP_MATMUL.replace("LOAD_A", LDMATRIX), a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_transposed_ldmatrix() -> None:
    a = np.arange(64).reshape(8, 8).astype(np.float16)
    c = np.zeros((8, 8), np.float16)
    run(
        """func f(A: in float16[8, 8], C: out float16[8, 8]) {
          for l in 0..32 bind(lane) {
            let pair = hardware["nvvm.ldmatrix.x1.trans", any, float16, 2](&A[l % 8, 0])
            C[l // 4, ramp(l % 4 * 2, 1, 2)] = pair
          }
        }""",
        a, c,
    )  # fmt: skip
    np.testing.assert_array_equal(c, a.T)


def test_a_warp_operation_needs_the_whole_warp() -> None:
    text = WARP_MATMUL.replace("LOAD_A", LDMATRIX).replace("0..32", "0..16")
    a, b, c = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16), np.zeros((16, 8), np.float32)
    with pytest.raises(MemoryAccessError, match="needs the 32 lanes of a warp, but 16 arrived"):
        run(text, a, b, c)


def test_prefetch_may_point_outside() -> None:
    c = np.zeros(1, np.float32)
    run('func f(C: out float32[1]) { evaluate hardware["prefetch", any, same, 1](&C[1000]) C[0] = 1.0f32 }', c)
    assert c.tolist() == [1.0]


def test_registering() -> None:
    op = Op("test.twice", 1, "extern", "any", "same")
    assert register_hardware_op(op, lambda args: [2 * x for x in args[0]]) is op
    c = np.zeros(1, np.int64)
    run('func f(C: out int64[1]) { C[0] = extern["test.twice", any, same, 1](21) }', c)
    assert c.tolist() == [42]
    with pytest.raises(DefinitionError, match=r"there is a hardware operation test\.twice already"):
        register_hardware_op(op, list)
    with pytest.raises(DefinitionError, match="exp is a math operation"):
        register_hardware_op(Op("exp", 1, "math"), list)
    with pytest.raises(UnsupportedError, match="what hardware operation nothing computes"):
        meaning_of(Op("nothing", 0, "hardware"))
    assert HARDWARE["x86.vpdpbusd"] is VNNI_DOT
