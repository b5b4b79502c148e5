"""The pipeline: one list of passes, and the runner that applies it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lpx import knobs
from lpx.errors import UnsupportedError
from lpx.ir.nodes import Function
from lpx.ir.printer import print_function
from lpx.ir.verify import verify
from lpx.passes.align_stores import AlignStores
from lpx.passes.contract_accumulations import ContractAccumulations
from lpx.passes.expand_math import ExpandMath
from lpx.passes.flatten_buffers import FlattenBuffers
from lpx.passes.interleave_loads import InterleaveLoads
from lpx.passes.legalize_storage_types import LegalizeStorageTypes
from lpx.passes.lower_blocks import LowerBlocks
from lpx.passes.mask_loads import MaskLoads
from lpx.passes.narrow_indices import NarrowIndices
from lpx.passes.partition_loops import PartitionLoops
from lpx.passes.plan_allocations import PlanAllocations
from lpx.passes.promote_accumulators import PromoteAccumulators
from lpx.passes.serialize_pipelines import SerializePipelines
from lpx.passes.simplify import Simplify
from lpx.passes.transpose_tiles import TransposeTiles
from lpx.passes.unroll_loops import UnrollLoops
from lpx.passes.vectorize_loops import VectorizeLoops
from lpx.records import record
from lpx.target import Target

Pass = Callable[[Function], Function]
"""A pass is a frozen dataclass whose fields are its options; calling it gives the rewritten function."""

CPU: tuple[Pass, ...] = (
    SerializePipelines(),
    ContractAccumulations(),  # while blocks still say what a reduction is
    LowerBlocks(),
    Simplify(),
    PlanAllocations(),  # before loops are copied
    AlignStores(),  # while a guarded loop of vectors is one
    PartitionLoops(),  # before vectorization, which would turn guards into masks
    Simplify(),
    VectorizeLoops(),
    TransposeTiles(),  # while unrolled loops say what they read in turn
    UnrollLoops(),
    PromoteAccumulators(),  # once every place of a tile has an access of its own
    MaskLoads(),  # after all simplification, which may drop a mask that a branch or select implies
    InterleaveLoads(),  # with the masks of the loads
    LegalizeStorageTypes(),
    ExpandMath(),
    FlattenBuffers(),
    NarrowIndices(),
)
"""What happens to every function on its way to the machine code of a CPU."""

PIPELINES: Mapping[str, tuple[Pass, ...]] = {"cpu": CPU}
"""The pipeline of each kind of target."""


@record
class LoweredResult:
    """A function ready for code generation, and the seconds each pass took, in order."""

    function: Function
    times: tuple[tuple[str, float], ...]


def lower(function: Function, target: Target) -> LoweredResult:
    """`function` in the stage `flat`, for code generation on `target`.

    Raises: CompileError when the target cannot express the function, UnsupportedError for a target without a pipeline.
    """
    if target.kind not in PIPELINES:
        raise UnsupportedError(f"lpx makes no code for {target} yet", hint=f"it does for {', '.join(PIPELINES)}")
    return run(function, pipeline_for(target))


def pipeline_for(target: Target) -> tuple[Pass, ...]:
    """The passes of `target`'s pipeline, with vectors as long as its registers."""
    bits = target.cpu.vector_bits
    return tuple(type(p)(bits) if isinstance(p, VectorizeLoops | TransposeTiles) else p for p in PIPELINES[target.kind])


def run(function: Function, passes: Sequence[Pass]) -> LoweredResult:
    """`function` after `passes`, with the observers that `LPX_VERIFY`, `LPX_DUMP`, `LPX_PRINT_AFTER` ask for."""
    times: list[tuple[str, float]] = []
    _observe(function, "input", 0)
    for number, apply in enumerate(passes, 1):
        begin = time.perf_counter()
        function = apply(function)
        times.append((pass_name(apply), time.perf_counter() - begin))
        _observe(function, pass_name(apply), number)
    return LoweredResult(function, tuple(times))


def pass_name(apply: Pass) -> str:
    """The name of a pass in dumps, statistics and `LPX_PRINT_AFTER`: that of its class, in snake case."""
    name = type(apply).__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _observe(function: Function, name: str, number: int) -> None:
    """The one hook between passes."""
    if knobs.verify():
        verify(function)
    folder = knobs.dump()
    if folder is not None:
        _dump(folder, function, name, number)
    wanted = knobs.print_after()
    if wanted and (name in wanted or "all" in wanted):
        sys.stderr.write(f"// after {name}\n{print_function(function)}\n")


def _dump(folder: Path, function: Function, name: str, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{function.name}.{number:02}.{name}.lpx"
    path.write_text(print_function(function) + "\n", encoding="utf-8")
