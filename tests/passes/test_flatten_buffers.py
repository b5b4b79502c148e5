"""Physical indices: strides, layouts, constants."""

from __future__ import annotations

import numpy as np
import pytest

from lpx import dtypes
from lpx.errors import CompileError
from lpx.expr import build
from lpx.expr.buffer import Buffer, Layout
from lpx.ir.interpreter import interpret
from lpx.ir.nodes import For, Function, Param, Store
from lpx.ir.printer import print_function
from lpx.passes.flatten_buffers import FlattenBuffers, physical_data
from tests.passes.support import apply, parse


def _buffer(name: str, layout: Layout | None = None, strides: tuple[int, ...] | None = None) -> Buffer:
    shape = (build.const(4), build.const(6))
    steps = None if strides is None else tuple(build.const(s) for s in strides)
    return Buffer(name, dtypes.float32, shape, steps, layout=layout)


def _tiled() -> Layout:
    i, j = build.var("i"), build.var("j")
    return Layout((i, j), (j // 3, i, j % 3), tuple(build.const(n) for n in (2, 4, 3)))


def _copy(source: Buffer, data: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Function:
    target = _buffer("B")
    i, j = build.var("i"), build.var("j")
    zero, rows, columns = build.const(0), build.const(4), build.const(6)
    body = For(i, zero, rows, For(j, zero, columns, Store(target, (i, j), build.load(source, (i, j)))))
    return Function("copy", (Param(target, "out"),), (), body, constants={source: data})


@pytest.mark.parametrize("how", ["plain", "layout", "strides"])
def test_constants_are_laid_out_as_their_buffers_say(how: str) -> None:
    source = _buffer("A", _tiled() if how == "layout" else None, (1, 5) if how == "strides" else None)
    data = np.arange(24, dtype=np.float32).reshape(4, 6)
    flat = apply(_copy(source, data), FlattenBuffers())
    result = np.zeros((4, 6), np.float32)
    interpret(flat, [result])
    np.testing.assert_array_equal(result, data)


def test_physical_data_of_a_tiled_layout() -> None:
    data = np.arange(24, dtype=np.float32).reshape(4, 6)
    wanted = data.reshape(4, 2, 3).transpose(1, 0, 2).reshape(-1)
    np.testing.assert_array_equal(physical_data(_buffer("A", _tiled()), data), wanted)


def test_strides_may_be_symbolic() -> None:
    text = """func f(A: in float32[m, n] strides(s, 1), B: out float32[m, n]) symbols(m, n, s) {
      for i in 0..m { B[i, 0] = A[i, n - 1] } }"""
    flat = print_function(apply(parse(text), FlattenBuffers()))
    assert "B[i * n] = A[i * s + n - 1]" in flat


def test_vectors_stay_ramps() -> None:
    text = """func f(A: in float32[4, 8], B: out float32[4, 8]) {
      for i in 0..4 { B[i, ramp(0, 1, 8)] = A[ramp(0, 1, 8) // broadcast(2, 8), i] } }"""
    flat = print_function(apply(parse(text), FlattenBuffers()))
    assert "B[ramp(i * 8, 1, 8)]" in flat


def test_registers_of_a_warp_are_not_memory() -> None:
    i, j = build.var("i"), build.var("j")
    layout = Layout((i, j), (i * 6 + j, build.const(0)), (build.const(32), build.const(1)), "lane_register")
    with pytest.raises(CompileError, match="lanes of a warp"):
        FlattenBuffers()(_copy(_buffer("A", layout), np.zeros((4, 6), np.float32)))
