"""Regions against the elements that a run really touches, and by hand."""

from __future__ import annotations

import pytest

from lpx.arith.analyzer import Analyzer
from lpx.ir import nodes as ir
from lpx.ir.interpreter.arguments import evaluate
from lpx.ir.parser import parse_function
from lpx.ir.printer import print_expr
from lpx.ir.regions import Region, access_region, clip
from lpx.ir.traverse import walk

CONV = """
func conv(A: in float32[n], W: in float32[3], B: out float32[n]) symbols(n) {
  for io in 0..n // 8 {
    for ii in 0..8 { for k in 0..3 {
      block B(vi: spatial n = io * 8 + ii, vk: reduce 3 = k) {
        init { B[vi] = 0.0f32 }
        B[vi] = B[vi] + select(0 <= vi + vk - 1, A[vi + vk - 1], 0.0f32) * W[vk]
      }
    } }
  }
}"""


def regions(text: str, *, of: str | None = None) -> tuple[dict[str, str], dict[str, str]]:
    """Reads and writes of the body, or of what is inside the loop `of`, as text per buffer."""
    function = parse_function(text)
    analyzer = Analyzer()
    for symbol in function.symbols:
        analyzer = analyzer.with_range(symbol, 1, None)
    stmt = function.body
    if of is not None:
        loop = next(s for s in walk(stmt) if isinstance(s, ir.For) and s.var.name == of)
        analyzer, stmt = analyzer.with_range(loop.var, loop.start, loop.start + loop.extent), loop.body
    reads, writes = access_region(stmt, analyzer)
    return {r.buffer.name: show(r) for r in reads}, {r.buffer.name: show(r) for r in writes}


def show(region: Region) -> str:
    return ", ".join(f"{print_expr(start)} +{print_expr(extent)}" for start, extent in region.ranges)


def test_convolution() -> None:
    assert regions(CONV, of="io") == (
        {"B": "io * 8 +8", "A": "io * 8 - 1 +10", "W": "0 +3"},
        {"B": "io * 8 +8"},
    )


def test_block_in_terms_of_its_axes() -> None:
    function = parse_function(CONV)
    block = next(s for s in walk(function.body) if isinstance(s, ir.Block))
    reads, writes = access_region(block.body, Analyzer().with_axis(block.axes[0]).with_axis(block.axes[1]))
    assert [show(r) for r in reads] == ["vi +1", "vi + vk - 1 +1", "vk +1"]
    assert [show(r) for r in writes] == ["vi +1"]


def test_clip() -> None:
    function = parse_function(CONV)
    loop = next(s for s in walk(function.body) if isinstance(s, ir.For))
    (n,) = function.symbols
    analyzer = Analyzer().with_range(n, 1, None).with_range(loop.var, 0, n // 8)
    reads, _ = access_region(loop.body, analyzer)
    clipped = [clip(r, analyzer) for r in reads]
    assert clipped[0].ranges is not None
    assert [show(c) for c in (clipped[0], clipped[2])] == ["io * 8 +8", "0 +3"]
    for size in (8, 24):
        for position in range(size // 8):
            ((start, extent),) = clipped[1].ranges
            low, length = evaluate((start, extent), {n: size, loop.var: position})
            assert (low, low + length) == (max(position * 8 - 1, 0), min(position * 8 + 9, size))


@pytest.mark.parametrize(
    ("body", "reads", "writes"),
    [
        ("B[0] = A[3, 5]", {"A": "3 +1, 5 +1"}, {"B": "0 +1"}),
        ("B[ramp(4, 2, 8)] = A[1, ramp(0, 1, 8)]", {"A": "1 +1, 0 +8"}, {"B": "4 +15"}),
        ("B[ramp(0, 1, 4) + broadcast(n, 4)] = broadcast(0.0f32, 4)", {}, {"B": "n +4"}),
        ("for i in 0..4 { for j in 0..i + 1 { B[i - j] = 0.0f32 } }", {}, {"B": "0 +4"}),
        ("for i in 0..4 { let q = i * 2 B[q + 1] = 0.0f32 }", {}, {"B": "1 +7"}),
        ("B[1] = 0.0f32 B[5] = 0.0f32", {}, {"B": "1 +5"}),
        ("for i in 0..4 { B[I[i]] = 0.0f32 }", {"I": "0 +4"}, {"B": "0 +99"}),
        ("for i in 0..4 { B[i % 3 * i] = 0.0f32 }", {}, None),
        ("alloc T: float32[4] T[0] = 1.0f32 B[0] = T[0]", {}, {"B": "0 +1"}),
        ("atomic add B[n], 1.0f32", {"B": "n +1"}, {"B": "n +1"}),
        ("async_copy B[n], A[2, 4], 8", {"A": "2 +1, 4 +8"}, {"B": "n +8"}),
        ("call g([B], [])", {"B": "0 +99"}, {"B": "0 +99"}),
        ('evaluate hardware["prefetch", any, same, 1](&B[0])', {"B": "0 +99"}, {"B": "0 +99"}),
        ("if B[0] < 1.0f32 { pass }", {"B": "0 +1"}, {}),
        ("for i in 0i32..8i32 { B[int64(i)] = 0.0f32 }", {}, None),
    ],
)
def test_statements(body: str, reads: dict[str, str], writes: dict[str, str] | None) -> None:
    text = f"func f(A: in float32[9, n], I: in int64[4], B: inout float32[99]) symbols(n) {{ {body} }}"
    got_reads, got_writes = regions(text)
    assert got_reads == reads
    if writes is not None:
        assert got_writes == writes


@pytest.mark.parametrize(
    "index",
    [
        "i * 4 + j",
        "i - j",
        "7 - i",
        "(i + j) // 2",
        "(i + j) % 3",
        "min(i, j) + 2",
        "max(i * 2, j)",
        "i * j",
        "i % 2 * j",
    ],
)
def test_every_touched_element_is_in_the_region(index: str) -> None:
    function = parse_function(
        f"func f(B: out float32[99]) {{ for i in 0..5 {{ for j in 1..+3 {{ B[{index} + 20] = 0.0f32 }} }} }}"
    )
    outer = function.body
    assert isinstance(outer, ir.For)
    inner = outer.body
    assert isinstance(inner, ir.For)
    store = inner.body
    assert isinstance(store, ir.Store)
    _, (region,) = access_region(inner, Analyzer().with_range(outer.var, 0, 5))
    ((start, extent),) = region.ranges
    for i in range(5):
        low, length = evaluate((start, extent), {outer.var: i})
        touched = {evaluate(store.indices, {outer.var: i, inner.var: j})[0] for j in range(1, 4)}
        assert all(low <= t < low + length for t in touched)
