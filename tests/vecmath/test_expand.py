"""The interface of `expand`: every function, any lanes, only plain arithmetic; how many operations each takes."""

from __future__ import annotations

import pytest

from lpx.errors import InternalError
from lpx.expr import build, nodes, ops, traverse
from lpx.expr.nodes import Call, Expr
from lpx.expr.vecmath import EXPANSIONS, constants, expand
from lpx.expr.vecmath.quarter_turns import TWO_OVER_PI
from tests.support import Golden
from tests.vecmath.multiprecision import mp

ARITHMETIC = (nodes.Unary, nodes.Binary, nodes.Compare, nodes.Select, nodes.Cast, nodes.Bitcast, nodes.Lookup)
OPERANDS = (nodes.Const, nodes.Var, nodes.Broadcast)


def _call(name: str, dtype: str, lanes: int = 1) -> Call:
    args = [build.broadcast(build.var(x, dtype), lanes) for x in ("x", "y")[: ops.MATH[name].arity]]
    call = build.call(name, *args)
    assert isinstance(call, Call)
    return call


def _operations(expr: Expr) -> list[Expr]:
    return [node for node in traverse.walk(expr) if not isinstance(node, OPERANDS)]


def test_every_function_has_an_expansion() -> None:
    assert list(ops.MATH) == sorted(EXPANSIONS, key=list(ops.MATH).index)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ops.MATH)
def test_expansion_is_plain_arithmetic_of_the_same_type(name: str, dtype: str) -> None:
    for lanes in (1, 8):
        expanded = expand(_call(name, dtype, lanes))
        assert (expanded.dtype.name, expanded.lanes) == (dtype, lanes)
        for node in _operations(expanded):
            assert isinstance(node, ARITHMETIC) or (isinstance(node, Call) and node.op.kind == "primitive")


@pytest.mark.parametrize("name", ops.MATH)
def test_lanes_do_not_change_the_operations(name: str) -> None:
    scalar, vector = (expand(_call(name, "float32", lanes)) for lanes in (1, 4))
    assert [type(n) for n in _operations(scalar)] == [type(n) for n in _operations(vector)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_refused(dtype: str) -> None:
    with pytest.raises(InternalError, match=f"float32 and float64, not {dtype}"):
        expand(_call("exp", dtype))


def test_other_operations_are_refused() -> None:
    call = build.call("sqrt", build.var("x", "float32"))
    assert isinstance(call, Call)
    with pytest.raises(InternalError, match="sqrt is no mathematical function"):
        expand(call)


def test_number_of_operations(golden: Golden) -> None:
    """A change shows here what it costs: time is about in proportion."""
    rows = [f"{'':10}{'float32':>9}{'float64':>9}"]
    for name in ops.MATH:
        single, double = (len(_operations(expand(_call(name, dtype)))) for dtype in ("float32", "float64"))
        rows.append(f"{name:10}{single:9}{double:9}")
    golden("operations.txt", "\n".join(rows))


CONSTANTS = {
    "LN2": lambda: mp.log(2),
    "HALF_LN2": lambda: mp.log(2) / 2,
    "LOG2_E": lambda: 1 / mp.log(2),
    "LOG10_E": lambda: 1 / mp.log(10),
    "LOG10_2": lambda: mp.log10(2),
    "PI": lambda: +mp.pi,
    "HALF_PI": lambda: mp.pi / 2,
    "INVERSE_HALF_PI": lambda: 2 / mp.pi,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_digits_of_constants(name: str) -> None:
    with mp.workdps(90):
        true = CONSTANTS[name]()
        assert abs(mp.mpf(getattr(constants, name).digits) - true) < abs(true) * mp.mpf(10) ** -78


def test_bits_of_two_over_pi() -> None:
    with mp.workprec(1400):
        error = 2 / mp.pi - mp.mpf(TWO_OVER_PI.numerator) / TWO_OVER_PI.denominator
        assert 0 <= error < mp.mpf(2) ** -1280
