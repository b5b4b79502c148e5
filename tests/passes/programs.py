"""Small functions that between them use everything passes look at, with extents to run them at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lpx.ir.nodes import Function
from tests.passes.support import parse


@dataclass(frozen=True)
class Program:
    """A function's text, and the symbolic extents to run it with."""

    text: str
    extents: Sequence[Mapping[str, int]] = ({},)

    @property
    def function(self) -> Function:
        return parse(self.text)


_MATMUL_BODY = """
          block C(vi: spatial {m} = {i}, vj: spatial {n} = {j}, vr: reduce {k} = r) {where} {{
            init {{ C[vi, vj] = 0.0f32 }}
            C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]
          }}"""


def matmul(m: str, n: str, k: str, symbols: str, where: str) -> str:
    """A matrix product with a register tile of 3 x 4."""
    block = _MATMUL_BODY.format(m=m, n=n, k=k, i="io * 3 + ii", j="jo * 4 + jj", where=where)
    return f"""
func matmul(A: in float32[{m}, {k}], B: in float32[{k}, {n}], C: out float32[{m}, {n}]) {symbols} {{
  for io in 0..({m} + 2) // 3 parallel {{
    for jo in 0..({n} + 3) // 4 {{
      for r in 0..{k} {{
        for ii in 0..3 unroll {{
          for jj in 0..4 vectorize {{{block}
          }}
        }}
      }}
    }}
  }}
}}"""


