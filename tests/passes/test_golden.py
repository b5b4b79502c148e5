"""Each pass on small programs: what goes in and what comes out, as text, with the same results."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lpx.ir.printer import print_function
from lpx.passes.contract_accumulations import ContractAccumulations
from lpx.passes.expand_math import ExpandMath
from lpx.passes.flatten_buffers import FlattenBuffers
from lpx.passes.legalize_storage_types import LegalizeStorageTypes
from lpx.passes.lower_blocks import LowerBlocks
from lpx.passes.mask_loads import MaskLoads
from lpx.passes.narrow_indices import NarrowIndices
from lpx.passes.partition_loops import PartitionLoops
from lpx.passes.pipeline import Pass, pass_name
from lpx.passes.plan_allocations import PlanAllocations
from lpx.passes.promote_accumulators import PromoteAccumulators
from lpx.passes.simplify import Simplify
from lpx.passes.unroll_loops import UnrollLoops
from lpx.passes.vectorize_loops import VectorizeLoops
from tests.passes.programs import PROGRAMS
from tests.passes.support import apply, assert_pass_keeps, parse
from tests.support import Golden


@dataclass(frozen=True)
class Case:
    """The last pass is what is shown; the others come before it. `text` is the name of a program or a function."""

    text: str
    passes: tuple[Pass, ...]
    exact: bool = True


_CLEAN = (LowerBlocks(), Simplify())
_SPLIT = (*_CLEAN, PartitionLoops(), Simplify())

CASES: dict[str, Case] = {
    "contract": Case("matmul", (ContractAccumulations(),), exact=False),
    "lower_reduction": Case("matmul_tails", (LowerBlocks(),)),
    "lower_nested": Case("nested_blocks", (LowerBlocks(),)),
    "lower_fused": Case("fused_reduction", (LowerBlocks(),)),
    "lower_scan": Case("scan", (LowerBlocks(),)),
    "plan_stencil": Case("stencil", (PlanAllocations(),)),
    "plan_scan": Case("scan", (*_CLEAN, PlanAllocations())),
    "plan_softmax": Case("softmax", (*_CLEAN, PlanAllocations())),
    "partition_symbolic": Case("matmul_symbolic", (*_CLEAN, PartitionLoops())),
    "partition_static": Case("matmul_tails", (*_CLEAN, PartitionLoops())),
    "partition_padding": Case("padding", (*_CLEAN, PartitionLoops())),
    "partition_reduction": Case("reduction_tail", (*_CLEAN, PartitionLoops())),
    "vectorize_tail": Case("vector_tail", (*_SPLIT, VectorizeLoops())),
    "vectorize_from_three": Case("vector_from_three", (VectorizeLoops(),)),
    "vectorize_guarded_cast": Case("guarded_cast", (VectorizeLoops(),)),
    "vectorize_branches": Case("both_branches", (VectorizeLoops(),)),
    "vectorize_gather": Case("gather_scatter", (VectorizeLoops(),)),
    "vectorize_recurrence": Case("recurrence", (VectorizeLoops(),)),
    "vectorize_sum": Case("vector_sum", (VectorizeLoops(),)),
    "vectorize_private": Case("lane_private", (VectorizeLoops(),)),
    "vectorize_mixed": Case("no_vector_form", (VectorizeLoops(),)),
    "vectorize_checks": Case("checks", (VectorizeLoops(),)),
    "vectorize_nested": Case("nested_vectors", (VectorizeLoops(),)),
    "unroll": Case("vector_from_three", (UnrollLoops(),)),
    "promote_tile": Case("matmul", (*_SPLIT, VectorizeLoops(), UnrollLoops(), PromoteAccumulators())),
    "promote_tile_symbolic": Case("matmul_symbolic", (*_SPLIT, VectorizeLoops(), UnrollLoops(), PromoteAccumulators())),
    "promote_scalars": Case("softmax", (*_CLEAN, PlanAllocations(), PromoteAccumulators())),
    "promote_argmax": Case("argmax", (*_CLEAN, PromoteAccumulators())),
    "mask_padding": Case("padding", (*_CLEAN, MaskLoads())),
    "legalize_half": Case("half", (LegalizeStorageTypes(),)),
    "flatten_layout": Case("layout", (VectorizeLoops(), UnrollLoops(), FlattenBuffers())),
    "narrow_mask": Case("vector_tail", (*_SPLIT, VectorizeLoops(), UnrollLoops(), FlattenBuffers(), NarrowIndices())),
    "simplify": Case(
        """
func tidy(A: in float32[8], B: out float32[8]) {
  alloc unused: float32[4]
  alloc unread: float32[8]
  for o in 0..1 {
    for i in 0..8 {
      let j: int64 = o * 8 + i
      unread[j] = A[j]
      if j < 8 {
        check 0 <= j, "never fails"
        B[j + 0] = A[(j * 4 + 3) // 4] * 2.0f32
      } else {
        B[0] = 0.0f32
      }
    }
  }
  for i in 0..0 { B[0] = 1.0f32 }
}""",
        (Simplify(),),
    ),
    "narrow_gather": Case(
        """
func gather(A: in float32[70], P: in int32[8], B: out float32[8], C: out float32[8]) {
  for i in 0..8 vectorize {
    B[i] = A[i * 9 % 50]
    C[i] = A[int64(P[i]) * 5 + i]
  }
}""",
        (VectorizeLoops(), UnrollLoops(), FlattenBuffers(), NarrowIndices()),
    ),
    "expand_rsqrt": Case(
        "func f(A: in float32[4], B: out float32[4]) { for i in 0..4 { B[i] = rsqrt(A[i] * A[i] + 1.0f32) } }",
        (ExpandMath(),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, golden: Golden) -> None:
    case = CASES[name]
    program = PROGRAMS.get(case.text)
    function = program.function if program else parse(case.text)
    *earlier, shown = case.passes
    before = apply(function, *earlier)
    if not case.exact:
        after = apply(before, shown)
    elif program:
        after = assert_pass_keeps(before, shown, extents=program.extents)
    else:
        after = assert_pass_keeps(before, shown)
    golden(f"{name}.txt", f"{print_function(before)}\n\n// {pass_name(shown)}\n\n{print_function(after)}")
    if after is not before:
        assert print_function(after) != print_function(before)
