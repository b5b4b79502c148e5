"""A matrix product on tensor cores, through shared memory, with asynchronous copies three stages deep.

No target compiles it yet; the interpreter runs it, and checks that no copy is read before it has arrived.
"""

from __future__ import annotations

import numpy as np

from lpx import te
from lpx.ir.nodes import AsyncCopy, For
from lpx.ir.traverse import walk
from lpx.schedule import Schedule, create_schedule, replay
from tests.gallery.running import assert_close, interpreted, random_array

M, N, K = 16, 8, 16  # the tile of one operation
STAGES = 3


def product(m: int, k: int, n: int) -> te.Tensor:
    a, b = te.placeholder((m, k), "float16", name="A"), te.placeholder((k, n), "float16", name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute(
        (m, n), lambda i, j: te.sum(te.cast(a[i, r], "float32") * te.cast(b[r, j], "float32"), axis=r), name="C"
    )


def schedule_product(s: Schedule) -> None:
    i, j, r = s.loops("C")
    io, ii = s.split(i, M)
    jo, ji = s.split(j, N)
    ro, ri = s.split(r, K)
    s.reorder(io, jo, ro, ii, ji, ri)
    s.decompose_reduction("C", ro)
    s.bind(io, "blockIdx.y")
    s.bind(jo, "blockIdx.x")

    tiles = [s.cache_read("C", operand, "shared") for operand in ("A", "B")]
    for tile in tiles:
        s.compute_at(tile, ro)
    for tile in tiles:
        s.double_buffer(tile, ro, STAGES)
        s.async_copy(tile, s.loops(tile)[-1])
    s.tensorize("C", ii, "nvvm.ldmatrix.mma.f16")

    # The copies of a tile are started two iterations before the product that waits for them.
    copy_a, commit_a, copy_b, commit_b, wait, multiply = 0, 0, 0, 0, STAGES - 1, STAGES - 1
    s.software_pipeline(ro, (copy_a, commit_a, copy_b, commit_b, wait, multiply))


def test_product() -> None:
    program = product(32, 64, 16)
    s = create_schedule(program)
    schedule_product(s)
    assert str(replay(s.trace, program)) == str(s)
    a, b = random_array(32, 64, dtype="float16"), random_array(64, 16, seed=1, dtype="float16")
    (c,) = interpreted(s, a, b)
    assert_close(c, a.astype(np.float32) @ b.astype(np.float32), 1e-6)


def test_copies_fill_three_versions_of_each_tile() -> None:
    s = create_schedule(product(32, 64, 16))
    schedule_product(s)
    copies = [c for c in walk(s.function.body) if isinstance(c, AsyncCopy)]
    assert [c.target.name for c in copies] == ["A_shared", "B_shared"]
    assert "alloc A_shared: float16[3, 16, 16] scope(shared)" in str(s)
    assert "alloc B_shared: float16[3, 16, 8] scope(shared)" in str(s)
    (pipeline,) = [f for f in walk(s.function.body) if isinstance(f, For) and f.stages]
    assert [stage for stage, _ in pipeline.stages or ()] == [0, 0, 0, 0, 2, 2]