PROGRAMS: dict[str, Program] = {
    "matmul": Program(matmul("6", "8", "5", "", "")),
    "matmul_tails": Program(matmul("7", "9", "5", "", "where (io * 3 + ii < 7) & (jo * 4 + jj < 9)")),
    "matmul_symbolic": Program(
        matmul("m", "n", "k", "symbols(m, n, k)", "where (io * 3 + ii < m) & (jo * 4 + jj < n)"),
        [{"m": m, "n": n, "k": k} for m, n, k in ((3, 4, 2), (7, 9, 3), (1, 1, 1), (2, 11, 4), (0, 3, 2), (5, 0, 1))],
    ),
    "vector_tail": Program(
        """
func scale(A: in float32[n], B: out float32[n]) symbols(n) {
  for o in 0..(n + 7) // 8 {
    for i in 0..8 vectorize {
      block B(v: spatial n = o * 8 + i) where o * 8 + i < n { B[v] = A[v] * 2.0f32 }
    }
  }
}""",
        [{"n": n} for n in (0, 1, 3, 7, 8, 9, 16, 21)],
    ),
    "vector_from_three": Program(
        """
func shifted(A: in float32[16], B: inout float32[16]) {
  for i in 3..+8 vectorize { B[i] = A[i] + 1.0f32 }
  for i in 12..+2 unroll { B[i] = A[i] + 2.0f32 }
  for i in 14..+2 parallel { B[i] = A[i] + 3.0f32 }
}"""
    ),
    "guarded_cast": Program(
        """
func guarded(A: in float32[16], B: inout float16[16]) {
  for i in 0..16 vectorize {
    if (2 < i) & (i % 3 != 0) { B[i] = float16(A[i]) }
  }
}"""
    ),
    "both_branches": Program(
        """
func branches(A: in int32[12], B: inout int32[12], C: out int32[12]) {
  for i in 0..12 vectorize {
    if A[i] < 4i32 {
      B[i] = B[i] + A[i]
      C[i] = B[i]
    } else {
      C[i] = 100i32 // A[i]
    }
  }
}"""
    ),
    "padding": Program(
        """
func pad_sum(A: in float32[n, 6], B: out float32[n, 6]) symbols(n) {
  for y in 0..n {
    for x in 0..6 {
      for ry in 0..3 {
        for rx in 0..3 {
          block B(vy: spatial n = y, vx: spatial 6 = x, v1: reduce 3 = ry, v2: reduce 3 = rx) {
            init { B[vy, vx] = 0.0f32 }
            let y: int64 = vy + v1
            let x: int64 = vx + v2
            B[vy, vx] = B[vy, vx] + select((1 <= y) & (y <= n) & (1 <= x) & (x < 7), A[y - 1, x - 1], 0.0f32)
          }
        }
      }
    }
  }
}""",
        [{"n": n} for n in (0, 1, 2, 5)],
    ),
    "stencil": Program(
        """
func stencil(A: in float32[n], C: out float32[n]) symbols(n) {
  alloc B: float32[n + 2]
  for o in 0..(n + 3) // 4 parallel {
    for i in 0..6 {
      if o * 4 + i < n + 2 {
        B[o * 4 + i] = select((0 < o * 4 + i) & (o * 4 + i < n + 1), A[o * 4 + i - 1], 0.0f32)
      }
    }
    for i in 0..4 {
      if o * 4 + i < n { C[o * 4 + i] = B[o * 4 + i] + B[o * 4 + i + 1] * B[o * 4 + i + 2] }
    }
  }
}""",
        [{"n": n} for n in (0, 1, 4, 7, 9)],
    ),
    "scan": Program(
        """
func cumulative(A: in float32[t, n], B: out float32[t, n]) symbols(t, n) {
  alloc S: float32[n]
  for i in 0..n { S[i] = 0.0f32 }
  for s in 0..t {
    for i in 0..n {
      block S(vt: sequential t = s, vi: spatial n = i) { S[vi] = S[vi] * 0.5f32 + A[vt, vi] }
    }
    for i in 0..n {
      block B(vt: sequential t = s, vi: spatial n = i) { B[vt, vi] = S[vi] }
    }
  }
}""",
        [{"t": 3, "n": 4}, {"t": 1, "n": 1}, {"t": 0, "n": 2}],
    ),
    "argmax": Program(
        """
func argmax(A: in float32[m, n], V: out float32[m], I: out int64[m]) symbols(m, n) {
  for i in 0..m {
    for r in 0..n {
      block argmax(vi: spatial m = i, vr: reduce n = r) {
        init {
          V[vi] = -inf_f32
          I[vi] = 0
        }
        let better: bool = V[vi] < A[vi, vr]
        let value: float32 = select(better, A[vi, vr], V[vi])
        let where_: int64 = select(better, vr, I[vi])
        V[vi] = value
        I[vi] = where_
      }
    }
  }
}""",
        [{"m": 3, "n": 5}, {"m": 1, "n": 1}],
    ),
    "softmax": Program(
        """
func softmax(A: in float32[m, n], B: out float32[m, n]) symbols(m, n) {
  alloc M: float32[m]
  alloc E: float32[m, n]
  alloc S: float32[m]
  for i in 0..m parallel {
    for r in 0..n {
      block M(vi: spatial m = i, vr: reduce n = r) {
        init { M[vi] = -inf_f32 }
        M[vi] = max(M[vi], A[vi, vr])
      }
    }
    for j in 0..n {
      block E(vi: spatial m = i, vj: spatial n = j) { E[vi, vj] = exp(A[vi, vj] - M[vi]) }
    }
    for r in 0..n {
      block S(vi: spatial m = i, vr: reduce n = r) {
        init { S[vi] = 0.0f32 }
        S[vi] = S[vi] + E[vi, vr]
      }
    }
    for j in 0..n {
      block B(vi: spatial m = i, vj: spatial n = j) { B[vi, vj] = E[vi, vj] / S[vi] }
    }
  }
}""",
        [{"m": 2, "n": 5}, {"m": 1, "n": 1}, {"m": 0, "n": 3}],
    ),
    "nested_blocks": Program(
        """
func tiled(A: in float32[8, 8], B: out float32[8]) {
  for io in 0..2 {
    for ro in 0..4 {
      block outer(vio: spatial 2 = io, vro: reduce 4 = ro) {
        for ii in 0..4 {
          for ri in 0..2 {
            block inner(vi: spatial 8 = vio * 4 + ii, vr: reduce 8 = vro * 2 + ri) {
              init { B[vi] = 0.0f32 }
              B[vi] = B[vi] + A[vi, vr]
            }
          }
        }
      }
    }
  }
}"""
    ),
    "fused_reduction": Program(
        """
func fused(A: in float32[4, 5], B: out float32[4]) {
  for f in 0..20 {
    block B(vi: spatial 4 = f // 5, vr: reduce 5 = f % 5) {
      init { B[vi] = 0.0f32 }
      B[vi] = B[vi] + A[vi, vr]
    }
  }
}"""
    ),
    "reduction_tail": Program(
        """
func sums(A: in float32[m, 10], B: out float32[m]) symbols(m) {
  for i in 0..m {
    for ro in 0..3 {
      for ri in 0..4 {
        block B(vi: spatial m = i, vr: reduce 10 = ro * 4 + ri) where ro * 4 + ri < 10 {
          init { B[vi] = 1.0f32 }
          B[vi] = B[vi] + A[vi, vr]
        }
      }
    }
  }
}""",
        [{"m": 3}, {"m": 0}],
    ),
    "gather_scatter": Program(
        """
func permute(A: in float32[16], P: in int64[8], B: inout float32[16]) {
  for i in 0..8 vectorize { B[P[i]] = A[P[i] + i] }
}"""
    ),
    "recurrence": Program(
        """
func recurrence(A: inout float32[17]) {
  for i in 0..16 vectorize { A[i + 1] = A[i] + A[i + 1] }
}"""
    ),
    "vector_sum": Program(
        """
func total(A: in float32[16], B: out float32[1]) {
  B[0] = 0.0f32
  for i in 0..16 vectorize { B[0] = B[0] + A[i] }
}"""
    ),
    "lane_private": Program(
        """
func private(A: in float32[4, 8], B: out float32[8]) {
  for i in 0..8 vectorize {
    alloc T: float32[4]
    for k in 0..4 { T[k] = A[k, i] * A[k, i] }
    B[i] = T[0] + T[1] * T[2] + T[3]
  }
}"""
    ),
    "no_vector_form": Program(
        """
func mixed(A: in int32[8], B: inout int32[8], N: inout int32[4]) {
  for i in 0..8 vectorize {
    let x: int32 = A[i] + 1i32
    if x != 3i32 {
      B[i] = x
      atomic add N[i % 4], x
    }
    while B[i] < 20i32 { B[i] = B[i] * 2i32 + x }
  }
}"""
    ),
    "checks": Program(
        """
func checked(A: in int64[8], D: in float32[8], B: out float32[8]) {
  for i in 0..8 vectorize {
    check (0 <= A[i]) & (A[i] < 8), "index out of range"
    B[i] = D[A[i]]
  }
}"""
    ),
    "nested_vectors": Program(
        """
func outer(A: in float32[3], B: in float32[4], C: out float32[3, 4]) {
  for i in 0..3 vectorize {
    for j in 0..4 vectorize { C[i, j] = A[i] * B[j] }
  }
}"""
    ),
    "half": Program(
        """
func half(A: in float16[10], B: in float16[10], C: out float16[10], D: out bool[10]) {
  for i in 0..10 {
    C[i] = max(A[i] * B[i] + A[i], -B[i])
    D[i] = A[i] < B[i]
  }
}"""
    ),
    "scalars": Program(
        """
func scalars(A: in float32[n], B: out float32[], C: out float32[n]) symbols(n) {
  alloc S: float32[]
  for i in 0..1 {
    for r in 0..n {
      block S(one: spatial 1 = i, vr: reduce n = r) { init { S[] = 0.0f32 } S[] = S[] + A[vr] }
    }
  }
  B[] = S[] * 2.0f32
  for i in 0..n parallel { C[i] = A[i] / S[] }
}""",
        [{"n": 5}, {"n": 1}],
    ),
    "prefetch": Program(
        """
func ahead(A: in float32[16], B: out float32[8]) {
  for i in 0..8 vectorize {
    evaluate hardware["prefetch", any, same, 1](&A[i + 8])
    B[i] = A[i] + A[i + 8]
  }
}"""
    ),
    "layout": Program(
        """
func relayout(A: in float32[5, 8], B: out float32[5, 8]) {
  alloc T: float32[5, 8] layout((i, j) -> (j // 4, i, j % 4) in [2, 5, 4])
  for i in 0..5 {
    for jo in 0..2 {
      for ji in 0..4 vectorize { T[i, jo * 4 + ji] = A[i, jo * 4 + ji] + 1.0f32 }
    }
  }
  for i in 0..5 { for j in 0..8 { B[i, j] = T[i, j] * 2.0f32 } }
}"""
    ),
}
