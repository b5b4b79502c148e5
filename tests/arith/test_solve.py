"""Where conditions certainly hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lpx.arith.analyzer import Analyzer
from lpx.arith.solve import certain_range, conjuncts
from lpx.expr import build
from lpx.expr.nodes import Expr
from tests.arith.evaluator import evaluate
from tests.arith.printing import text

N, IO, II, K = build.var("n"), build.var("io"), build.var("ii"), build.var("k")
ANALYZER = Analyzer().with_range(N, 0, None).with_range(IO, 0, (N + 31) // 32).with_range(II, 0, 32).with_range(K, 0, 3)


def shown(cond: Expr) -> tuple[str | None, str | None] | None:
    found = certain_range(cond, IO, [II, K], ANALYZER)
    if found is None:
        return None
    return tuple(None if side is None else text(side) for side in (found.low, found.high))  # type: ignore[return-value]


def test_upper_end_of_a_split_loop() -> None:
    assert shown(IO * 32 + II < N) == (None, "n // 32")
    assert shown(N > IO * 32 + II) == (None, "n // 32")


def test_lower_end_of_a_padded_loop() -> None:
    assert shown(IO * 2 + K - 1 >= 0) == ("1", None)
    assert shown(IO + K >= 1) == ("1", None)


def test_conjunction_gives_both_ends() -> None:
    assert shown((IO - 1 + K >= 0) & (IO - 1 + K < N)) == ("1", "n - 1")


def test_condition_that_always_holds_has_no_ends() -> None:
    assert shown(IO * 32 < N) == (None, None)


def test_conditions_that_are_not_understood() -> None:
    assert shown(II < 16) is None
    assert shown(IO * IO < N) is None
    assert shown(build.compare("eq", IO, 3)) is None
    assert shown((IO * 32 + II < N) | (IO < 3)) is None
    assert shown(IO * N + II < N) is None


def test_inner_range_that_depends_on_the_variable() -> None:
    j = build.var("j")
    analyzer = Analyzer().with_range(N, 0, None).with_range(IO, 0, None).with_range(j, 0, IO)
    found = certain_range(IO + j < N, IO, [j], analyzer)
    assert found is not None
    assert found.high is not None
    assert text(found.high) == "(n // 2) + 1"


def test_conjuncts_are_in_order() -> None:
    a, b, c = IO < N, II < N, K < N
    assert [x is y for x, y in zip(conjuncts((a & b) & c), (a, b, c), strict=True)] == [True] * 3


@given(st.integers(-4, 4), st.integers(-3, 3), st.integers(-9, 9), st.sampled_from(("lt", "le")), st.integers(0, 40))
def test_condition_holds_within_the_range(a: int, b: int, c: int, op: str, n: int) -> None:
    x, inner = build.var("x"), build.var("inner")
    analyzer = Analyzer().with_range(N, 0, None).with_range(x, -30, 30).with_range(inner, 0, 5)
    cond = build.compare("lt" if op == "lt" else "le", x * a + inner * b + c, N)
    found = certain_range(cond, x, [inner], analyzer)
    if found is None:
        return
    low = -30 if found.low is None else evaluate(found.low, {N: n})
    high = 30 if found.high is None else evaluate(found.high, {N: n})
    held = [all(evaluate(cond, {x: v, inner: w, N: n}) for w in range(5)) for v in range(-30, 30)]
    claimed = [low <= v < high for v in range(-30, 30)]
    assert all(h for h, c in zip(held, claimed, strict=True) if c)
    assert held == claimed  # one comparison is solved exactly
