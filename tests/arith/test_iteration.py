"""Bijections made of splits and fusions, against brute force."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpx.arith.analyzer import Analyzer
from lpx.arith.iteration import is_injective, read_index_map
from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from tests.arith.evaluator import evaluate
from tests.arith.printing import text

H, J, K, M, N = (build.var(name) for name in "hjkmn")
Y = [build.var(f"y{axis}") for axis in range(6)]
SYMBOLS = {M: 3, N: 5}
ANALYZER = Analyzer().with_range(M, 0, None).with_range(N, 0, None)


def points(variables: Sequence[Var], extents: Sequence[Expr]) -> list[dict[Var, int]]:
    boxes = [range(evaluate(e, SYMBOLS)) for e in extents]
    return [{**SYMBOLS, **dict(zip(variables, point, strict=True))} for point in product(*boxes)]


def check(targets: Sequence[Expr], variables: Sequence[Var], extents: Sequence[Expr]) -> str:
    """What the map is recognised as, after checking that against every point."""
    found = read_index_map(targets, dict(zip(variables, extents, strict=True)), ANALYZER)
    if found is None:
        return "unknown"
    box = [evaluate(e, SYMBOLS) for e in found.extents]
    values = Y[: len(targets)]
    inverse = found.inverse(values)
    images = set[tuple[int, ...]]()
    domain = points(variables, extents)
    for point in domain:
        image = tuple(evaluate(t, point) for t in targets)
        assert all(0 <= value < extent for value, extent in zip(image, box, strict=True))
        images.add(image)
        back = {**SYMBOLS, **dict(zip(values, image, strict=True))}
        assert [evaluate(e, back) for e in inverse] == [point[v] for v in variables]
    assert len(images) == len(domain)
    assert not found.is_onto or len(images) == prod(box)
    return "bijective" if found.is_onto else "injective"


C = build.const
BIJECTIONS = [
    ([H], [H], [N]),
    ([J, H], [H, J], [M, N]),
    ([H * 32 + J], [H, J], [(N + 31) // 32, C(32)]),
    ([H // 4, H % 4], [H], [C(20)]),
    ([H * N + J], [H, J], [M, N]),
    ([(H * N + J) // N, (H * N + J) % N], [H, J], [M, N]),
    ([H // N, H % N], [H], [M * N]),
    ([H % N, H // N], [H], [M * N]),
    ([(H * 6 + J) // 4, (H * 6 + J) % 4], [H, J], [C(4), C(6)]),
    ([(H * 6 + J) // 8, (H * 6 + J) // 4 % 2, (H * 6 + J) % 4], [H, J], [C(4), C(6)]),
    ([((H * 4 + J) * 6 + K) // 8, ((H * 4 + J) * 6 + K) % 8], [H, J, K], [N, C(4), C(6)]),
    ([H // 16 * 4 + J // 2, H % 16 * 2 + J % 2], [H, J], [C(64), C(8)]),
    ([(H * 8 + J) // 6, (H * 4 + J // 2) % 3, J % 2], [H, J], [C(12), C(8)]),
    ([C(0), H], [H, J], [N, C(1)]),
    ([H // 8 % 4 * 8 + H % 8 + H // 32 * 32], [H], [C(64)]),
]
INJECTIONS = [
    ([H // 3, H % 3], [H], [C(20)]),
    ([H % 7, H // 7], [H], [C(64)]),
    ([H * 2], [H], [N]),
    ([H * 33 + J], [H, J], [C(8), C(32)]),
    ([(H * 7 + J) // 4, (H * 7 + J) % 4], [H, J], [C(3), C(7)]),
    ([H // 3 // 4, H // 3 % 4, H % 3], [H], [C(20)]),
]
OTHERS = [
    ([H, H], [H, J], [M, M], "j is lost, i is used twice"),
    ([H + J], [H, J], [M, N], "overlap"),
    ([H + 1], [H], [N], "an offset"),
    ([H % 8, H // 4], [H], [C(64)], "bit 2 is used twice"),
    ([H % 4, H // 8], [H], [C(64)], "bit 2 is lost"),
    ([H * 4 + J], [H, J], [C(4), C(5)], "overlap"),
    ([H * H], [H], [N], "not affine"),
    ([(H * 8 + J) // 3, (J * 12 + H) // 5], [H, J], [C(12), C(8)], "two sums of the same variables"),
    ([H // N], [H], [M * N], "the remainder is lost"),
]


@pytest.mark.parametrize(("targets", "variables", "extents"), BIJECTIONS)
def test_recognises_bijections(targets: list[Expr], variables: list[Var], extents: list[Expr]) -> None:
    assert check(targets, variables, extents) == "bijective"


@pytest.mark.parametrize(("targets", "variables", "extents"), INJECTIONS)
def test_recognises_injections(targets: list[Expr], variables: list[Var], extents: list[Expr]) -> None:
    assert check(targets, variables, extents) == "injective"
    assert is_injective(targets, dict(zip(variables, extents, strict=True)), ANALYZER)


@pytest.mark.parametrize(("targets", "variables", "extents", "why"), OTHERS)
def test_refuses_other_maps(targets: list[Expr], variables: list[Var], extents: list[Expr], why: str) -> None:
    assert check(targets, variables, extents) == "unknown", why
    assert not is_injective(targets, dict(zip(variables, extents, strict=True)), ANALYZER)


def test_inverse_reads_well() -> None:
    found = read_index_map([H // 4, H % 4, J], {H: M * 4, J: N}, ANALYZER)
    assert found is not None
    assert [text(e) for e in found.inverse(Y[:3])] == ["(y0 * 4) + y1", "y2"]
    assert [text(e) for e in found.extents] == ["m", "4", "n"]


@given(st.lists(st.sampled_from(("split2", "split3", "split4", "fuse", "rotate")), max_size=7))
def test_every_chain_of_even_splits_and_fusions_is_recognised(steps: list[str]) -> None:
    axes: list[tuple[Expr, int]] = [(H, 12), (J, 8), (K, 6)]
    for step in steps:
        first, extent = axes[0]
        if step == "rotate":
            axes = [*axes[1:], axes[0]]
        elif step == "fuse" and len(axes) > 1:
            second, inner = axes[1]
            axes = [(first * inner + second, extent * inner), *axes[2:]]
        elif step.startswith("split") and extent % int(step[-1]) == 0 and len(axes) < len(Y):
            factor = int(step[-1])
            axes = [(first // factor, extent // factor), (first % factor, factor), *axes[1:]]
    assert check([target for target, _ in axes], [H, J, K], [C(12), C(8), C(6)]) == "bijective"


@given(st.lists(st.sampled_from((1, 2, 3, 4, 6, 8, 12)), min_size=6, max_size=6))
def test_whatever_is_recognised_is_a_bijection(c: list[int]) -> None:
    fused = H * c[0] + J
    check([fused // c[1], fused % c[2] // c[3], fused % c[4]], [H, J], [C(c[5]), C(c[0])])
    check([H // c[1] * c[2] + J % c[3], J // c[3]], [H, J], [C(c[5]), C(c[4])])
