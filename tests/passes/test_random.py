"""Random loop nests with blocks, tails, guards, temporaries and odd kinds of loops, through the whole pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tests.passes.support import assert_pipeline_keeps, parse

_KINDS = ("", "parallel", "vectorize", "unroll")


@dataclass(frozen=True)
class Nest:
    """A loop nest that writes B from A through a temporary T, or reduces A into B."""

    extent: int
    tile: int
    kinds: tuple[str, str, str]
    order: bool
    guard: str
    value: str
    is_reduction: bool
    is_symbolic: bool

    def text(self) -> str:
        size = "n" if self.is_symbolic else str(self.extent)
        outer, inner, reduce = self.kinds
        tail = "" if not self.is_symbolic and self.extent % self.tile == 0 else f"where o * {self.tile} + i < {size}"
        block = self._reduction(size, tail) if self.is_reduction else self._pointwise(size, tail)
        reduced = f"for r in 0..3 {reduce} {{ {block} }}" if self.is_reduction else block
        loops = (
            f"for i in 0..{self.tile} {inner} {{ {reduced} }}"
            if self.order
            else f"for r in 0..3 {{ for i in 0..{self.tile} {inner} {{ {block} }} }}"
        )
        symbols = "symbols(n)" if self.is_symbolic else ""
        return f"""
func f(A: in float32[3, {size}], B: inout float32[{size}], C: inout float32[{size}]) {symbols} {{
  alloc T: float32[{size}]
  for z in 0..{size} {{ T[z] = 0.5f32 }}
  for o in 0..({size} + {self.tile - 1}) // {self.tile} {outer} {{ {loops} }}
  for z in 0..{size} {{ C[z] = C[z] + T[z] * 2.0f32 }}
}}"""

    def _reduction(self, size: str, tail: str) -> str:
        return f"""block B(v: spatial {size} = o * {self.tile} + i, vr: reduce 3 = r) {tail} {{
            init {{ B[v] = 1.0f32 }}
            if {self.guard} {{ B[v] = B[v] + {self.value} * A[vr, v] }} }}"""

    def _pointwise(self, size: str, tail: str) -> str:
        fixed = "" if self.order else ", vr: sequential 3 = r"
        guard, value = (text if fixed else text.replace("vr", "0") for text in (self.guard, self.value))
        return f"""block B(v: spatial {size} = o * {self.tile} + i{fixed}) {tail} {{
            let t: float32 = {value}
            T[v] = t * T[v]
            if {guard} {{ B[v] = B[v] - t }} else {{ C[v] = t }} }}"""


_GUARDS = ("v < 4", "3 <= v", "v % 2 == 0", "A[vr, v] < 0.0f32", "vr < 2", "v + vr < 5", "(1 <= v) & (v != 6)")
_VALUES = (
    "A[vr, v]",
    "select(v < 2, 0.25f32, A[vr, v - 2])",
    "select(3 < v, A[vr, v - 4] + A[0, v - 1], 1.5f32)",
    "float32(v * 3 + vr)",
    "max(A[vr, v // 2], A[2 - vr, v])",
)

nests = st.builds(
    Nest,
    extent=st.integers(1, 11),
    tile=st.integers(1, 5),
    kinds=st.tuples(
        st.sampled_from(("", "parallel")), st.sampled_from(_KINDS), st.sampled_from(("", "unroll", "vectorize"))
    ),
    order=st.booleans(),
    guard=st.sampled_from(_GUARDS),
    value=st.sampled_from(_VALUES),
    is_reduction=st.booleans(),
    is_symbolic=st.booleans(),
)


@given(nest=nests, seed=st.integers(0, 3))
def test_random_nests_keep_every_bit(nest: Nest, seed: int) -> None:
    function = parse(nest.text())
    sizes = (nest.extent, 0) if nest.is_symbolic else ()
    extents: list[dict[str, int]] = [{"n": size} for size in sizes] or [{}]
    assert_pipeline_keeps(function, extents, (seed,))
