"""The reference interpreter: what statements and expressions do, and what it detects."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lpx import dtypes
from lpx.errors import ArgumentError, LpxError, MemoryAccessError, RuntimeCheckError, ShapeError, UnsupportedError
from lpx.ir.interpreter import interpret
from lpx.ir.parser import parse_function, parse_module
from lpx.ir.printer import constant_digest
from lpx.ir.verify import verify

F32 = np.float32


def run(text: str, *arrays: NDArray[Any], **options: Any) -> None:
    function = parse_function(text)
    verify(function)
    interpret(function, arrays, **options)


def outputs(body: str, count: int, dtype: str = "float32", *inputs: NDArray[Any]) -> list[Any]:
    """What `body` leaves in `C`, a vector of `count`, given inputs `A`, `B`."""
    given = "".join(f"{n}: in {a.dtype}[{a.size}], " for n, a in zip("AB", inputs, strict=False))
    out = np.zeros(count, dtypes.parse(dtype).to_numpy())
    run(f"func f({given}C: out {dtype}[{count}]) {{ {body} }}", *inputs, out)
    return list(out.tolist())


def test_matmul() -> None:
    text = """
    func matmul(A: in float32[m, k], B: in float32[k, n], C: out float32[m, n]) symbols(m, n, k) {
      for i in 0..m parallel { for j in 0..n { for r in 0..k {
        block C(vi: spatial m = i, vj: spatial n = j, vr: reduce k = r) {
          init { C[vi, vj] = 0.0f32 }
          C[vi, vj] = fma(A[vi, vr], B[vr, vj], C[vi, vj])
        }
      } } }
    }"""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (5, 7)).astype(F32), rng.integers(-9, 9, (7, 3)).astype(F32)
    for seed in (None, 1, 2):
        c = np.full((5, 3), np.nan, F32)
        run(text, a, b, c, seed=seed)
        np.testing.assert_array_equal(c, a @ b)


def test_each_operation_rounds_to_its_dtype() -> None:
    assert outputs("C[0] = 1.0f32 + 1e-9f32 - 1.0f32", 1) == [0.0]
    assert outputs("C[0] = 256.0bf16 + 1.0bf16", 1, "bfloat16") == [256.0]
    assert outputs("C[0] = 65504.0f16 * 2.0f16", 1, "float16") == [np.inf]
    assert outputs("C[0] = 100i8 + 100i8", 1, "int8") == [-56]


@pytest.mark.parametrize(
    ("expr", "lanes"),
    [
        ("ramp(5, -2, 4)", [5, 3, 1, -1]),
        ("broadcast(7, 4)", [7] * 4),
        ("ramp(0, 1, 4) * ramp(1, 1, 4)", [0, 2, 6, 12]),
        ("shuffle([ramp(0, 1, 4), ramp(10, 1, 2)], [5, 0, 3, 3])", [11, 0, 3, 3]),
        ("select(ramp(0, 1, 4) < broadcast(2, 4), ramp(0, 1, 4), broadcast(9, 4))", [0, 1, 9, 9]),
        ("int64(ramp(0i32, 3i32, 4))", [0, 3, 6, 9]),
        ("A[ramp(6, -2, 4)]", [6, 4, 2, 0]),
        ("A[A[ramp(0, 2, 4)]]", [0, 2, 4, 6]),
        ("A[ramp(6, 1, 4), mask=ramp(6, 1, 4) < broadcast(8, 4)]", [6, 7, 0, 0]),
        ("select(ramp(6, 1, 4) < broadcast(8, 4), A[ramp(6, 1, 4)], broadcast(-1, 4))", [6, 7, -1, -1]),
        ("broadcast(reduce(add, ramp(0, 1, 5)), 4)", [10] * 4),
        ("broadcast(shuffle([ramp(3, 1, 4)], [2]), 4)", [5] * 4),
        ("int64(lookup([10.0f32, 20.0f32, 30.0f32, 40.0f32], ramp(-1, 2, 4)))", [40, 20, 40, 20]),
        ("int64(broadcast(lookup([1.5f64, -2.0f64], 7u8), 4))", [-2] * 4),
        ("select(unlikely(ramp(6, 1, 4) < broadcast(8, 4)), A[ramp(6, 1, 4)], broadcast(-1, 4))", [6, 7, -1, -1]),
    ],
)
def test_vectors_are_lanes(expr: str, lanes: list[int]) -> None:
    assert outputs(f"C[ramp(0, 1, 4)] = {expr}", 4, "int64", np.arange(8)) == lanes


def test_horizontal_reduce_halves() -> None:
    # (x0 + x2) and (x1 + x3), x4 carried over; then (sum02 + sum13), x4; then their sum.
    values = np.array([1e8, 1.0, -1e8, 1.0, 0.5], F32)
    assert outputs("C[0] = reduce(add, A[ramp(0, 1, 5)])", 1, "float32", values) == [2.5]
    left_to_right = np.array([1e8, 1.0, 1.0, -1e8, 0.5], F32)
    assert outputs("C[0] = reduce(add, A[ramp(0, 1, 5)])", 1, "float32", left_to_right) == [0.5]


def test_masked_store_leaves_the_rest() -> None:
    c = np.arange(4.0, dtype=F32)
    run(
        "func f(C: inout float32[4]) { C[ramp(2, 1, 4), mask=ramp(2, 1, 4) < broadcast(4, 4)] = broadcast(9.0f32, 4) }",
        c,
    )
    assert c.tolist() == [0, 1, 9, 9]


def test_a_store_reads_all_before_it_writes() -> None:
    c = np.array([1, 2, 3, 0])
    run("func f(C: inout int64[4]) { C[ramp(1, 1, 3)] = C[ramp(0, 1, 3)] }", c)
    assert c.tolist() == [1, 1, 2, 3]


def test_control_flow() -> None:
    body = """
    C[0] = 0
    C[1] = 10
    while C[0] < 5 { C[0] = C[0] + 2 }
    for i in 3..+2 { if i == 3 { C[1] = C[1] * 2 } else { C[1] = C[1] + 1 } }
    for i in 0..(0 - 3) { C[1] = 0 }
    { let x = C[1] C[1] = 0 C[2] = x }
    """
    assert outputs(body, 3, "int64") == [6, 0, 21]


def test_blocks_start_where_reduce_axes_are_zero_and_skip_by_predicate() -> None:
    body = """
    for i in 0..4 { for r in 0..3 {
      block C(vi: spatial 4 = i, vr: reduce 3 = r) where i < 3 {
        init { C[vi] = vi * 100 }
        C[vi] = C[vi] + vr + 1
      }
    } }
    C[3] = -1
    """
    assert outputs(body, 4, "int64") == [6, 106, 206, -1]


def test_shared_nodes_are_computed_once() -> None:
    lines = "\n".join(f"${k} = ${k - 1} + ${k - 1}" for k in range(1, 60))
    assert outputs(f"$0 = A[0] + 0\n{lines}\nC[0] = $59", 1, "int64", np.array([1])) == [2**59]


def test_deep_expressions() -> None:
    lines = "\n".join(f"${k} = ${k - 1} + A[0]" for k in range(1, 3000))
    assert outputs(f"$0 = A[0] + 0\n{lines}\nC[0] = $2999", 1, "int64", np.array([1])) == [3000]


def test_mathematical_functions_are_close() -> None:
    x = np.linspace(0.1, 0.9, 8, dtype=F32)
    for name in ("exp", "log", "tanh", "sin", "erf", "rsqrt"):
        got = np.array(outputs(f"for i in 0..8 {{ C[i] = {name}(A[i]) }}", 8, "float32", x))
        expected = [1 / math.sqrt(v) if name == "rsqrt" else getattr(math, name)(v) for v in x.tolist()]
        np.testing.assert_allclose(got, expected, rtol=1e-6)


TWO_COPIES = """
alloc T: int64[4]
async_copy T[0], A[0], 2
async_commit
async_copy T[2], A[2], 2
async_commit
async_wait 1
C[0] = T[1]
C[1] = T[2]
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("C[3] = 0", "C[3] is out of bounds: C is int64[3]"),
        ("C[0 - 1] = 0", "C[-1] is out of bounds: C is int64[3]"),
        ("C[0] = A[8]", "A[8] is out of bounds: A is int64[8]"),
        ("C[0] = A[A[7] + A[1]]", "A[8] is out of bounds"),
        ("C[ramp(0, 1, 4)] = broadcast(0, 4)", "C[3] is out of bounds"),
        ("C[0] = C[1]", "C[1] is read before it is written"),
        ("alloc T: int64[2] T[0] = 1 C[0] = T[1]", "T[1] is read before it is written"),
        ("atomic add C[0], 1", "C[0] is read before it is written"),
        ("for i in 0..2 { C[i] = 1 }", "C[2] is never written"),
        ("alloc T: int64[2] async_copy T[0], A[0], 2 async_commit C[0] = T[0]", "T[0] is read before it is written"),
        ("alloc T: int64[2] async_copy T[0], A[0], 2 async_wait 0 C[0] = T[0]", "T[0] is read before"),
        ("alloc T: int64[2] async_copy T[1], A[0], 2", "T[2] is out of bounds"),
        (TWO_COPIES, "T[2] is read before it is written"),
    ],
)
def test_detects_wrong_use_of_memory(body: str, message: str) -> None:
    with pytest.raises(MemoryAccessError, match=re.escape(message)):
        outputs(body, 3, "int64", np.arange(8))


