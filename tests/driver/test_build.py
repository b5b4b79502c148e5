"""`lpx.build` and `lpx.lower_program`: what they take, what they refuse, and every form they show."""

from __future__ import annotations

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.driver.build import Program
from lpx.errors import CompileError, TargetError
from lpx.ir.parser import parse_function
from lpx.passes import pipeline
from lpx.schedule import create_schedule
from lpx.target import Target
from tests.driver.programs import matmul, minimum_and_maximum, normal, scaled_sum, weighted

A, B = normal(100), normal(100, seed=1)
REGISTERS = {  # a vector register that only this target's code has
    "cpu:haswell": "%ymm",
    "cpu:skylake-avx512": "%zmm",
    "cpu:aarch64-unknown-linux-gnu/cortex-a76": ".4s",
    "cpu:neoverse-v1": "z0.s",
}


@pytest.mark.parametrize(
    "program",
    [scaled_sum(100), [scaled_sum(100)], te.lower(scaled_sum(100)), create_schedule(scaled_sum(100))],
    ids=["tensor", "list", "function", "schedule"],
)
def test_every_kind_of_program(program: Program) -> None:
    kernel = lpx.build(program)
    np.testing.assert_array_equal(kernel(A, B), A * 2 + B)


def test_a_lowered_function_is_built_as_it_stands() -> None:
    flat = pipeline.lower(te.lower(scaled_sum(100)), Target.parse("cpu")).function
    kernel = lpx.build(flat)
    np.testing.assert_array_equal(kernel(A, B), A * 2 + B)
    assert not kernel.forms.notes


def test_several_outputs_come_back_as_a_tuple() -> None:
    low, high = lpx.build(minimum_and_maximum(100))(A, B)
    np.testing.assert_array_equal(low, np.minimum(A, B))
    np.testing.assert_array_equal(high, np.maximum(A, B))


def test_a_schedule_is_built_as_it_stands_and_tensors_by_the_rules() -> None:
    program = scaled_sum(100)
    assert "vectorize" not in str(lpx.build(create_schedule(program)).forms.schedule)
    by_rules = lpx.build(program)
    assert "vectorize" in str(by_rules.forms.schedule)
    assert "C: vectors of" in by_rules.explain()


def test_what_a_kernel_says_of_itself() -> None:
    kernel = lpx.build(scaled_sum(100))
    assert repr(kernel) == "<lpx kernel main(A: float32[100], B: float32[100]) -> (C: float32[100])>"
    assert kernel.explain().startswith(f"kernel {kernel.signature} for cpu:")
    assert kernel.stats["link"] > 0


def test_constants_are_bound_to_the_kernel() -> None:
    weights = normal(5)
    kernel = lpx.build(weighted(weights))
    assert [p.role for p in kernel.signature.parameters] == ["in", "out", "bound"]
    np.testing.assert_array_equal(kernel(np.ones(5, np.float32)), weights)


@pytest.mark.parametrize("is_scheduled", [False, True])
def test_fastmath_is_opt_in(is_scheduled: bool) -> None:
    tensor = matmul(4, 4, 4)
    program: Program = create_schedule(tensor) if is_scheduled else tensor
    assert "reassoc" not in lpx.lower_program(program).llvm
    assert " reassoc " in lpx.lower_program(program, fastmath=["reassoc"]).llvm


def test_an_unknown_fastmath_flag_is_refused() -> None:
    with pytest.raises(CompileError, match="'quick' is no fast-math flag") as refused:
        lpx.build(scaled_sum(4), fastmath=["quick"])
    assert "reassoc" in refused.value.hint


def test_another_machine_is_refused_but_shown() -> None:
    foreign = "cpu:neoverse-v1" if Target.parse("cpu").arch == "x86_64" else "cpu:skylake-avx512"
    with pytest.raises(TargetError, match=r"code for cpu:.* does not run here") as refused:
        lpx.build(scaled_sum(100), foreign)
    assert "lower_program" in refused.value.hint
    assert lpx.lower_program(scaled_sum(100), foreign).asm


@pytest.mark.parametrize("target", REGISTERS)
def test_assembly_for_any_target(target: str) -> None:
    forms = lpx.lower_program(matmul(64, 64, 64), target)
    assert REGISTERS[target] in forms.asm
    assert "fma" in forms.llvm


def test_an_older_processor_of_this_architecture_runs() -> None:
    older = Target.parse("cpu:x86-64-v3")
    if not older.runs_here:
        pytest.skip("needs AVX2")
    kernel = lpx.build(matmul(5, 7, 9), older)
    a, b = normal(5, 7), normal(7, 9)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5, atol=1e-5)
    assert "zmm" not in kernel.forms.asm


def test_the_forms_of_a_kernel() -> None:
    forms = lpx.lower_program(matmul(32, 32, 32))
    assert parse_function(forms.te).stage == "scheduled"
    assert "block C(" in forms.te
    assert "vectorize" not in forms.te
    assert parse_function(forms.ir).stage == "flat"
    assert "define i32 @main(" in forms.llvm
    assert "main:" in forms.asm
    assert any("register tiles" in note for note in forms.notes)


def test_the_forms_of_a_function_with_constants() -> None:
    forms = lpx.lower_program(weighted(normal(5)))
    assert 'const W: float32[5] = "' in forms.te
    assert "W: constant float32[5]" in forms.ir
