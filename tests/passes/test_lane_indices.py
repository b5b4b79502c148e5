from __future__ import annotations

import pytest

from lpx.expr import build
from lpx.expr.nodes import Expr, Ramp
from lpx.passes.lane_indices import as_ramp

X = build.var("x")


def _lanes(count: int) -> Expr:
    return build.ramp(0, 1, count)


@pytest.mark.parametrize("stride", [1, 3])
def test_axes_one_after_another_are_a_ramp(stride: int) -> None:
    lane = _lanes(64)
    found = as_ramp(X * 4 + (lane // 4 * 4 + lane % 4) * stride)
    assert isinstance(found, Ramp)
    assert str(found) == str(build.ramp(X * 4, stride, 64))


def test_other_indices_stay() -> None:
    lane = _lanes(8)
    for index in (lane // 4, lane % 4 * 4 + lane // 4, X + lane * lane // 8, build.shuffle([lane], range(8)) // 2):
        assert as_ramp(index) is index
    assert as_ramp(X) is X
