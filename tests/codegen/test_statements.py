"""Control flow, checks, calls, atomics, copies, interruption."""

from __future__ import annotations

import numpy as np
import pytest

from lpx import dtypes
from lpx.codegen.checks import INTERRUPTED
from lpx.codegen.cpu import lower_to_llvm
from lpx.errors import CompileError, InternalError
from lpx.expr import build
from lpx.expr.nodes import BinaryOp, Expr
from lpx.expr.ops import Op
from lpx.ir import nodes as ir
from lpx.ir.hardware import BF16_DOT, PREFETCH, VNNI_DOT
from lpx.ir.traverse import sequence
from lpx.target import Target
from tests.codegen.harness import (
    BASELINE,
    HOST,
    Array,
    Guard,
    assembly,
    buffer,
    check,
    elementwise,
    function,
    load,
    run,
    serial,
    store,
)


def increment(a: Expr) -> Expr:
    return a + 1.0


def double(a: Expr) -> Expr:
    return a + a


def test_branches_lets_and_loops_from_any_start() -> None:
    n = build.var("n")
    a, r = buffer("A", "int32", n), buffer("R", "int32", n)
    i, x = build.var("i"), build.var("x", "int32")
    body = serial(
        i,
        n - 2,
        ir.Let(
            x,
            load(a, i) * 2,
            sequence(
                [
                    ir.If(build.compare("lt", x, 5), store(r, i, x), store(r, i, -x)),
                    ir.If(build.compare("eq", x, 4), store(r, i, x * 100)),
                ]
            ),
        ),
        start=2,
    )
    program = function("control", {a: "in", r: "inout"}, body, n)
    for size in (0, 1, 2, 3, 10):
        values = (np.arange(size) % 5).astype(np.int32)
        check(program, {"A": values, "R": np.full(size, 9, np.int32)}, {"n": size})


