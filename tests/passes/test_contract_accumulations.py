"""Which accumulations are contracted, and which never are."""

from __future__ import annotations

import pytest

from lpx.ir.printer import print_function
from lpx.passes.contract_accumulations import ContractAccumulations
from tests.passes.support import apply, parse


def _after(update: str, dtype: str = "float32", kind: str = "reduce", attrs: str = "") -> str:
    init = f"init {{ B[vi] = {dtype}(0.0f32) }}" if kind == "reduce" else ""
    function = parse(
        f"""func f(A: in {dtype}[4, 6], W: in {dtype}[6], B: inout {dtype}[4]) {attrs} {{
          for i in 0..4 {{
            for r in 0..6 {{ block B(vi: spatial 4 = i, vr: {kind} 6 = r) {{ {init} B[vi] = {update} }} }}
          }}
        }}"""
    )
    return print_function(apply(function, ContractAccumulations()))


@pytest.mark.parametrize(
    ("update", "contracted"),
    [
        ("B[vi] + A[vi, vr] * W[vr]", "fma(A[vi, vr], W[vr], B[vi])"),
        ("A[vi, vr] * W[vr] + B[vi]", "fma(A[vi, vr], W[vr], B[vi])"),
        ("B[vi] - A[vi, vr] * W[vr]", "fma(-A[vi, vr], W[vr], B[vi])"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_accumulations_of_products(update: str, contracted: str, dtype: str) -> None:
    assert contracted in _after(update, dtype)


@pytest.mark.parametrize(
    "update",
    [
        "A[vi, vr] * W[vr] - B[vi]",
        "B[vi] + (A[vi, vr] + W[vr])",
        "B[vi] + (A[vi, vr] * W[vr] + W[vr])",
        "B[3 - vi] + A[vi, vr] * W[vr]",
        "B[vi] * A[vi, vr] + W[vr]",
    ],
)
def test_other_shapes_are_left_alone(update: str) -> None:
    assert "fma" not in _after(update)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32"])
def test_other_dtypes_are_left_alone(dtype: str) -> None:
    assert "fma" not in _after("B[vi] + A[vi, vr] * W[vr]", dtype)


def test_outside_of_a_reduction_nothing_is_contracted() -> None:
    assert "fma" not in _after("B[vi] + A[vi, vr] * W[vr]", kind="sequential")


def test_a_function_can_opt_out() -> None:
    assert "fma" not in _after("B[vi] + A[vi, vr] * W[vr]", attrs="attrs(contract=false)")
