"""`@numba.njit` functions of scalars inside of tensor expressions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.errors import DefinitionError, DTypeError, UnsupportedError
from lpx.ir.interpreter import interpret
from lpx.ir.parser import parse_function
from lpx.ir.printer import print_function
from tests.support import Child

numba: Any = pytest.importorskip("numba")
interop: Any = pytest.importorskip("lpx.interop.numba")


@functools.cache
def scalar(function: Callable[..., Any], fastmath: bool | str = False) -> Any:
    """`function` as numba compiles it, with all fast-math flags or the one that is named."""
    flags = {fastmath} if isinstance(fastmath, str) else fastmath
    return interop.scalar(numba.njit(error_model="numpy", fastmath=flags)(function))


def leaky(x: Any, k: Any) -> Any:
    return x if x > 0 else x * k


def halvings(x: Any) -> Any:
    count = 0
    while x > 1:
        x = x / 2
        count += 1
    return count


def wave(x: Any) -> Any:
    return math.erf(x) + 1.0 if x < 0.5 else math.sqrt(x)  # of float64, the constant's dtype


def is_near(x: Any, y: Any) -> Any:
    return abs(x - y) <= 1


def choose(flag: Any, x: Any) -> Any:
    return -x if flag else x


def elementwise(function: Any, *dtypes: str, extent: int = 0) -> Any:
    """c[i] = function(a0[i], a1[i], ...) of any length, or of a fixed one."""
    n = extent or te.var("n")
    inputs = [te.placeholder((n,), name=f"a{k}", dtype=d) for k, d in enumerate(dtypes)]
    return te.compute((n,), lambda i: function(*(a[i] for a in inputs)), name="c")


def where(condition: Any, a: Any, b: Any) -> Any:
    taken = np.asarray(a)
    return np.where(condition, taken, np.asarray(b, taken.dtype))


def values(dtype: str, count: int) -> Any:
    rng = np.random.default_rng(5)
    if dtype == "bool":
        return rng.random(count) < 0.5
    return (rng.standard_normal(count) * 4).astype(dtype)


CASES = [
    (leaky, ("float32", "float32")),
    (leaky, ("float64", "float64")),
    (halvings, ("float32",)),
    (wave, ("float32",)),
    (is_near, ("int32", "int32")),
    (choose, ("bool", "float64")),
    (leaky, ("int8", "float64")),
]


@pytest.mark.parametrize(("function", "dtypes"), CASES)
def test_agrees_with_numba_and_the_interpreter(function: Callable[..., Any], dtypes: tuple[str, ...]) -> None:
    made = scalar(function)
    kernel = lpx.build(elementwise(made, *dtypes))
    for count in (1, 37, 1000):
        inputs = [values(d, count) for d in dtypes]
        wanted = [made(*row) for row in zip(*inputs, strict=True)]
        got = kernel(*inputs)
        known = {tuple(map(str, s.args)): str(s.return_type) for s in made.function.nopython_signatures}
        assert str(got.dtype) == known[dtypes]
        np.testing.assert_array_equal(got, wanted)
    short = [values(d, 37) for d in dtypes]
    lowered = lpx.lower_program(elementwise(made, *dtypes))
    for text in (lowered.te, lowered.ir):
        out = np.zeros(37, kernel(*short).dtype)
        interpret(parse_function(text), [*short, out], {"n": 37})
        np.testing.assert_array_equal(out, kernel(*short))


def test_is_part_of_the_text_and_is_parsed_back() -> None:
    lowered = lpx.lower_program(elementwise(scalar(leaky), "float32", "float32"))
    text = lowered.te
    assert 'foreign["numba.leaky.' in text
    assert print_function(parse_function(text)) == text
    again = lpx.build(parse_function(text))
    a, k = values("float32", 40), values("float32", 40)
    np.testing.assert_array_equal(again(a, k), where(a > 0, a, a * k))


def test_is_inlined_and_vectorized() -> None:
    assembly = lpx.lower_program(elementwise(scalar(leaky), "float32", "float32", extent=1024), "cpu:x86-64-v3").asm
    assert "ymm" in assembly
    assert "call" not in assembly
    assert "leaky" not in assembly


@pytest.mark.parametrize("lanes", [2, 8, 32])
@pytest.mark.parametrize("kind", ["unroll", "parallel"])
def test_schedules_compute_the_same(lanes: int, kind: str) -> None:
    """Two functions in one kernel, in several lanes and alone, with what is left over at the end."""
    step, wave_of = scalar(leaky), scalar(wave)
    a = te.placeholder((103,), name="a")
    s = lpx.create_schedule(
        te.compute((103,), lambda i: te.cast(step(a[i], 0.5), "float64") + wave_of(a[i]) * wave_of(-a[i]), name="c")
    )
    outer, inner = s.split(s.loops("c")[0], lanes)
    s.vectorize(inner)
    getattr(s, kind)(outer)
    x = values("float64", 103).astype(np.float32)
    wanted = [step(v, np.float32(0.5)) + wave_of(v) * wave_of(-v) for v in x]
    np.testing.assert_array_equal(lpx.build(s)(x), wanted)


def test_python_numbers_take_the_dtype_of_the_first_expression() -> None:
    made = scalar(leaky)
    a = te.placeholder((8,), name="a", dtype="float64")
    kernel = lpx.build(te.compute((8,), lambda i: made(a[i], 0.5) + made(0.25, a[i]), name="c"))
    x = values("float64", 8)
    np.testing.assert_array_equal(kernel(x), where(x > 0, x, x * 0.5) + 0.25)
    assert made(-2.0, 0.5) == -1.0


def test_in_a_reduction_under_a_condition_and_on_threads() -> None:
    made = scalar(leaky)
    a = te.placeholder((64, 500), name="a")
    r = te.reduce_axis(500)
    total = te.compute((64,), lambda i: te.sum(te.where(a[i, r] < 2, made(a[i, r], 0.5), 0.0), axis=r), name="t")
    x = values("float32", 64 * 500).reshape(64, 500)
    wanted = where(x < 2, where(x > 0, x, x * 0.5), 0).astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(lpx.build(total)(x), wanted, rtol=1e-4, atol=1e-3)


def test_same_function_has_one_name_and_other_code_another() -> None:
    def scaled(factor: float) -> Any:
        def times(x: Any) -> Any:
            return x * factor

        return scalar(times)

    def name(function: Any) -> str:
        text = lpx.lower_program(elementwise(function, "float32")).te
        return text.split('"')[1]

    assert name(scaled(2.0)) == name(scaled(2.0))
    assert name(scaled(2.0)) != name(scaled(3.0))
    assert name(scalar(wave)) != name(scalar(wave, True))


def test_fast_math_flags_are_those_of_the_function() -> None:
    def fused(x: Any, y: Any) -> Any:
        return x * y + x

    plain = lpx.lower_program(elementwise(scalar(fused), "float32", "float32", extent=64), "cpu:x86-64-v3")
    fast = lpx.lower_program(elementwise(scalar(fused, "contract"), "float32", "float32", extent=64), "cpu:x86-64-v3")
    assert "vfmadd" not in plain.asm
    assert "vfmadd" in fast.asm


PROGRAM = """
    import sys, numba, numpy as np, lpx
    from lpx import te
    from lpx.interop.numba import scalar

    extra = numba.njit(lambda x: x)
    if len(sys.argv) < 2:
        extra(1.0)  # names in numba's code count what was compiled before
    @numba.njit(error_model="numpy")
    def helper(x):
        s = 0.0
        while s < 3:
            s += x * x + 1
        return s
    factor = FACTOR
    f = scalar(numba.njit(error_model="numpy")(lambda x: helper(x) * factor))
    a = te.placeholder((100,), name="a")
    kernel = lpx.build(te.compute((100,), lambda i: f(a[i]), name="c"))
    x = np.linspace(0, 2, 100, dtype=np.float32)
    assert np.array_equal(kernel(x), [f(v) for v in x])
    print("cached" if "llvm" not in kernel.stats else "compiled")
