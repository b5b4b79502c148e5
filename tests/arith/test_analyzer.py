"""What the analyzer makes of index arithmetic as schedules produce it."""

from __future__ import annotations

import pytest

from lpx import dtypes
from lpx.arith.analyzer import Analyzer
from lpx.arith.interval import Interval
from lpx.arith.simplify import simplify
from lpx.errors import InternalError
from lpx.expr import build
from lpx.expr.buffer import Buffer
from lpx.expr.build import binary, broadcast, maximum, minimum, ramp, select
from lpx.expr.nodes import Axis, Expr, Var
from tests.arith.evaluator import evaluate
from tests.arith.printing import text

M, N, I, J, IO, II, F, T, X, Y = (build.var(name) for name in ("m", "n", "i", "j", "io", "ii", "f", "t", "x", "y"))  # noqa: E741
INDICES = Buffer("indices", dtypes.index, (N,))
BYTES = Buffer("bytes", dtypes.uint8, (N,))
ANALYZER = (
    Analyzer()
    .with_range(M, 0, None)
    .with_range(N, 0, None)
    .with_range(I, 0, M)
    .with_range(J, 0, N)
    .with_range(IO, 0, (N + 31) // 32)
    .with_range(II, 0, 32)
    .with_range(F, 0, M * N)
)


@pytest.mark.parametrize(
    ("expr", "want"),
    [
        ((IO * 32 + II) // 32, "io"),
        ((IO * 32 + II) % 32, "ii"),
        ((IO * 128 + II * 4) // 64, "(io * 2) + (ii // 16)"),
        ((IO * 32 + II) // 4 % 8, "ii // 4"),
        ((I * N + J) // N, "i"),
        ((I * N + J) % N, "j"),
        (F // N * N + F % N, "f"),
        (X // 8 * 8 + X % 8, "x"),
        (X % 64 // 8 * 8 + X % 8, "x % 64"),
        (X // 4 // 8, "x // 32"),
        (X % 64 % 8, "x % 8"),
        (X % 64 % 7, "(x % 64) % 7"),
        ((X % 20) // 2 * 2 % 4, "((x // 2) % 2) * 2"),
        ((X * 48 + 241) // 16, "(x * 3) + 15"),
        ((X * 10 + 5) // 10, "x"),
        (X - (-(Y * 5)) // 2 - 1 + (37 - (Y + 7) * 5) // 2, "x"),
        ((X + 3) - 1 + X - X, "x + 2"),
        (minimum(IO * 32 + 32, N) - IO * 32, "min((io * 32) + 32, n) - (io * 32)"),
        (minimum(X + 3, X + 5), "x + 3"),
        (maximum(I, 0), "i"),
        (minimum(II, 40), "ii"),
        (binary("truncdiv", IO * 32 + II, 32), "io"),
        (binary("truncdiv", X * 48 + 241, 16), "truncdiv((x * 48) + 241, 16)"),
        ((IO * 32 + II) & 31, "ii"),
        ((IO * 32 + II) >> 5, "io"),
        (X * 2 + X * 3, "x * 5"),
        (X * N - N * X, "0"),
        (select(X < 5, minimum(X, 7), Y + 0), "select(x < 5, x, y)"),
        (select(I < M, X, Y), "x"),
        (select(I < 0, X, Y), "y"),
        (ramp(IO * 32, 1, 8) // 32, "broadcast(io, 8)"),
        (ramp(IO * 32 + 5, 1, 8) % 32, "ramp(5, 1, 8)"),
        (ramp(X, 32, 4) // 32, "ramp(x // 32, 1, 4)"),
        (ramp(X, 32, 4) % 32, "broadcast(x % 32, 4)"),
        (ramp(X, 1, 4) + Y, "ramp(x + y, 1, 4)"),
        (ramp(X, 1, 4) * 3 - ramp(X, 3, 4), "broadcast(x * 2, 4)"),
        (broadcast(X, 4) * broadcast(Y, 4), "broadcast(x * y, 4)"),
        (ramp(X, 1, 8) // 8, "ramp(x, 1, 8) // broadcast(8, 8)"),
        (build.shuffle([ramp(X, 2, 4)], [3]), "x + 6"),
    ],
)
def test_simplified(expr: Expr, want: str) -> None:
    settled = ANALYZER.simplify(expr)
    assert text(settled) == want
    assert ANALYZER.simplify(settled) is settled


@pytest.mark.parametrize(
    ("expr", "want"),
    [
        (I < M, "True"),
        (X * 4 + 3 < N * 4, "x < n"),
        (X + 3 < Y + 3, "x < y"),
        (IO * 32 + II < 32, "io < 1"),
        (~(X < Y), "y <= x"),
        ((X < N) & (X < N), "x < n"),
        ((X < N) & (X < N + 5), "x < n"),
        ((X < N) & (N <= X), "False"),
        ((X < N) | (N <= X), "True"),
        (X * 2 == Y * 2 + 1, "False"),
        (X * 6 == Y * 12, "x == (y * 2)"),
        ((I < M) & (X < 3), "x < 3"),
        (ramp(II, 1, 8) < N + 40, "broadcast(True, 8)"),
        (build.cast(X < Y, "int32") != 0, "x < y"),
    ],
)
def test_simplified_condition(expr: Expr, want: str) -> None:
    assert text(ANALYZER.simplify(expr)) == want


def unchanged() -> list[Expr]:
    i8, f32 = build.var("a", "int8"), build.var("u", "float32")
    data = build.load(INDICES, [J])
    return [
        I * N + J,
        N - IO * 32,
        (N + 31) // 32,
        (X + 1) * N,
        (X % 64) // 8,
        i8 * 4 // 4,  # wraps
        (i8 + 1) < (i8 + 2),  # wraps
        data * 4 // 4,  # user data of 64 bits wraps too
        data < data + 1,
        f32 + 0.0,
        f32 * 0.0,
        f32 - f32,
        f32 / f32,
        build.compare("eq", f32, f32),
        minimum(f32, 1.0) + f32,
        (f32 + 1.0) + 2.0,
        X // Y * Y,
        build.cast(build.cast(f32, "float16"), "float32"),
        build.cast(build.cast(X, "int8"), "int64"),
    ]


@pytest.mark.parametrize("expr", unchanged(), ids=text)
def test_left_alone(expr: Expr) -> None:
    assert ANALYZER.simplify(expr) is expr


def test_lanes_below_the_quotient_are_seen() -> None:
    expr = ramp(X * 8 + 1, -1, 4) // 8
    assert ANALYZER.simplify(expr) is expr
    assert text(ANALYZER.simplify(ramp(X * 8 + 3, -1, 4) // 8)) == "broadcast(x, 4)"


def test_nothing_is_assumed_of_the_sign_of_an_extent() -> None:
    product = Analyzer().with_range(F, 0, M * N)
    assert not product.prove(M >= 1)
    assert not product.prove(F // N < M)
    analyzer = Analyzer().with_range(N, 1, None)
    nested = X % (N * Y) // N
    settled = analyzer.simplify(nested)
    for x, y in ((7, -2), (-7, -3), (5, 2)):
        values = {X: x, N: 3, Y: y}
        assert evaluate(settled, values) == evaluate(nested, values)
    assert text(analyzer.with_range(Y, 1, None).simplify(nested)) == "(x // n) % y"


def test_shared_nodes_stay_shared() -> None:
    shared = (X + 0) * Y
    settled = simplify(select(shared < N, shared, shared + 1))
    assert text(settled) == "select((x * y) < n, x * y, (x * y) + 1)"


def test_deep_sums_do_not_exhaust_the_stack() -> None:
    total: Expr = X
    for _ in range(3000):
        total = total + Y
    assert text(simplify(total)) == "x + (y * 3000)"


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (X % 64 % 7, 0, 128),
        (X % 20 // 2 * 2 % 4, 0, 300),
        ((X * 48 + 241) // 16, -20, 20),
        ((X * 10 + 5) // 10, -20, 20),
        (binary("truncdiv", X * 48 + 241, 16), -20, 20),
        (binary("truncdiv", X * 10 + 5, 10), -20, 20),
        ((-(X * 5)) // 2 - 1 + (37 - (X + 7) * 5) // 2, -50, 50),
    ],
)
def test_divisions_over_a_whole_range(expr: Expr, low: int, high: int) -> None:
    for settled in (simplify(expr), Analyzer().with_range(X, low, high).simplify(expr)):
        for value in range(low, high):
            assert evaluate(settled, {X: value}) == evaluate(expr, {X: value})


@pytest.mark.parametrize(
    "cond",
    [
        I * N + J < M * N,
        IO * 32 < N,
        F // N < M,
        F % N < N,
        I + 1 <= M,
        M >= 1,
        minimum(IO * 32 + 32, N) <= N,
        minimum(IO * 32 + 32, N) - IO * 32 <= 32,
        minimum(32, N - IO * 32) >= 1,
        maximum(X, Y) >= X,
        (N + 31) // 32 * 32 >= N,
        N // 32 * 32 <= N,
        ramp(II, 1, 4) < 35,
        (I < M) & (J < N),
        (I < 0) | (J >= 0),
        build.cast(build.load(BYTES, [J]), "int64") + 1 <= 256,
        (I + 1) * N <= M * N,
    ],
    ids=text,
)
def test_proved(cond: Expr) -> None:
    assert ANALYZER.prove(cond)
    assert not ANALYZER.prove(~cond)


@pytest.mark.parametrize(
    "cond",
    [
        IO * 32 + II < N,
        I * N + J < M * N - 1,
        X < Y,
        II < 31,
        F // M < M,
        build.load(INDICES, [J]) + 1 > build.load(INDICES, [J]),
    ],
    ids=text,
)
def test_not_proved(cond: Expr) -> None:
    assert not ANALYZER.prove(cond)


def test_facts() -> None:
    inside = ANALYZER.with_fact(IO * 32 + II < N)
    assert inside.prove(IO * 32 + II < N)
    assert inside.prove(IO * 32 + II <= N - 1)
    assert inside.prove(IO * 32 + II < N + 1)
    assert not inside.prove(IO * 32 + II < N - 1)
    assert text(inside.simplify(select(IO * 32 + II < N, X, Y))) == "x"
    assert text(ANALYZER.with_fact(build.compare("eq", II, 3)).simplify(II + 1)) == "4"
    assert Analyzer().with_fact(X < Y).with_fact(Y < N).prove(X + 1 < N)
    assert Analyzer().with_fact(~(X < Y)).prove(Y <= X)
    assert Analyzer().with_fact((X < 5) & (Y < X)).prove(Y < 4)


def test_facts_said_to_be_unlikely() -> None:
    assert Analyzer().with_fact(build.unlikely(X < Y)).prove(X + 1 <= Y)
    assert Analyzer().with_fact(X < Y).prove(build.unlikely(X < Y))
    assert Analyzer().with_fact(~build.unlikely(X < Y)).prove(Y <= X)


def test_facts_about_data() -> None:
    data = build.load(INDICES, [J])
    checked = ANALYZER.with_fact(data >= 0).with_fact(data < N)
    assert checked.prove(data < N)
    assert checked.prove(data >= 0)


def test_analyzers_are_immutable() -> None:
    base = Analyzer()
    narrow = base.with_range(X, 0, 4)
    assert narrow.bounds(X) == Interval(0, 3)
    assert base.bounds(X) == Interval(None, None)
    assert narrow.with_range(X, 10, 12).bounds(X) == Interval(10, 11)
    known = narrow.with_range(Y, 0, X).with_fact(X < N)
    assert known.prove((Y < 3) & (X < N))
    renewed = known.with_range(X, 0, 100)
    assert not renewed.prove(Y < 3)
    assert not renewed.prove(X < N)
    assert Analyzer().with_fact(X < 5).with_range(X, 0, None).bounds(X) == Interval(0, 4)
    assert base.with_axis(Axis(X, build.const(7))).bounds(X) == Interval(0, 6)


@pytest.mark.parametrize(
    ("expr", "want"),
    [
        (II * 4 + 3, Interval(3, 127)),
        (I - M, Interval(None, -1)),
        ((X % 8) * 4 + II, Interval(0, 59)),
        (build.load(BYTES, [J]), Interval(0, 255)),
        (build.load(BYTES, [J]) + build.const(1, "uint8"), Interval(0, 255)),
        (build.cast(build.load(BYTES, [J]), "int32") * 2, Interval(0, 510)),
        (ramp(II, 2, 4), Interval(0, 37)),
        (X < Y, Interval(0, 1)),
        (build.var("u", "float32"), Interval(None, None)),
    ],
    ids=lambda v: text(v) if isinstance(v, Expr) else None,
)
def test_bounds(expr: Expr, want: Interval) -> None:
    assert ANALYZER.bounds(expr) == want


@pytest.mark.parametrize(
    ("expr", "gone", "want"),
    [
        (IO * 32 + II, [II], ("io * 32", "(io * 32) + 31")),
        (I * N + J, [I, J], ("0", "(m * n) - 1")),
        ((I * 2 + II) // 4, [I, II], ("0", "(m // 2) + 7")),
        (X - I, [I], ("(x - m) + 1", "x")),
        (minimum(I, X), [I], ("min(0, x)", "min(m - 1, x)")),
        (F // N, [F], ("0", "m - 1")),
        (X, [I], ("x", "x")),
    ],
)
def test_symbolic_bounds(expr: Expr, gone: list[Var], want: tuple[str, str]) -> None:
    found = ANALYZER.symbolic_bounds(expr, gone)
    assert found is not None
    assert tuple(map(text, found)) == want


@pytest.mark.parametrize("extent", [N // 2, (N + 1) // 2, (N + 1) // 2 + 1, N * 3 // 2, N % 5, minimum(N, M)])
def test_ranges_that_end_at_a_quotient(extent: Expr) -> None:
    known = ANALYZER.with_range(T, 0, extent)
    assert known.prove(extent > T)
    assert not known.prove(extent - 1 > T)


def test_symbolic_bounds_that_are_infinite() -> None:
    assert ANALYZER.symbolic_bounds(X + I, [X]) is None
    assert ANALYZER.symbolic_bounds(X * I, [I]) is None
    assert ANALYZER.symbolic_bounds(build.load(INDICES, [I]), [I]) is None


def test_affine_form() -> None:
    form = ANALYZER.affine((X * 4 + Y) * N - X + 7 + I // 3 * 2)
    assert form is not None
    assert form.constant == 7
    assert [(t.coefficient, [text(a) for a in t.atoms]) for t in form.terms] == [
        (4, ["n", "x"]),
        (1, ["n", "y"]),
        (-1, ["x"]),
        (2, ["i // 3"]),
    ]
    assert form.coefficient(X) is None
    assert form.coefficient(I) is None
    assert form.coefficient(J) == 0
    assert not form.is_linear
    linear = ANALYZER.affine(X * 3 - Y)
    assert linear is not None
    assert linear.coefficient(X) == 3
    assert linear.is_linear
    assert [t.atoms[0] is Y for t in linear.without(X).terms] == [True]
    assert ANALYZER.affine(build.var("u", "float32")) is None


def test_range_bounds_must_be_indices() -> None:
    with pytest.raises(InternalError, match="scalar int64"):
        Analyzer().with_range(X, build.const(0, "int32"), 5)
