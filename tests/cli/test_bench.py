"""`lpx bench`, as a user calls it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import lpx
from lpx.cli.app import app
from lpx.errors import LpxError

QUICK = ("--threads", "1", "--seconds", "0", "--libraries", "numpy,numba,onnxruntime")


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "200")
    before = lpx.get_num_threads()
    yield
    lpx.set_num_threads(before)


def bench(*arguments: object, status: int = 0) -> str:
    """What `lpx bench` prints, or the message of its error."""
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    if isinstance(result.exception, LpxError):
        assert status == 1, result.exception
        return str(result.exception)
    assert result.exit_code == status, result.output
    return result.output


def bench_json(*arguments: object) -> Any:
    return json.loads(bench(*arguments, *QUICK, "--json"))


def test_a_kernel() -> None:
    printed = bench("matmul", "--shape", "M=3,N=5,K=7", *QUICK)
    assert "matmul 3 x 7 x 5, 1 thread(s)" in printed
    assert re.search(r"lpx\W+\d+\.\d us\W+\d+\.\d\W+\n", printed)
    for library in ("numpy", "onnxruntime"):
        assert re.search(rf"{library}\W+\d+\.\d us\W+\d+\.\d\W+\d+\.\d\d", printed)


def test_sizes_in_order_and_json() -> None:
    found = bench_json("softmax", "--shape", "3x17")
    assert found["program"] == "softmax 3 x 17"
    assert list(found["seconds"]) == ["numpy", "onnxruntime", "lpx"]
    peer = found["seconds"][found["best_peer"]]
    assert found["ratio"] == peer / found["seconds"]["lpx"]
    assert peer == min(found["seconds"][name] for name in ("numpy", "onnxruntime"))


def test_types_and_constants() -> None:
    found = bench_json("matmul", "--shape", "3x5x7", "--dtype", "float64", "--constant")
    assert found["program"] == "matmul 3 x 7 x 5, float64, constant weights"


def test_default_sizes() -> None:
    assert bench_json("attention", "--shape", "heads=2,length=5")["program"] == "attention 2 x 5 x 64"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(
        "import lpx\nimport numpy as np\n\n"
        "def scaled(x, factor):\n    return x * factor + 1\n\n"
        "compiled = lpx.jit(scaled)\n\n"
        "def padded(x):\n    return np.pad(x, ((1, 1), (0, 0)))\n\n"
        "def wrong(x):\n    return x * 0 + (1 if isinstance(x, np.ndarray) else 2)\n\n"
        "def two(x):\n    return x, x + 1\n\n"
        "number = 3\n",
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize("name", ["scaled", "compiled"])
def test_a_function(program: Path, tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "in.npz", factor=np.full(4, 2, np.float32), x=np.ones((3, 4), np.float32))
    found = bench_json(f"{program}:{name}", "--example-inputs", tmp_path / "in.npz")
    assert list(found["seconds"]) == ["numpy", "numba", "lpx"]
    assert found["left_out"] == {}


def test_a_function_that_numba_does_not_compile(program: Path) -> None:
    printed = bench(f"{program}:padded", "--arg", "float32[3,4]", *QUICK)
    assert "numba is left out: " in printed
    assert re.search(r"numpy\W+\d", printed)


def test_results_that_differ(program: Path) -> None:
    printed = bench(f"{program}:wrong", "--arg", "float32[8]", "--libraries", "numpy", status=1)
    assert "lpx and numpy do not compute the same" in printed


def test_alone() -> None:
    found = json.loads(bench("softmax", "--shape", "3x17", "--seconds", 0, "--libraries", "", "--json"))
    assert (list(found["seconds"]), found["best_peer"], found["ratio"]) == (["lpx"], None, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], r"there is no kernel 'nonsense'; there are matmul, linear"),
        (["matmul"], r"matmul needs m, n, k; write m=...,n=...,k=..."),
        (["matmul", "--shape", "M=3,Q=4"], r"there is no size 'q'; there are m, n, k"),
        (["matmul", "--shape", "3xy"], r"'y' is no size"),
        (["softmax", "--shape", "3x4x5"], r"'3x4x5' has more sizes than rows, columns"),
        (["softmax", "--shape", "3x4", "--constant"], r"softmax takes none"),
        (["matmul", "--shape", "3x4x5", "--libraries", "blas"], r"there is no library 'blas'; there are numpy"),
        (["matmul", "--shape", "3x4x5", "--dtype", "float33"], r"float33"),
        (["matmul", "--shape", "3x4x5", "--dtype", "int8"], r"kernels compute with floats, not with int8"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str) -> None:
    assert re.search(message, bench(*arguments, status=2))


def test_functions_that_do_not_fit(program: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", y=np.ones(3))
    assert "has no 'other'" in bench(f"{program}:other", status=2)
    assert "is a int" in bench(f"{program}:number", status=1)
    assert "give an array for each parameter" in bench(f"{program}:padded", status=2)
    assert "the parameters are x, factor" in bench(
        f"{program}:scaled", "--example-inputs", tmp_path / "in.npz", status=2
    )
    assert "two gives several results" in bench(f"{program}:two", "--arg", "float32[8]", *QUICK, status=1)
