"""Rules of the house that no single room can keep: layers, a light import, one reader of the environment."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import lpx
from tests.support import ROOT, Child

HEAVY = ("numpy", "llvmlite", "onnx", "ml_dtypes", "typer", "rich", "platformdirs")
SOURCES = sorted(path for root in ("jit", "kernels") for path in (ROOT / root).rglob("*.py"))


def _tracked_files() -> list[Path]:
    """Files that git tracks; every file of the tree where it is no repository (a source archive)."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_import_is_light(child: Child) -> None:
    loaded = json.loads(child("import lpx, sys, json; print(json.dumps(sorted(sys.modules)))"))
    assert not {name.partition(".")[0] for name in loaded} & set(HEAVY)
    assert [name for name in loaded if name.startswith("lpx")] == ["lpx"]


def test_what_is_cached_runs_without_the_compiler(child: Child, tmp_path: Path) -> None:
    """A process whose kernels come from the disk cache imports no schedules, rules, passes or code generation."""
    code = """
        import sys
        import numpy as np
        import lpx
        print(*lpx.jit(lambda x: x * 2 + 1)(np.arange(3, dtype=np.float32)))
        print(*sorted(name for name in sys.modules if name.startswith("lpx.")))
    """
    cold, warm = (child(code, LPX_CACHE_DIR=str(tmp_path)).splitlines() for _ in range(2))
    assert cold[0] == warm[0] == "1.0 3.0 5.0"
    compiler = {"lpx.schedule.schedule", "lpx.rules.default", "lpx.passes.pipeline", "lpx.codegen.cpu", "lpx.ir.verify"}
    assert compiler <= set(cold[1].split())
    assert compiler.isdisjoint(warm[1].split())


def test_frozen_slotted_classes_are_records() -> None:
    """As dataclasses they would cost ten times as much to import."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        for decorator in map(ast.unparse, node.decorator_list)
        if "dataclass(" in decorator and "frozen=True" in decorator and "slots=True" in decorator
    ]
    assert found == []


def test_every_public_name_resolves(child: Child) -> None:
    code = "import lpx; print(*[name for name in lpx._PUBLIC if getattr(lpx, name) is None or name not in dir(lpx)])"
    assert child(code).split() == []


def test_public_names_are_the_ones_checkers_see() -> None:
    tree = ast.parse((ROOT / "jit/lpx/__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    declared = {
        alias.name: f"lpx.{alias.name}" if node.module == "lpx" else node.module
        for node in imports
        for alias in node.names
        if alias.asname == alias.name
    }
    assert declared == lpx._PUBLIC


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'lpx' has no attribute 'nonsense'"):
        _ = getattr(lpx, "nonsense")  # noqa: B009 (a plain attribute would not type-check, which is the point)


def test_version_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "lpx.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", lpx.__version__)


def test_layers_are_kept(child: Child) -> None:
    """The contracts of setup.cfg; a failure prints the imports that break them."""
    lint = f"import os; os.chdir({str(ROOT)!r}); from importlinter.cli import lint_imports; "
    verdict = child(lint + "print('broken' if lint_imports(no_cache=True, no_logo=True) else 'kept')")
    assert verdict.splitlines()[-1] == "kept", verdict


def test_the_environment_is_read_in_one_place() -> None:
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if re.search(
            r"\bos\.(environ|getenv)\b|from os import .*\b(environ|getenv)\b", path.read_text(encoding="utf-8")
        )
    ]
    assert readers == ["jit/lpx/knobs.py"]


def test_no_text_is_tied_to_one_machine() -> None:
    """No absolute path of a workplace, no folder outside the repository, no package registry's host."""
    words = ["/wo" + "rk/", "sha" + "red/", "pypi" + ".org", "pythonhosted" + ".org"]
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in _tracked_files()
        for word in words
        if word.encode() in path.read_bytes()
    ]
    assert found == []
