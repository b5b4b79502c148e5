"""What the pages about schedules claim, beyond that their examples run."""

from __future__ import annotations

from typing import Any

import pytest

import lpx
from lpx.schedule import Primitive, Schedule
from tests.support import ROOT
from tests.test_docs import blocks_of


def test_every_primitive_is_in_the_table() -> None:
    page = (ROOT / "docs/schedules.md").read_text(encoding="utf-8")
    table = "".join(line for line in page.splitlines() if line.startswith("| "))
    names = [name for name, value in vars(Schedule).items() if isinstance(value, Primitive)]
    assert len(names) > 30
    assert [name for name in names if f"`{name}`" not in table] == []


def test_the_matrix_product_by_hand_spills_nothing() -> None:
    """At its full size, where rows are left over for a last tile: accumulators never leave their registers."""
    if "avx512f" not in lpx.Target.parse("cpu").cpu.features:
        pytest.skip("the page's tile is made for AVX-512")
    page = (ROOT / "docs/matmul.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec("\n".join(code for code, _ in blocks_of(page)), names)
    forms = lpx.lower_program(names["schedule_matmul"](1024, 1024, 1024))
    loops: list[list[str]] = names["inner_loops"](forms.asm)
    assert len(loops) >= 2
    for body in loops:
        assert any(line.startswith("prefetch") for line in body)
        assert not any("zmm" in line and "(%rsp)" in line for line in body)
        assert not any(line.startswith("vmov") and line.endswith(")") for line in body)