def test_while_counts_the_collatz_steps() -> None:
    r = buffer("R", "int64", 2)
    x, steps = load(r, 0), load(r, 1)
    even = build.compare("eq", x % 2, 0)
    body = ir.While(
        build.compare("ne", x, 1),
        sequence([store(r, 1, steps + 1), store(r, 0, build.select(even, x // 2, x * 3 + 1))]),
    )
    check(function("collatz", {r: "inout"}, body), {"R": np.array([27, 0])})


def test_loops_of_32_bit_variables() -> None:
    a, r = buffer("A", "float32", 64), buffer("R", "float32", 64)
    i = build.var("i", "int32")
    index = build.ramp(i * 16 + 0, 1, 16)
    body = serial(i, build.const(4, "int32"), store(r, index, load(a, index) + 1.0), start=build.const(0, "int32"))
    program = function("narrow", {a: "in", r: "out"}, body)
    check(program, {"A": np.arange(64, dtype=np.float32), "R": np.zeros(64, np.float32)})


def checked(lanes: int, kind: ir.ForKind = "serial") -> ir.Function:
    """Copies A, and wants its elements below 100 and not 13."""
    a, r = buffer("A", "int32", 64), buffer("R", "int32", 64)
    i = build.var("i")
    index = build.ramp(i * lanes, 1, lanes) if lanes > 1 else i
    body = serial(
        i,
        64 // lanes,
        ir.Check(build.compare("lt", load(a, index), 100), "an element is too large"),
        ir.Check(build.compare("ne", load(a, index), 13), "an element is unlucky"),
        store(r, index, load(a, index)),
        kind=kind,
    )
    return function("checked", {a: "in", r: "inout"}, body)


@pytest.mark.parametrize("kind", ["serial", "parallel"])
@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_a_failed_check_is_its_number(lanes: int, kind: ir.ForKind) -> None:
    program = checked(lanes, kind)
    messages = [c.message for c in lower_to_llvm(program, HOST).checks]
    assert messages == ["an element is too large", "an element is unlucky"]
    for position in (0, 37, 63):
        for value, status in ((5, 0), (100, 1), (13, 2)):
            a = np.zeros(64, np.int32)
            a[position] = value
            assert run(program, [a, np.zeros(64, np.int32)]) == status


def test_a_failed_check_stops_the_kernel_at_once() -> None:
    a, r = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    assert run(checked(1), [a, r]) == 2
    np.testing.assert_array_equal(r, np.where(a < 13, a, 0))


def test_copies_of_a_check_share_a_number() -> None:
    a = buffer("A", "int32", 1)
    body = sequence([ir.Check(build.compare("ne", load(a, 0), k % 2), f"check {k % 2}") for k in range(6)])
    assert len(lower_to_llvm(function("copies", {a: "in"}, body), HOST).checks) == 2


# --- parallel ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 64])
def test_parallel_loops_cover_every_iteration_once(size: int, threads: int) -> None:
    n, x = build.var("n"), build.var("x", "float32")
    a, r = buffer("A", "float32", n), buffer("R", "float32", n)
    i = build.var("i")
    body = ir.Let(x, build.const(3.0), serial(i, n, store(r, i, load(r, i) + load(a, i) * x), kind="parallel"))
    program = function("axpy", {a: "in", r: "inout"}, body, n)
    a_values, r_values = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
    assert run(program, [a_values, r_values], [size], threads=threads) == 0
    np.testing.assert_array_equal(r_values, 1 + 3 * np.arange(size, dtype=np.float32))


def test_iterations_are_shared_evenly() -> None:
    r = buffer("R", "int64", 7)
    i, j = build.var("i"), build.var("j")
    counter = buffer("T", "int64", 1, scope="local")
    # Each thread counts its own iterations in memory it allocates in the region.
    shared_loop = serial(i, 7, store(counter, 0, load(counter, 0) + 1), store(r, i, load(counter, 0)), kind="parallel")
    body = ir.ParallelRegion(ir.Alloc(counter, sequence([store(counter, 0, build.const(0)), shared_loop])))
    got = np.zeros(7, np.int64)
    assert run(function("shares", {r: "out"}, body), [got], threads=2) == 0
    np.testing.assert_array_equal(got, [1, 2, 3, 4, 1, 2, 3])
    assert run(function("shares", {r: "out"}, body), [got], threads=1) == 0
    np.testing.assert_array_equal(got, np.arange(1, 8))
    del j


def region_program(size: int) -> ir.Function:
    """T = A + 1; barrier; R[i] = T[size - 1 - i], in one region."""
    a, r = buffer("A", "float32", size), buffer("R", "float32", size)
    t = buffer("T", "float32", size)
    i, j = build.var("i"), build.var("j")
    first = serial(i, size, store(t, i, load(a, i) + 1.0), kind="parallel")
    second = serial(j, size, store(r, j, load(t, size - 1 - j)), kind="parallel")
    region = ir.ParallelRegion(sequence([first, ir.Barrier("region"), second]))
    return function("region", {a: "in", r: "out"}, ir.Alloc(t, region))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 5, 30_000])
def test_barriers_order_the_loops_of_a_region(size: int, threads: int) -> None:
    a, r = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    for _ in range(5):
        r[...] = 0
        assert run(region_program(size), [a, r], threads=threads) == 0
        np.testing.assert_array_equal(r, a[::-1] + 1)


def test_a_failure_before_a_barrier_lets_nobody_wait() -> None:
    a, r = buffer("A", "int32", 64), buffer("R", "int32", 64)
    i, j = build.var("i"), build.var("j")
    first = serial(i, 64, ir.Check(build.compare("lt", load(a, i), 50), "large"), kind="parallel")
    second = serial(j, 64, store(r, j, load(a, j)), kind="parallel")
    body = ir.ParallelRegion(sequence([first, ir.Barrier("region"), second]))
    for _ in range(20):
        assert (
            run(function("fails", {a: "in", r: "inout"}, body), [np.arange(64, dtype=np.int32), np.zeros(64, np.int32)])
            == 1
        )


def test_parallel_loops_inside_parallel_loops_are_serial() -> None:
    r = buffer("R", "int64", 24)
    i, j = build.var("i"), build.var("j")
    inner = serial(j, 6, store(r, i * 6 + j, i * 100 + j), kind="parallel")
    program = function("nested", {r: "out"}, serial(i, 4, inner, kind="parallel"))
    assert lower_to_llvm(program, HOST).text.count("call i32 @lpx_share") == 1
    check(program, {"R": np.zeros(24, np.int64)})


def test_temporaries_in_parallel_loops_are_private() -> None:
    r = buffer("R", "int64", 64)
    i, j = build.var("i"), build.var("j")
    t = buffer("T", "int64", 20_000, scope="local")  # too large for the stack
    fill = serial(j, 20_000, store(t, j, i * 20_000 + j))
    body = serial(i, 64, ir.Alloc(t, sequence([fill, store(r, i, load(t, 19_999))])), kind="parallel")
    got = np.zeros(64, np.int64)
    assert run(function("private", {r: "out"}, body), [got]) == 0
    np.testing.assert_array_equal(got, np.arange(64) * 20_000 + 19_999)


# --- interruption -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_long_kernels_stop_when_interrupted(kind: ir.ForKind) -> None:
    n = build.var("n")
    r = buffer("R", "float32", n)
    i = build.var("i")
    program = function("long", {r: "inout"}, serial(i, n, store(r, i, load(r, i) + 1.0), kind=kind), n)
    assert lower_to_llvm(program, HOST).polls
    values = np.zeros(100_000, np.float32)
    assert run(program, [values], [len(values)], interrupted=True) == INTERRUPTED
    assert run(program, [values], [len(values)]) == 0
    np.testing.assert_array_equal(values, 1)


def test_short_kernels_do_not_poll() -> None:
    program = elementwise("short", "float32", [("A", "float32")], increment, 1024, 16)
    generated = lower_to_llvm(program, HOST)
    assert not generated.polls
    assert "lpx_interrupted" not in generated.text


def test_polls_stay_out_of_the_inner_loop() -> None:
    i, j = build.var("i"), build.var("j")
    r = buffer("R", "float32", 1 << 22)
    inner = serial(j, 1 << 14, store(r, i * (1 << 14) + j, build.const(1.0)))
    text = lower_to_llvm(function("rows", {r: "out"}, serial(i, 256, inner)), HOST).text
    assert text.count("load atomic") == 1


# --- several functions ------------------------------------------------------------------------------------------------


def test_functions_call_each_other() -> None:
    n = build.var("n")
    x, y = buffer("X", "float32", n), buffer("Y", "float32", n)
    i = build.var("i")
    body = sequence(
        [ir.Check(build.compare("lt", load(x, 0), 50.0), "no"), serial(i, n, store(y, i, load(x, i) * 2.0))]
    )
    twice = function("twice", {x: "in", y: "out"}, body, n)
    a, r, t = (buffer(name, "float32", 10) for name in "ART")
    size = (build.const(10),)
    calls = [ir.CallFunction("twice", (a, t), size), ir.CallFunction("twice", (t, r), size)]
    main = function("main", {a: "in", r: "out"}, ir.Alloc(t, sequence(calls)))
    module = ir.Module({"main": main, "twice": twice}, "main")
    check(main, {"A": np.arange(10, dtype=np.float32), "R": np.zeros(10, np.float32)}, module=module)
    assert run(module, [np.full(10, 30.0, np.float32), np.zeros(10, np.float32)]) == 1


def test_bound_constants_reach_called_functions() -> None:
    c, y, r = (buffer(name, "float32", 1000) for name in "CYR")
    i = build.var("i")
    data = np.arange(1000, dtype=np.float32)
    leaf = function("leaf", {y: "out"}, serial(i, 1000, store(y, i, load(c, i))), constants={c: data})
    main = function("main", {r: "out"}, ir.CallFunction("leaf", (r,), ()))
    module = ir.Module({"main": main, "leaf": leaf}, "main")
    assert lower_to_llvm(module, HOST).bound == (c,)
    got = np.zeros(1000, np.float32)
    assert run(module, [got], bound=[data]) == 0
    np.testing.assert_array_equal(got, data)


# --- atomics, copies, hardware ----------------------------------------------------------------------------------------

ATOMIC = [
    *(("int32", op) for op in ("add", "sub", "mul", "min", "max", "bitand", "bitor", "bitxor")),
    *(("float32", op) for op in ("add", "mul", "min", "max")),
    *((dtype, "add") for dtype in ("int8", "uint64", "float64", "float16", "bfloat16")),
    ("bool", "bitor"),
    ("uint16", "max"),
]


@pytest.mark.parametrize(("dtype", "op"), ATOMIC)
def test_atomic_updates(dtype: str, op: BinaryOp) -> None:
    a, r = buffer("A", dtype, 16), buffer("R", dtype, 4)
    i = build.var("i")
    scalar = serial(i, 8, ir.AtomicUpdate(op, r, (i % 4,), load(a, i)))
    vector = ir.AtomicUpdate(op, r, (build.ramp(0, 1, 4),), load(a, build.ramp(8, 1, 4)))
    program = function("update", {a: "in", r: "inout"}, sequence([scalar, vector]))
    kind = dtypes.parse(dtype).to_numpy()
    values = (np.arange(16) % 2 == 0) if dtype == "bool" else (np.arange(16) % 5 + 1).astype(kind)
    check(program, {"A": values, "R": values[:4][::-1].copy()})


def test_atomic_updates_of_many_threads_lose_nothing() -> None:
    for dtype in ("int64", "float64", "bfloat16"):
        r = buffer("R", dtype, 1)
        i = build.var("i")
        one = build.const(1, dtype)
        body = serial(
            i,
            100_000 if dtype != "bfloat16" else 200,
            ir.AtomicUpdate("add", r, (build.const(0),), one),
            kind="parallel",
        )
        got = np.zeros(1, dtypes.parse(dtype).to_numpy())
        assert run(function("count", {r: "inout"}, body), [got]) == 0
        assert float(got[0]) == (100_000 if dtype != "bfloat16" else 200)


@pytest.mark.parametrize("count", [1, 3, 16, 17, 100, 259])
@pytest.mark.parametrize("guard", ["after", "before"])
def test_copies_move_exactly_their_elements(count: int, guard: Guard) -> None:
    a, r = buffer("A", "float32", count), buffer("R", "float32", count)
    zero = (build.const(0),)
    steps: list[ir.Stmt] = [ir.AsyncCopy(r, zero, a, zero, count), ir.AsyncCommit(), ir.AsyncWait(0)]
    program = function("copy", {a: "in", r: "out"}, sequence(steps))
    inputs = {"A": np.arange(count, dtype=np.float32), "R": np.zeros(count, np.float32)}
    check(program, inputs, guard=guard)


def dot_program(op: Op, lanes: int, kinds: tuple[str, str, str], group: int) -> ir.Function:
    t, u, s = kinds
    a, b, c, r = (
        buffer("A", t, lanes),
        buffer("B", u, lanes * group),
        buffer("C", s, lanes * group),
        buffer("R", t, lanes),
    )
    narrow = build.ramp(0, 1, lanes * group)
    args: list[Expr] = [load(a, build.ramp(0, 1, lanes)), load(b, narrow), load(c, narrow)]
    value = build.hardware_call(op, args)
    return function("dot", {a: "in", b: "in", c: "in", r: "out"}, store(r, build.ramp(0, 1, lanes), value))


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_dot_product_instructions(lanes: int) -> None:
    if not HOST.cpu.has("avx512vnni") or not HOST.cpu.has("avx512bf16"):
        pytest.skip("this processor has no dot product instructions")
    rng = np.random.default_rng(lanes)
    program = dot_program(VNNI_DOT, lanes, ("int32", "uint8", "int8"), 4)
    inputs: dict[str, Array] = {
        "A": rng.integers(-(1 << 31), 1 << 31, lanes).astype(np.int32),
        "B": rng.integers(0, 256, 4 * lanes).astype(np.uint8),
        "C": rng.integers(-128, 128, 4 * lanes).astype(np.int8),
        "R": np.zeros(lanes, np.int32),
    }
    check(program, inputs, targets=(HOST,))
    assert "vpdpbusd" in assembly(lower_to_llvm(program, HOST), HOST)
    program = dot_program(BF16_DOT, lanes, ("float32", "bfloat16", "bfloat16"), 2)
    bfloat16 = dtypes.bfloat16.to_numpy()
    floats: dict[str, Array] = {
        "A": rng.standard_normal(lanes).astype(np.float32),
        "B": rng.standard_normal(2 * lanes).astype(bfloat16),
        "C": rng.standard_normal(2 * lanes).astype(bfloat16),
        "R": np.zeros(lanes, np.float32),
    }
    check(program, floats, targets=(HOST,))
    assert "vdpbf16ps" in assembly(lower_to_llvm(program, HOST), HOST)


def test_an_instruction_the_target_lacks_is_an_error() -> None:
    program = dot_program(VNNI_DOT, 16, ("int32", "uint8", "int8"), 4)
    with pytest.raises(CompileError, match=r"x86\.vpdpbusd of 16 lanes .*\n.*does not have it"):
        lower_to_llvm(program, BASELINE)
    with pytest.raises(CompileError, match="has it for 4, 8, 16 lanes"):
        lower_to_llvm(dot_program(VNNI_DOT, 2, ("int32", "uint8", "int8"), 4), Target.parse("cpu:sapphirerapids"))


def test_prefetch_takes_any_address() -> None:
    a = buffer("A", "float32", 4)
    address = build.address_of(a, (build.const(1 << 30),))
    program = function("ahead", {a: "in"}, ir.Evaluate(build.hardware_call(PREFETCH, [address])))
    assert run(program, [np.zeros(4, np.float32)]) == 0
    assert "prefetch" in assembly(lower_to_llvm(program, HOST), HOST)


def test_extern_functions_are_listed() -> None:
    a = buffer("A", "float64", 1)
    call = build.hardware_call(Op("my_function", 1, "extern", "any"), [load(a, 0)])
    generated = lower_to_llvm(function("calls", {a: "inout"}, store(a, 0, call)), HOST)
    assert generated.externs == ("my_function",)
    assert "declare double @my_function(double)" in generated.text


@pytest.mark.parametrize(
    ("stmt", "message"),
    [
        (ir.Barrier("block"), "a block barrier cannot run on a CPU"),
        (ir.Barrier("region"), "outside of a parallel region"),
        (ir.Alloc(buffer("T", "float32", 4, scope="shared"), ir.Seq(())), "T is in shared memory"),
        (serial(build.var("i"), 4, ir.Seq(()), kind="bound", thread="threadIdx.x"), "bound to threadIdx.x"),
    ],
)
def test_what_a_cpu_lacks_is_an_error(stmt: ir.Stmt, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        lower_to_llvm(function("bad", {}, stmt), HOST)


def test_unlowered_functions_are_refused() -> None:
    with pytest.raises(InternalError, match="is scheduled, not flat"):
        lower_to_llvm(function("early", {}, ir.Seq(()), attrs={"stage": "scheduled"}), HOST)


def test_arithmetic_of_storage_types_is_refused() -> None:
    program = elementwise("half", "float16", [("A", "float16")], double, 8, 8)
    with pytest.raises(InternalError, match="add of float16"):
        lower_to_llvm(program, HOST)
