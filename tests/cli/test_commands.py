"""The command line, as a user calls it: texts, statuses, errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from typer.testing import CliRunner

import lpx
from lpx.cli.app import app
from lpx.errors import LpxError
from tests.frontends.onnx.support import case, floats, model_of, node_model
from tests.support import Child

Call = Callable[..., str]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """`call("run", ..., status=0)` runs a command in this process and gives what it printed."""
    monkeypatch.setenv("COLUMNS", "200")
    threads = lpx.get_num_threads()

    def run(*arguments: object, status: int = 0) -> str:
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        if isinstance(result.exception, LpxError):
            assert status == 1, result.exception
            return str(result.exception)
        assert result.exit_code == status, result.output
        return result.output

    yield run
    lpx.set_num_threads(threads)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """softmax(x @ w) of any number of rows."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Softmax", ["p"], ["y"])]
    proto = model_of(nodes, {"x": floats(1, 8)}, ["y"], {"w": floats(8, 4, seed=1)})
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_run(call: Call, model: Path) -> None:
    printed = call("run", model, "--repeat", 3, "--threads", 1)
    assert "input x: float32[1, 8]" in printed
    assert "output y: float32[1, 4]" in printed
    assert re.search(r"lpx: median of 3 calls on 1 thread\(s\): \d+\.\d{3} ms", printed)


@pytest.mark.parametrize("peer", ["--compare", "--reference"])
def test_run_and_compare(call: Call, model: Path, peer: str) -> None:
    printed = call("run", model, "--repeat", 2, "--shape", "x=5,8", peer)
    assert "input x: float32[5, 8]" in printed
    assert "equal" in printed
    assert ("times lpx's" in printed) == (peer == "--compare")


def test_run_that_differs(call: Call, model: Path) -> None:
    printed = call("run", model, "--repeat", 1, "--compare", "--tolerance", "-1", status=1)
    assert "1 of 1 outputs differ from onnxruntime: y" in printed


def test_run_with_given_inputs(call: Call, model: Path, tmp_path: Path) -> None:
    x = floats(3, 8, seed=7)
    np.savez(tmp_path / "in.npz", x=x)
    call("run", model, "--inputs", tmp_path / "in.npz", "--save", tmp_path / "out.npz", "--repeat", 1)
    logits = np.exp(x @ floats(8, 4, seed=1))
    with np.load(tmp_path / "out.npz") as saved:
        np.testing.assert_allclose(saved["y"], logits / logits.sum(-1, keepdims=True), rtol=1e-4)


def test_run_refuses_pickles(call: Call, model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.array([{}], dtype=object))
    assert "cannot be read as .npz" in call("run", model, "--inputs", tmp_path / "in.npz", status=2)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--shape", "x=2,9"], 1, r"shape \(2, 9\) does not fit input x"),
        (["--shape", "x"], 2, "is no shape"),
        (["--shape", "z=1"], 1, "there is no input 'z'"),
        (["--target", "cpu:nonsense"], 1, "nonsense"),
    ],
)
def test_run_with_wrong_arguments(call: Call, model: Path, arguments: list[str], status: int, message: str) -> None:
    assert re.search(message, call("run", model, *arguments, status=status))


def test_check(call: Call, model: Path, tmp_path: Path) -> None:
    assert "all of them are supported" in call("check", model)
    (tmp_path / "bad.onnx").write_bytes(node_model(case("NonZero", floats(3))).SerializeToString())
    printed = call("check", tmp_path / "bad.onnx", status=1)
    assert "operator NonZero is not supported" in printed


FORMS = {
    "graph": "matmul(",
    "te": "block matmul",
    "schedule": "# matmul",
    "ir": "func matmul",
    "llvm": "define",
    "asm": "ret",
    "explain": "kernel matmul",
}


@pytest.mark.parametrize("form", FORMS)
def test_inspect_a_model(call: Call, model: Path, form: str) -> None:
    printed = call("inspect", model, "--form", form, "--kernel", "matmul")
    assert FORMS[form] in printed


def test_inspect_python(call: Call, tmp_path: Path) -> None:
    source = tmp_path / "program.py"
    source.write_text(
        "import lpx\nfrom lpx import te\n\n"
        "@lpx.jit\ndef scaled(x):\n    return x * 2\n\n"
        "def plain(x, y):\n    return x + y\n\n"
        'A = te.placeholder((4,), "float32", name="A")\n'
        'B = te.compute((4,), lambda i: A[i] + 1, name="B")\n',
        encoding="utf-8",
    )
    assert "mul(" in call("inspect", f"{source}:scaled", "--form", "graph", "--arg", "float32[8]")
    assert "add(" in call("inspect", f"{source}:plain", "--form", "graph", "--arg", "int32[8]", "--arg", "int32[8]")
    assert "block B" in call("inspect", f"{source}:B", "--form", "te")
    assert "has no 'C'" in call("inspect", f"{source}:C", status=2)
    assert "is no array" in call("inspect", f"{source}:scaled", "--arg", "8", status=2)


def test_inspect_unknown_kernel(call: Call, model: Path) -> None:
    assert "no kernel has 'conv' in its name" in call("inspect", model, "--kernel", "conv", status=1)


def test_doctor(call: Call) -> None:
    printed = call("doctor")
    assert re.search(r"code for this machine\W+runs", printed)
    assert "NVPTX back end" in printed
    assert re.search(r"llvmlite\W+\d", printed)


def test_doctor_says_how_to_mend(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpx.cli.doctor.REQUIRED", ("numpy", "no-such-package"))
    monkeypatch.setenv("LPX_NONSENSE", "1")
    printed = call("doctor", status=1)
    assert "no-such-package: pip install no-such-package" in printed
    assert "LPX_NONSENSE is not a variable of lpx" in printed


def test_errors_have_no_traceback(child: Child, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"junk")
    code = f"""
        import contextlib, io, sys
        from lpx.cli import main
        sys.argv = ["lpx", "run", {str(tmp_path / "broken.onnx")!r}]
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            try:
                main()
            except SystemExit as end:
                print(end.code)
        print(text.getvalue())
    """
    printed = child(code)
    assert printed.startswith("1\nerror: this is no ONNX model")
    assert "Traceback" not in printed


def test_commands_are_listed(call: Call) -> None:
    printed = call("--help")
    assert all(name in printed for name in ("run", "inspect", "check", "doctor"))
