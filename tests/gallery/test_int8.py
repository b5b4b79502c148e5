"""Products of 8-bit matrices with 32-bit sums by one dot-product instruction per 64 products (x86 VNNI)."""

from __future__ import annotations

import numpy as np
import pytest

from lpx import te
from lpx.codegen.cpu import lower_to_llvm
from lpx.passes import pipeline
from lpx.schedule import Schedule, create_schedule
from lpx.target import Target
from tests.codegen import harness
from tests.gallery.running import compiled, interpreted, random_array

ROWS, LANES, GROUP = 4, 16, 4


def product(m: int, k: int, n: int) -> te.Tensor:
    a, b = te.placeholder((m, k), "uint8", name="A"), te.placeholder((k, n), "int8", name="B")
    r = te.reduce_axis(k, name="r")
    return te.compute(
        (m, n), lambda i, j: te.sum(te.cast(a[i, r], "int32") * te.cast(b[r, j], "int32"), axis=r), name="C"
    )


def schedule_product(s: Schedule) -> None:
    i, j, r = s.loops("C")
    io, ii = s.split(i, ROWS)
    jo, ji = s.split(j, LANES)
    ro, ri = s.split(r, GROUP)
    s.reorder(jo, io, ro, ii, ji, ri)
    s.pack("C", "B", lambda r, j: (j // LANES, r // GROUP, j % LANES, r % GROUP))
    start = s.decompose_reduction("C", ro)
    s.vectorize(s.loops(start)[-1])
    s.unroll(ii)
    s.parallel(jo)
    s.tensorize("C", ji, "x86.vpdpbusd.16")


def test_product() -> None:
    s = create_schedule(product(8, 32, 48))
    schedule_product(s)
    a, b = random_array(8, 32, dtype="uint8"), random_array(32, 48, seed=1, dtype="int8")
    want = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(interpreted(s, a, b)[0], want)
    if not harness.HOST.cpu.has("avx512vnni"):
        pytest.skip("this processor has no dot-product instruction")
    np.testing.assert_array_equal(compiled(s, a, b)[0], want)


def test_four_rows_share_each_vector_of_b() -> None:
    s = create_schedule(product(8, 32, 48))
    schedule_product(s)
    target = Target.parse("cpu:sapphirerapids")
    text = harness.assembly(lower_to_llvm(pipeline.lower(s.function, target).function, target), target)
    assert text.count("vpdpbusd") % ROWS == 0
    assert "vpgather" not in text