"""


def test_another_process_runs_the_cached_code_and_other_code_is_a_miss(child: Child, tmp_path: Any) -> None:
    folder = str(tmp_path / "cache")
    first = child(PROGRAM.replace("FACTOR", "2.0"), LPX_CACHE_DIR=folder)
    second = child(PROGRAM.replace("FACTOR", "2.0").replace("< 2:", "< 0:"), LPX_CACHE_DIR=folder)
    other = child(PROGRAM.replace("FACTOR", "3.0"), LPX_CACHE_DIR=folder)
    assert (first, second, other) == ("compiled\n", "cached\n", "compiled\n")


def test_function_cached_by_numba(child: Child, tmp_path: Any) -> None:
    (tmp_path / "module.py").write_text(
        "import numba\n@numba.njit(cache=True, error_model='numpy')\ndef twice(x):\n    return x + x\n"
    )
    code = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import numpy as np, lpx
        from lpx import te
        from lpx.interop.numba import scalar
        from module import twice
        twice(np.float32(2))
        f = scalar(twice)
        a = te.placeholder((4,), name="a")
        print(lpx.build(te.compute((4,), lambda i: f(a[i]), name="c"))(np.ones(4, np.float32)))
    """
    for _ in range(2):
        assert child(code, NUMBA_CACHE_DIR=str(tmp_path)) == "[2. 2. 2. 2.]\n"


def test_text_in_a_process_that_does_not_know_the_function(child: Child) -> None:
    code = """
        import lpx
        from lpx.ir.parser import parse_function
        text = '''func f(a: in float32[4], c: out float32[4]) {
          for i in 0..4 { c[i] = foreign["numba.f.0", any, float32, 1](a[i]) }
        }'''
        try:
            lpx.build(parse_function(text))
        except lpx.errors.UnsupportedError as error:
            print(error)
    """
    assert "the program calls numba.f.0, which this process does not know" in child(code)


TABLE = np.zeros(1 << 18)


def division(x: Any) -> Any:
    return 1 / x


def gamma(x: Any) -> Any:
    return math.gamma(x)


def look(k: Any) -> Any:
    return TABLE[k]


def pair(x: Any) -> Any:
    return x, x


def attribute(x: Any) -> Any:
    return x.name


@pytest.mark.parametrize(
    ("function", "dtype", "message"),
    [
        (gamma, "float32", "gamma cannot be part of a kernel: it calls numba_gammaf"),
        (look, "int64", "look cannot be part of a kernel: it uses memory of this process"),
        (pair, "float32", "pair cannot be part of a kernel: it returns UniTuple"),
        (attribute, "float32", r"numba cannot compile attribute\(float32\)"),
    ],
)
def test_what_cannot_be_part_of_a_kernel_says_why(function: Callable[..., Any], dtype: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        elementwise(scalar(function), dtype)


def test_exceptions_narrow_floats_and_plain_functions_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="division cannot be part of a kernel: it may raise an exception"):
        elementwise(interop.scalar(numba.njit(division)), "float32")
    with pytest.raises(DTypeError, match="division is given bfloat16, which numba has no numbers of"):
        elementwise(scalar(division), "bfloat16")
    with pytest.raises(DefinitionError, match="is not compiled by numba"):
        interop.scalar(division)