def test_memory_error_names_statement_and_variables() -> None:
    with pytest.raises(MemoryAccessError) as caught:
        outputs("for i in 0..9 { for j in 0..2 { C[i] = A[i] + j } }", 9, "int64", np.arange(8))
    assert str(caught.value) == "A[8] is out of bounds: A is int64[8]\n  hint: in `C[i] = A[i] + j` at i = 8, j = 0"


def test_unchecked_memory_starts_as_zero() -> None:
    c = np.array([5, 6])
    function = parse_function("func f(C: out int64[2]) { alloc T: int64[1] C[0] = C[0] + T[0] }")
    interpret(function, [c], checked=False)
    assert c.tolist() == [5, 6]


def test_failed_checks() -> None:
    with pytest.raises(RuntimeCheckError, match="too small"):
        outputs('check 3 < 2, "too small"', 0, "int64")
    with pytest.raises(RuntimeCheckError, match="lane"):
        outputs('check ramp(0, 1, 4) < broadcast(3, 4), "lane"', 0, "int64")
    with pytest.raises(RuntimeCheckError, match="integer division by zero"):
        outputs("C[0] = 1 // A[0]", 1, "int64", np.array([0]))


def test_untaken_side_is_not_computed() -> None:
    zero = np.array([0])
    assert outputs("C[0] = select(A[0] == 0, 1, 1 // A[0])", 1, "int64", zero) == [1]
    assert outputs("$0 = A[5] + 1\nC[0] = select(A[0] == 0, 1, $0 * $0)", 1, "int64", zero) == [1]


