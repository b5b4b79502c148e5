"""The verifier: what it accepts, and one program per rule that it must refuse."""

from __future__ import annotations

import numpy as np
import pytest

from lpx import dtypes
from lpx.errors import VerifyError
from lpx.expr import build, nodes
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis
from lpx.ir import nodes as ir
from lpx.ir.hardware import MMA_F16
from lpx.ir.nodes import Function, Module, Param, Stmt
from lpx.ir.parser import parse_function, parse_module
from lpx.ir.verify import RULES, verify, verify_module
from lpx.records import replace

MATMUL = """
func matmul(A: in float32[m, k], B: in float32[k, n], C: out float32[m, n]) symbols(m, n, k) {
  for i in 0..m parallel {
    for j in 0..n {
      for r in 0..k {
        block C(vi: spatial m = i, vj: spatial n = j, vr: reduce k = r) {
          init { C[vi, vj] = 0.0f32 }
          C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]
        }
      }
    }
  }
}
"""
VECTOR = """
func scale(A: in float32[n], C: out float32[n]) symbols(n) attrs(stage="lowered") {
  alloc acc: float32[8] scope(register)
  for i in 0..n // 8 {
    acc[ramp(0, 1, 8)] = A[ramp(i * 8, 1, 8)] * broadcast(2.0f32, 8)
    C[ramp(i * 8, 1, 8)] = acc[ramp(0, 1, 8)]
  }
}
"""
GPU = """
func copy(A: in float32[n], C: out float32[n]) symbols(n) attrs(stage="lowered") {
  for b in 0..n // 32 bind(blockIdx.x) {
    alloc S: float32[32] scope(shared)
    for t in 0..32 bind(threadIdx.x) {
      alloc x: float32[1] scope(local)
      x[0] = A[b * 32 + t]
      S[t] = x[0]
      barrier block
      C[b * 32 + t] = S[31 - t]
    }
  }
}
"""
REGION = """
func region(A: inout float32[n]) symbols(n) {
  region {
    for i in 0..n parallel { A[i] = 1.0f32 }
    barrier region
    for k in 0..4 { for i in 0..n parallel { A[i] = A[i] + 1.0f32 } barrier region }
  }
}
"""


@pytest.mark.parametrize("text", [MATMUL, VECTOR, GPU, REGION])
def test_accepts(text: str) -> None:
    verify(parse_function(text))


