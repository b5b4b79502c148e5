"""The command line of the kernel library, and what its registry says of results."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

from lpx_kernels import Draw, case, kernels
from lpx_kernels.__main__ import app
from tests.support import Child


def run(*arguments: str, status: int = 0) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == status, done.output
    return done.output


def test_list_names_every_kernel_and_case() -> None:
    printed = run("list")
    for kernel in kernels().values():
        assert f"  {kernel.name} ({', '.join(kernel.dtypes)}): {kernel.summary}" in printed
        assert all(f"      {measured}\n" in printed for measured in kernel.cases)


def test_show_prints_traces_and_other_forms() -> None:
    schedule = run("show", "five_point", "global_avg_pool")
    assert schedule.count("def apply(s):") >= 2
    assert "# five_point 2048x2048 () ()\n" in schedule
    assert "fma(" in run("show", "linear", "--form", "ir")
    assert run("show", "relu", "--form", "explain").startswith("# relu")


def test_run_compares_with_the_reference() -> None:
    printed = run("run", "matmul", "[5,7]", "[7,3]", "bias=[3]", "activation=relu")
    assert printed.startswith("matmul 5x7 7x3 bias=3 activation='relu' -> float32[5, 3]\noff by ")
    assert "machine epsilons, of 5.3 allowed" in printed
    assert "int32[2, 2]" in run("run", "matmul_int8", "[2,3]", "int8[3,2]", "--dtype", "uint8")
    assert "-> float32[2, 1], int64[2, 1]" in run("run", "top_k", "[2,3]", "1")
    assert "float64[]" in run("run", "sum", "[]", "--dtype", "float64")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "matmull"), "there is no kernel 'matmull'; there are relu, gelu"),
        (("run", "lstm", "--dtype", "float16"), "lstm takes float32, float64"),
        (("show", "nothing"), "there is no kernel 'nothing'"),
    ],
)
def test_misuse_says_what_there_is(arguments: tuple[str, ...], message: str) -> None:
    assert message in " ".join(run(*arguments, status=2).replace("│", " ").split())


def test_errors_of_kernels_end_with_status_1(child: Child) -> None:
    code = """
        import runpy, sys
        sys.argv = ["lpx_kernels", "run", "matmul", "[2,3]", "[2,3]"]
        runpy.run_module("lpx_kernels", run_name="__main__")
    """
    child(code, status=1)


def test_a_wrong_result_ends_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Any) -> Any:
        return x + 1

    relu = kernels()["relu"]
    monkeypatch.setitem(kernels(), "relu", relu._replace(reference=wrong))
    assert "of 2.0 allowed" in run("run", "relu", "[4]", status=1)


def test_errors_are_relative_to_machine_epsilon() -> None:
    kernel = kernels()["matmul"]
    one = np.ones(4, np.float32)
    eps = float(np.finfo(np.float32).eps)
    assert kernel.error(one, (np.ones(4),)) == 0
    assert kernel.error(one + np.float32(eps), (np.ones(4),)) == pytest.approx(0.5)  # relative to itself and to all
    nan = np.full(4, np.nan, np.float32)
    assert kernel.error(nan, (nan.astype(np.float64),)) == 0
    assert kernel.error(nan, (np.ones(4),)) == np.inf
    assert kernel.error(one, (np.full(4, np.inf),)) == np.inf
    assert kernel.error(np.arange(3), (np.array([0, 1, 3]),)) == np.inf
    assert kernel.error(one.astype(ml_dtypes.bfloat16), (np.ones(4),)) == 0
    assert kernel.error((one, one), (np.ones(4), np.ones(4))) == 0


@pytest.mark.parametrize("wrong", [np.ones(3, np.float32), np.ones(4, np.int32)])
def test_results_of_another_kind_are_refused(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"instead of float64\[4\]"):
        kernels()["matmul"].error(wrong, (np.ones(4),))


def test_more_is_allowed_of_longer_sums() -> None:
    kernel = kernels()["matmul"]
    short, long = (case((2, k), (k, 2)).arguments("float32") for k in (4, 400))
    assert kernel.allowed(*long) == pytest.approx(10 * kernel.allowed(*short))


def test_arguments_are_drawn_in_their_range_and_dtype() -> None:
    (x, places), named = case((3, 4), Draw((5,), "int64", -2, 3), gamma=Draw((2,), low=0.5, high=1.0), k=2).arguments(
        "bfloat16"
    )
    assert x.dtype == ml_dtypes.bfloat16
    assert places.dtype == np.int64
    assert set(places.tolist()) <= {-2, -1, 0, 1, 2}
    assert named["k"] == 2
    assert 0.5 <= float(named["gamma"].min()) <= float(named["gamma"].max()) <= 1
    again, _ = case((3, 4)).arguments("bfloat16")
    np.testing.assert_array_equal(x, again[0])