def test_extents_follow_from_arrays_or_are_given() -> None:
    text = "func f(C: out int64[n * 2]) symbols(n) { for i in 0..n * 2 { C[i] = n } }"
    c = np.zeros(6, np.int64)
    run(text, c, extents={"n": 3})
    assert c.tolist() == [3] * 6
    with pytest.raises(ArgumentError, match="the extent n of f follows from no array"):
        run(text, c)
    with pytest.raises(ShapeError, match=re.escape("C has shape (4,), but its array has (6,)")):
        run(text, c, extents={"n": 2})
    with pytest.raises(ShapeError, match="the extent n of f is -3"):
        run(text, c, extents={"n": -3})


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ([], ArgumentError, "f takes 1 array(s), not 0"),
        ([np.zeros(2, np.float64)], ArgumentError, "C is float32, but its array is float64"),
        ([np.zeros((2, 2), F32)], ShapeError, "spans 2 elements of memory"),
    ],
)
def test_refuses_arguments(arrays: list[NDArray[Any]], error: type[LpxError], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        run("func f(C: out float32[2]) { C[0] = 0.0f32 C[1] = 0.0f32 }", *arrays)


def test_an_error_leaves_arrays_alone() -> None:
    c = np.array([1.0, 2.0], F32)
    with pytest.raises(MemoryAccessError):
        run("func f(C: inout float32[2]) { C[0] = 9.0f32 C[2] = 9.0f32 }", c)
    assert c.tolist() == [1, 2]


def test_overlapping_arrays_behave_as_copies() -> None:
    memory = np.arange(5, dtype=np.int64)
    run("func f(A: in int64[4], C: out int64[4]) { for i in 0..4 { C[i] = A[i] * 10 } }", memory[:4], memory[1:])
    assert memory.tolist() == [0, 0, 10, 20, 30]


def test_flat_functions_see_memory() -> None:
    text = 'func f(A: in int64[6], C: out int64[5]) attrs(stage="flat") { for i in 0..5 { C[i] = A[i] } }'
    a = np.arange(6).reshape(2, 3)
    c = np.zeros(5, np.int64)
    run(text, a, c)
    assert c.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(MemoryAccessError, match=re.escape("A[2] is read before it is written")):
        run(text, np.arange(8).reshape(2, 4)[:, :2], c)  # elements 0, 1, 4, 5 of the memory; a gap between


def test_layouts_of_parameters() -> None:
    text = """
    func f(A: in int64[4] layout((i) -> (i % 2, i // 2) in [2, 2]), C: out int64[4]) {
      for i in 0..4 { C[i] = A[i] }
    }"""
    c = np.zeros(4, np.int64)
    run(text, np.array([[0, 1], [2, 3]]), c)
    assert c.tolist() == [0, 2, 1, 3]


def test_constants_and_calls() -> None:
    weights = np.array([2, 3])
    text = """
    module entry f
    func f(A: in int64[n], C: out int64[n]) symbols(n) {
      const W: int64[2] = "DIGEST"
      alloc T: int64[n]
      call scale([A, W, T], [n])
      call scale([T, W, C], [n])
    }
    func scale(X: in int64[n], W: in int64[2], Y: out int64[n]) symbols(n) { for i in 0..n { Y[i] = X[i] * W[i % 2] } }
    """
    module = parse_module(text.replace("DIGEST", constant_digest(weights)), [weights])
    c = np.zeros(4, np.int64)
    interpret(module.functions["f"], [np.array([1, 1, 2, 2]), c], module=module)
    assert c.tolist() == [4, 9, 8, 18]
    with pytest.raises(ArgumentError, match="there is no function scale to call"):
        interpret(module.functions["f"], [np.array([1, 1, 2, 2]), c])


def test_extern_without_meaning() -> None:
    with pytest.raises(UnsupportedError, match="does not know what extern operation mystery computes"):
        outputs('C[0] = extern["mystery", any, same, 1](1)', 1, "int64")


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_ml_dtypes_come_and_go(dtype: str) -> None:
    a = np.array([0, 1, 2, 7], dtypes.parse(dtype).to_numpy())
    c = np.zeros_like(a)
    run(f"func f(A: in {dtype}[4], C: out {dtype}[4]) {{ for i in 0..4 {{ C[i] = A[3 - i] }} }}", a, c)
    assert c.astype(F32).tolist() == [7, 2, 1, 0]