REFUSED = [
    ("block-axes", MATMUL, "A[vi, vr]", "A[i, vr]", "block C uses i of a loop outside"),
    ("read-only", MATMUL, "C: out", "C: in", "C is an in parameter"),
    ("loop-form", MATMUL, "0..k {", "0..k vectorize {", "the extent of vectorized loop r is not constant"),
    ("loop-form", MATMUL, "0..k {", "0..k stages(0:0, 1:1) {", "loop r has 2 stages for 1 statements"),
    ("block-init", MATMUL, "vr: reduce", "vr: spatial", "block C has an init but no reduce axis"),
    ("block-init", MATMUL, "= 0.0f32", "= A[vi, vr]", "the init of block C uses its reduce axis vr"),
    ("statement-types", MATMUL, "0.0f32", "0.0f64", "C holds float32, not float64"),
    ("statement-types", MATMUL, "m = i,", "m = int32(i),", "axis vi is int64, this int32 x 1"),
    ("statement-types", MATMUL, "k = r) {", "k = r) where r {", "the predicate is int64 x 1"),
    ("access-shape", MATMUL, "A[vi, vr]", "A[vi, 0.5f32]", "an index of A is float32"),
    ("buffer-form", MATMUL, "k], B", "k] strides(k), B", "A has 2 dimension(s) and 1 strides"),
    ("buffer-form", MATMUL, "k], B", "k] align(48), B", "A is aligned to 48 bytes"),
    ("buffer-form", MATMUL, "k], B", "k] scope(local), B", "A comes from outside and is local"),
    ("lowered-form", MATMUL, "symbols(m, n, k)", 'symbols(m, n, k) attrs(stage="lowered")', "block C is still there"),
    ("lowered-form", VECTOR, "n // 8 {", "8 unroll {", "loop i is still unrolled"),
    ("register-indices", VECTOR, "acc[ramp(0, 1, 8)] =", "acc[ramp(i, 1, 8)] =", "an index of register buffer acc"),
    ("statement-types", VECTOR, "acc[ramp(0, 1, 8)] =", "acc[0] =", "8 lane(s) are stored to 1 element(s)"),
    ("access-shape", VECTOR, "= acc[ramp(0, 1, 8)]", "= acc[ramp(0, 1, 8), mask=true]", "the mask of 8 lane(s)"),
    ("barrier-place", GPU, "for t in 0..32 bind(threadIdx.x)", "for t in 0..32", "a block barrier outside"),
    ("uniform-barriers", GPU, "barrier block", "if t < 16 { barrier block }", "a barrier under `if t < 16`"),
    ("uniform-barriers", GPU, "barrier block", "let q = t + 1 if 0 < q { barrier block }", "a barrier under `if 0"),
    ("uniform-barriers", GPU, "barrier block", "if x[0] < 1.0f32 { barrier block }", "a barrier under"),
    ("uniform-barriers", GPU, "barrier block", "for k in 0..t { barrier block }", "a barrier under `for k in 0..t`"),
    ("private-memory", GPU, "scope(shared)", "scope(local)", "S is local, but the threads of `for t in 0..32"),
    ("buffer-form", GPU, "float32[32] scope", "float32[32] align(3) scope", "S is aligned to 3 bytes"),
    ("async-copies", GPU, "barrier block", "async_copy S[t], A[t], 0", "0 elements are copied"),
    ("async-copies", GPU, "barrier block", "async_wait -1", "-1 groups cannot be pending"),
    ("regions", REGION, "for k in 0..4 {", "for k in 0..4 { region { pass }", "a parallel region inside parallel code"),
    ("barrier-place", REGION, "A[i] = 1.0f32", "barrier region", "a barrier inside a parallel loop"),
    ("barrier-place", REGION, "region {\n    for", "if 0 < n {\n    for", "a region barrier outside any"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "text", "old", "new", "why"), REFUSED)
def test_refuses(rule: str, text: str, old: str, new: str, why: str) -> None:
    assert text.count(old) >= 1
    with pytest.raises(VerifyError) as caught:
        verify(parse_function(text.replace(old, new, 1)))
    message = str(caught.value)
    assert f"breaks rule {rule} (" in message
    assert why in message
    assert "^" in message or rule == "buffer-form"
    assert "hint: " in message


def _function(body: Stmt, *buffers: Buffer, stage: str = "scheduled") -> Function:
    return Function("f", tuple(Param(b, "inout") for b in buffers), (), body, {"stage": stage})


WEIGHTS = np.zeros(4, np.float32)


