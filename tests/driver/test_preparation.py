"""What is computed from constants alone runs once, when a kernel is linked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import nn, te
from lpx.driver.preparation import separate
from lpx.ir.interpreter import interpret
from lpx.ir.parser import parse_function
from lpx.ir.printer import print_function
from lpx.ir.verify import verify
from lpx.knobs import override

Array = NDArray[Any]

PACKED = """
func f(x: in float32[4], w: constant float32[4, 4], y: out float32[4]) {
  alloc p: float32[4, 4]
  for i in 0..4 {
    for j in 0..4 {
      p[j, i] = w[i, j]
    }
  }
  for i_1 in 0..4 {
    y[i_1] = 0.0f32
    for j_1 in 0..4 {
      y[i_1] = y[i_1] + p[j_1, i_1] * x[j_1]
    }
  }
}
"""


def test_a_nest_over_constants_becomes_a_function_of_its_own() -> None:
    separated = separate(parse_function(PACKED))
    assert separated.preparation is not None
    assert (separated.kept, separated.sources) == ((0, 2), (1,))
    assert print_function(separated.preparation).strip() == (
        "func f_prepare(w: constant float32[4, 4], p: out float32[4, 4]) {\n"
        "  for i in 0..4 {\n    for j in 0..4 {\n      p[j, i] = w[i, j]\n    }\n  }\n}"
    )
    assert "func f(x: in float32[4], y: out float32[4], p: constant float32[4, 4])" in print_function(separated.main)
    verify(separated.preparation)
    verify(separated.main)


def test_both_parts_together_do_what_the_whole_does() -> None:
    whole = parse_function(PACKED)
    separated = separate(whole)
    assert separated.preparation is not None
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(4).astype(np.float32), rng.standard_normal((4, 4)).astype(np.float32)
    want, got, p = np.empty(4, np.float32), np.empty(4, np.float32), np.empty((4, 4), np.float32)
    interpret(whole, [x, w, want])
    interpret(separated.preparation, [w, p])
    interpret(separated.main, [x, got, p])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("w: constant", "w: in"),  # may differ from call to call
        ("p[j, i] = w[i, j]", "p[j, i] = w[i, j] + x[i]"),  # depends on an argument
        ("y[i_1] = 0.0f32", "y[i_1] = 0.0f32\n    p[0, 0] = 1.0f32"),  # written again later
        ("alloc p: float32[4, 4]", "alloc p: float32[4, 4] scope(local)"),  # not memory that another function sees
        ("alloc p: float32[4, 4]", "alloc p: float32[4, 100]"),  # much larger than what it is made from
    ],
)
def test_what_stays(old: str, new: str) -> None:
    function = parse_function(PACKED.replace(old, new))
    separated = separate(function)
    assert separated.preparation is None
    assert separated.main is function


def test_a_constant_still_read_stays_a_parameter() -> None:
    separated = separate(parse_function(PACKED.replace("* x[j_1]", "* x[j_1] * w[j_1, i_1]")))
    assert separated.kept == (0, 1, 2)


def test_constants_are_read_only() -> None:
    with pytest.raises(lpx.errors.VerifyError, match="w is"):
        verify(parse_function(PACKED.replace("p[j, i] = w[i, j]", "w[i, j] = 0.0f32")))


def test_a_constant_needs_elements() -> None:
    with pytest.raises(lpx.errors.ArgumentError, match="constant parameter, w, whose elements are not known"):
        lpx.build(parse_function(PACKED))


def conv_of(weight: Array) -> Callable[[Array], Array]:
    def conv(x: Array) -> Any:
        return nn.relu(nn.conv2d(x, weight, padding=1))

    return lpx.jit(conv)


def test_prepared_weights_come_back_from_the_cache(tmp_path: Path) -> None:
    with override(cache_dir=tmp_path):
        check_cached(tmp_path)


def check_cached(folder: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 8, 9, 11), dtype=np.float32)
    weights = [rng.standard_normal((24, 8, 3, 3), dtype=np.float32) for _ in range(2)]
    for w in weights:
        w.flags.writeable = False

    @lpx.jit
    def run_time(x: Array, w: Array) -> Any:
        return nn.relu(nn.conv2d(x, w, padding=1))

    for w in (*weights, weights[0]):  # the second one finds the code of the first, and prepares its own weights
        np.testing.assert_array_equal(conv_of(w)(x), run_time(x, w))
    entries = [f for f in folder.rglob("*") if f.is_file()]
    assert entries
    for entry in entries:  # whatever part is missing is made again
        content = entry.read_bytes()
        entry.unlink()
        np.testing.assert_array_equal(conv_of(weights[1])(x), run_time(x, weights[1]))
        if not entry.exists():
            entry.write_bytes(content)


def test_constants_of_a_tensor_expression_are_prepared() -> None:
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = te.placeholder((5, 4), name="x")
    k = te.reduce_axis(4, name="k")
    c: te.Tensor = te.constant(w, name="w")
    y = te.compute((5, 3), lambda i, j: te.sum(x[i, k] * c[j, k], axis=k), name="y")
    s = lpx.create_schedule(y)
    s.pack(y, c, lambda j, k: (k, j))
    kernel = lpx.build(s)
    a = np.random.default_rng(0).standard_normal((5, 4), dtype=np.float32)
    np.testing.assert_allclose(kernel(a), a @ w.T, rtol=1e-5)
    assert "w_global: constant" in kernel.forms.ir
