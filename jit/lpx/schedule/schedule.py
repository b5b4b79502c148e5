"""The schedule: a program, the primitives that change it, and the trace of what they did."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lpx.errors import TraceError
from lpx.ir.nodes import Block, For, Function
from lpx.ir.printer import print_function
from lpx.schedule import (
    blockizing,
    hardware,
    inlining,
    kinds,
    layouts,
    merging,
    padding,
    parallel_regions,
    pipelining,
    placement,
    prefetching,
    queries,
    reduction,
    reduction_factoring,
    sampling,
    skipping,
    storage,
    tensorizing,
)
from lpx.schedule import loops as nest
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.primitive import REGISTRY, find
from lpx.schedule.session import BlockLike, Session
from lpx.schedule.trace import Trace
from lpx.schedule.values import Json, as_tuple
from lpx.te.lower import lower
from lpx.te.tensor import Tensor


class Schedule(Session):
    """A program under transformation: `print(s)` shows it, `s.function` is it, `s.trace` says how it came about.

    Each primitive checks that the result stays the same, rewrites the function and records itself, at once; one that
    would change the result raises a `ScheduleError` and leaves everything as it was. `s[C].split(...)` is the same call
    as `s.split(...)`, for those used to writing the tensor first.
    """

    loops = nest.loops
    split = nest.split
    fuse = nest.fuse
    tile = nest.tile
    reorder = nest.reorder
    add_unit_loop = nest.add_unit_loop
    partition = nest.partition
    merge = merging.merge

    vectorize = kinds.vectorize
    unroll = kinds.unroll
    parallel = kinds.parallel
    bind = kinds.bind
    pragma = kinds.pragma
    parallel_region = parallel_regions.parallel_region

    compute_at = placement.compute_at
    reverse_compute_at = placement.reverse_compute_at
    compute_root = placement.compute_root
    compute_inline = inlining.compute_inline
    reverse_compute_inline = inlining.reverse_compute_inline

    cache_read = storage.cache_read
    cache_write = storage.cache_write
    set_scope = storage.set_scope
    storage_align = storage.storage_align
    transform_layout = layouts.transform_layout
    pack = layouts.pack
    pad = padding.pad

    skip_idle = skipping.skip_idle
    decompose_reduction = reduction.decompose_reduction
    rfactor = reduction_factoring.rfactor
    cross_lane_reduce = reduction.cross_lane_reduce
    cross_thread_reduce = reduction_factoring.cross_thread_reduce

    blockize = blockizing.blockize
    tensorize = tensorizing.tensorize
    async_copy = hardware.async_copy
    prefetch = prefetching.prefetch
    double_buffer = pipelining.double_buffer
    software_pipeline = pipelining.software_pipeline

    sample_tile = sampling.sample_tile
    sample_choice = sampling.sample_choice
    sample_location = sampling.sample_location

    def __str__(self) -> str:
        return print_function(self.function)

    def __getitem__(self, block: BlockLike) -> Schedule:
        """The schedule itself, after a look that the block exists: `s[C].split(...)` is `s.split(...)`."""
        self.block_of(block)
        return self

    def block(self, block: BlockLike) -> BlockHandle:
        """The handle of a block, by its name or the tensor it computes."""
        return BlockHandle(self.block_of(block).name)

    def blocks(self) -> tuple[BlockHandle, ...]:
        """The handles of all blocks, in program order."""
        return tuple(BlockHandle(name) for name in queries.live_blocks(self.function))

    def statement(self, handle: LoopHandle | BlockHandle) -> For | Block:
        """The loop or block that a handle stands for now."""
        return self.loop_of(handle) if isinstance(handle, LoopHandle) else self.block_of(handle)

    def call(
        self, name: str, inputs: Sequence[object], attrs: Mapping[str, object], outputs: str | tuple[str, ...]
    ) -> Mapping[str, object]:
        """Apply the primitive `name` as a trace has it; gives the results by the trace's names."""
        result = find(name).perform(self, outputs, *inputs, **attrs)
        if isinstance(outputs, str):
            return {outputs: result}
        items = as_tuple(result) or ()
        if len(items) != len(outputs):
            raise TraceError(f"{name} gave {len(items)} results where the trace has {len(outputs)}")
        return dict(zip(outputs, items, strict=True))

    if not TYPE_CHECKING:  # a checker that saw `__getattr__` would accept every misspelt name

        def __getattr__(self, name):
            if name in REGISTRY:
                return partial(REGISTRY[name], self)
            near = difflib.get_close_matches(name, dir(self), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise AttributeError(f"a schedule has no primitive {name!r}{hint}")


def create_schedule(
    program: Tensor | Sequence[Tensor] | Function, *, seed: int = 0, decisions: Iterable[Json] = ()
) -> Schedule:
    """A schedule of a function, or of the function that computes the given tensors.

    Sampling primitives take `decisions` in order, then draw from a generator seeded with `seed`.
    """
    function = program if isinstance(program, Function) else lower(program)
    return Schedule(function, seed=seed, decisions=decisions)


def replay(
    trace: Trace,
    program: Tensor | Sequence[Tensor] | Function,
    *,
    decisions: Iterable[Json] | None = None,
    resample: bool = False,
    seed: int = 0,
) -> Schedule:
    """A schedule of `program` to which everything in `trace` was done.

    Sampling primitives repeat their recorded decisions, or take `decisions`, or on `resample` draw afresh with `seed`.
    """
    schedule = create_schedule(program, seed=seed)
    (trace if decisions is None else trace.with_decisions(decisions)).apply(schedule, resample=resample)
    return schedule