def _malformed() -> list[tuple[str, Function, str]]:
    """Programs that no text says."""
    a, square = (Buffer(n, dtypes.float32, (build.const(4),) * r) for n, r in (("A", 1), ("M", 2)))
    i, other, zero, one = build.var("i"), build.var("j"), build.const(0), build.const(1.0)
    store = ir.Store(a, (zero,), one)
    loop = ir.For(i, zero, zero, store)
    block = ir.Block("B", (Axis(build.var("v"), zero),), (zero,), None, None, store)
    warp = nodes.Call(dtypes.float32, 1, MMA_F16, (one, one, one))
    address = build.address_of(a, (zero,))
    odd = nodes.Binary(dtypes.float32, 1, "add", one, zero)
    table = nodes.Lookup(dtypes.float32, 1, (1.0, 2.0, 3.0), zero)
    full = ir.Alloc(square, ir.Store(square, (zero, zero), one))
    return [
        ("declared-once", _function(ir.Seq((loop, loop)), a), "i is declared a second time"),
        ("declared-once", _function(store, a, a), "A is declared twice by the function"),
        ("variable-in-scope", _function(ir.Check(i < 3, ""), a), "i is declared nowhere"),
        ("variable-in-scope", _function(ir.Seq((loop, ir.Check(i < 3, ""))), a), "i is used outside"),
        ("variable-in-scope", _function(store, replace(a, shape=(other,))), "mentions j, no symbol"),
        ("buffer-in-scope", _function(store), "A is neither a parameter, a constant nor allocated"),
        ("buffer-in-scope", _function(ir.Seq((ir.Alloc(a, store), store))), "A is used outside its alloc"),
        ("block-form", _function(ir.Seq((block, replace(block, axes=(), bindings=()))), a), "a second block B"),
        ("block-form", _function(replace(block, bindings=()), a), "block B has 1 axes and 0 bindings"),
        ("loop-form", _function(replace(loop, kind="bound"), a), "loop i is bound with thread axis None"),
        ("operand-types", _function(replace(store, value=odd), a), "has operands of float32 and int64"),
        ("operand-types", _function(replace(store, value=table), a), "picks from 3 constants, no power of two"),
        ("operand-types", _function(replace(store, value=replace(table, index=one)), a), "is indexed by float32 x 1"),
        ("access-shape", _function(replace(store, indices=()), a), "A has 1 dimension(s), not 0"),
        ("warp-operations", _function(replace(store, value=warp + one), a), "is an operand of something else"),
        ("addresses", _function(ir.Check(address == address, ""), a), "an address is an operand of something else"),
        ("flat-buffers", _function(full, stage="flat"), "M still has a shape"),
        ("read-only", replace(_function(store), constants={a: WEIGHTS}), "A is a constant"),
        ("constant-values", replace(_function(ir.Seq(())), constants={a: WEIGHTS[:3]}), "constant A is float32[4]"),
    ]


@pytest.mark.parametrize(("rule", "function", "why"), _malformed())
def test_refuses_malformed(rule: str, function: Function, why: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(function)
    assert f"breaks rule {rule} (" in str(caught.value)
    assert why in str(caught.value)


def test_every_rule_has_a_program_that_breaks_it() -> None:
    assert {rule.name for rule in RULES} == {row[0] for row in REFUSED} | {row[0] for row in _malformed()}


def test_error_shows_the_place() -> None:
    with pytest.raises(VerifyError) as caught:
        verify(parse_function(MATMUL.replace("A[vi, vr]", "A[i, vr]")))
    lines = str(caught.value).splitlines()
    assert lines[0] == "matmul breaks rule block-axes (scheduled): block C uses i of a loop outside"
    marked = next(k for k, line in enumerate(lines) if line.strip() == "^")
    assert lines[marked - 1][lines[marked].index("^")] == "i"
    assert sum("^" in line for line in lines) == 1


def test_unknown_stage() -> None:
    with pytest.raises(VerifyError, match="matmul has stage 'late'"):
        verify(replace(parse_function(MATMUL), attrs={"stage": "late"}))


MODULE = """
module entry f
func f(A: inout float32[n]) symbols(n) { call g([A], [n]) }
func g(A: inout float32[n]) symbols(n) { pass }
"""


def test_modules() -> None:
    verify_module(parse_module(MODULE))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("call g", "call h", "the module has no function h; it has f, g"),
        ("[A], [n]", "[A], []", "g takes 1 buffer(s) and 1 extent(s)"),
        ("g(A: inout float32", "g(A: inout float64", "A is float32, g takes float64"),
    ],
)
def test_module_calls(old: str, new: str, why: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify_module(parse_module(MODULE.replace(old, new)))
    assert "breaks rule calls" in str(caught.value)
    assert why in str(caught.value)


def test_module_entry() -> None:
    with pytest.raises(VerifyError, match="no function f to enter"):
        verify_module(Module({}, "f"))
