from __future__ import annotations

import pytest

from lpx import te
from lpx.expr.nodes import Expr
from lpx.ir.parser import parse_function
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.errors import AccessError, DependenceError, OptionError, OutputError
from tests.schedule.compiled import check, confirm_compiled
from tests.schedule.support import bias_relu, blur, elementwise, matmul
from tests.support import Golden


def test_transform_layout(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        s.transform_layout("C", lambda i, j: (j // 4, i, j % 4))

    confirm_compiled(golden, "transform_layout", bias_relu(te.var("m"), 3, 10), apply, {"m": 5})


def test_transform_layout_with_symbols() -> None:
    program = bias_relu(te.var("m"), 3, te.var("n"))
    s = create_schedule(program)
    s.transform_layout("C", lambda i, j: (j, i))
    s.transform_layout("C", lambda j, i: (i // 4, j, i % 4))
    check(program, s, {"m": 6, "n": 5})


def test_transform_layout_flattens() -> None:
    program = bias_relu(4, 3, 6)
    s = create_schedule(program)
    s.transform_layout("C", lambda i, j: i * 6 + j)
    check(program, s)
    assert "alloc C: float32[24]" in str(s)


def test_transform_layout_refuses() -> None:
    s = create_schedule(bias_relu(4, 3, 8))
    with pytest.raises(OptionError, match=r"(?s)the map of C may send two indices to one place.*split indices by"):
        s.transform_layout("C", lambda i, j: (i, j // 2))
    with pytest.raises(OptionError, match=r"the map takes 1 index\(es\) but C has 2 dimension\(s\)"):
        s.transform_layout("C", lambda i: (i,))
    with pytest.raises(OutputError, match="D is the caller's"):
        s.transform_layout("D", lambda i, j: (j, i))
    with pytest.raises(OptionError, match=r"(?s)one plain parameter per axis.*lambda i, j: \(j, i\)"):
        s.transform_layout("C", _any_indices)


def _any_indices(*i: Expr) -> tuple[Expr, ...]:
    return i


def test_transform_layout_refuses_rows_that_are_copied_whole() -> None:
    copied = parse_function("""
        func copied(A: in float32[4, 8], C: out float32[4, 8]) {
          alloc T: float32[4, 8]
          for i in 0..4 {
            block T(vi: spatial 4 = i) {
              async_copy T[vi, 0], A[vi, 0], 8
              async_commit
              async_wait 0
            }
          }
          for k in 0..4 { for j in 0..8 { block C(vk: spatial 4 = k, vj: spatial 8 = j) { C[vk, vj] = T[vk, vj] } } }
        }
    """)
    with pytest.raises(AccessError, match="T is copied asynchronously, row by row"):
        create_schedule(copied).transform_layout("T", lambda i, j: (j, i))


def test_pack(golden: Golden) -> None:
    """Panels of four columns, the last one filled up with zeros."""

    def apply(s: Schedule) -> None:
        s.pack("C", "B", lambda r, j: (j // 4, r, j % 4))

    confirm_compiled(golden, "pack", matmul(3, te.var("k"), 10), apply, {"k": 5})


@pytest.mark.parametrize("n", [8, 9])
def test_pack_under_a_loop(n: int) -> None:
    """One panel is packed for each block of columns."""
    program = matmul(5, 6, n)
    s = create_schedule(program)
    i, j, r = s.loops("C")
    jo, ji = s.split(j, 4)
    s.reorder(jo, i, r, ji)
    s.compute_at(s.pack("C", "B", lambda r, j: (j // 4, r, j % 4), "local"), jo)
    s.vectorize(ji)
    s.parallel(jo)
    check(program, s)


def test_pack_refuses() -> None:
    s = create_schedule(blur(16))
    s.compute_at("P", s.split(s.loops("S")[0], 4)[0])
    with pytest.raises(DependenceError, match=r"(?s)P is computed inside loop i_o, part by part.*pack what is"):
        s.pack("S", "P", lambda i: (i % 4, i // 4))
    s = create_schedule(elementwise(8))
    with pytest.raises(OptionError, match="may send two indices to one place"):
        s.pack("C", "B", lambda i: i // 2)
    assert not len(s.trace)
