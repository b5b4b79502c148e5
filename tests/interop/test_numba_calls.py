"""lpx kernels and jit functions called inside of `@numba.njit` functions."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lpx
from lpx import te
from tests.support import ROOT, Child

numba: Any = pytest.importorskip("numba")
pytest.importorskip("lpx.interop.numba")

Function = Callable[..., Any]


def njit(**options: bool) -> Callable[[Function], Function]:
    """`numba.njit`, with types."""

    def compiled(function: Function) -> Function:
        made: Function = numba.njit(**options)(function)
        return made

    return compiled


F32 = np.dtype(np.float32)


def scaled(*, checked: bool = False) -> Any:
    """c[i] = 2 a[i] + 1 of any length; with `checked`, of integers that are divided by themselves."""
    n = te.var("n")
    a = te.placeholder((n,), name="a", dtype="int32" if checked else "float32")
    body: Callable[[Any], Any] = (lambda i: 12 // a[i]) if checked else (lambda i: a[i] * 2.0 + 1.0)
    return lpx.build(te.compute((n,), body, name="c"))


def product(rows: int, inner: int, columns: int) -> Any:
    a = te.placeholder((rows, inner), name="a")
    b = te.placeholder((inner, columns), name="b")
    r = te.reduce_axis(inner)
    return lpx.build(te.compute((rows, columns), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c"))


def samples(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def test_writes_an_output_given_by_position_or_name() -> None:
    kernel = scaled()

    @njit()
    def both(a: Any, b: Any, c: Any) -> Any:
        kernel(a, b)
        return kernel(b, out=c)

    a, b, c = samples(17), np.empty(17, np.float32), np.empty(17, np.float32)
    returned = both(a, b, c)
    np.testing.assert_array_equal(b, kernel(a))
    np.testing.assert_array_equal(c, kernel(kernel(a)))
    assert returned.ctypes.data == c.ctypes.data


def test_allocates_what_is_not_given() -> None:
    kernel = product(5, 7, 9)

    @njit()
    def twice(a: Any, b: Any) -> Any:
        return kernel(a, b) + kernel(a, b=b, out=None)

    a, b = samples(5, 7), samples(7, 9)
    np.testing.assert_allclose(twice(a, b), 2 * (a @ b), rtol=1e-5)


def test_memory_it_allocates_is_freed(child: Child) -> None:
    code = """
        import numba, numpy as np, lpx, lpx.interop.numba
        from lpx import te
        n = te.var("n")
        a = te.placeholder((n,), name="a")
        kernel = lpx.build(te.compute((n,), lambda i: a[i] * 2.0 + 1.0, name="c"))

        @numba.njit
        def many(a, c, times):
            for _ in range(times):
                a = kernel(kernel(a), c)
            return a

        c = np.empty(64, np.float32)
        many(c, c.copy(), 1)
        before = numba.core.runtime.rtsys.get_allocation_stats()
        result = many(np.full(64, -1, np.float32), c, 3)
        assert (result == -1).all() and result.ctypes.data == c.ctypes.data
        del result
        after = numba.core.runtime.rtsys.get_allocation_stats()
        print(after.alloc - before.alloc, after.free - before.free)
    """
    made, freed = map(int, child(code, NUMBA_NRT_STATS="1").split())
    assert made == freed > 0


def test_jit_function_takes_the_specialisation_of_the_shapes() -> None:
    @lpx.jit
    def both(x: Any, s: Any) -> Any:
        return np.exp(x) * s, x.sum(axis=1)

    scale = np.array(3, np.float32)
    for rows in (2, 3):
        both(samples(rows, 4), scale)

    @njit()
    def use(x: Any, s: Any) -> Any:
        return both(x, s)

    @njit()
    def use_out(x: Any, s: Any, out: Any) -> Any:
        return both(x, s, out=out)

    for rows in (3, 2):
        x = samples(rows, 4)
        wanted = both(x, scale)
        for got, want in zip(use(x, np.float32(3)), wanted, strict=True):
            np.testing.assert_array_equal(got, want)
        out = (np.empty((rows, 4), np.float32), np.empty(rows, np.float32))
        use_out(x, scale, out)
        for got, want in zip(out, wanted, strict=True):
            np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match=r"the shapes of none of both\(x: float32\[2, 4\]"):
        use(samples(7, 4), np.float32(3))


def test_jit_function_without_a_specialisation_says_what_to_do() -> None:
    @lpx.jit
    def double(x: Any) -> Any:
        return x * 2

    @njit()
    def use(x: Any) -> Any:
        return double(x)

    with pytest.raises(numba.TypingError, match="double is not compiled for any arrays yet: call it once from Python"):
        use(samples(3))


def test_number_stands_for_an_array_of_rank_0() -> None:
    a = te.placeholder((), name="a", dtype="float64")
    kernel = lpx.build(te.compute((4,), lambda i: a[()] * te.cast(i, "float64"), name="c"))

    @njit()
    def use(x: Any) -> Any:
        return kernel(x)

    for number in (3, 2.5, np.float32(0.5), True):
        np.testing.assert_array_equal(use(number), np.arange(4.0) * float(number))
    with pytest.raises(numba.TypingError, match="main: a is complex128, not an array"):
        use(1j)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (np.zeros(4), r"main: a has dtype float64, float32 is expected: convert it with astype\(np.float32\)"),
        (np.zeros(8, F32)[::2], r"main: a is array\(float32, 1d, A\), not known to be C-contiguous: pass np.ascont"),
        (np.zeros((2, 2), F32), "main: a has rank 2, 1 is expected: reshape it"),
        (3, r"main: a is int64, not an array: pass a C-contiguous array of float32 with 1 dimension\(s\)"),
    ],
)
def test_argument_of_another_type_is_named_with_the_remedy(argument: Any, message: str) -> None:
    kernel = scaled()

    @njit()
    def use(a: Any) -> Any:
        return kernel(a)

    with pytest.raises(numba.TypingError, match=message):
        use(argument)


def test_read_only_output_and_wrong_number_of_arguments_are_refused() -> None:
    kernel = scaled()
    frozen = samples(4)
    frozen.flags.writeable = False

    @njit()
    def use(a: Any, c: Any) -> Any:
        return kernel(a, c)

    @njit()
    def three(a: Any) -> Any:
        return kernel(a, a, a)

    @njit()
    def named(a: Any) -> Any:
        return kernel(a, d=a)

    np.testing.assert_array_equal(use(frozen, np.empty(4, np.float32)), kernel(frozen))
    with pytest.raises(numba.TypingError, match="main: c is read-only, and the kernel writes to it: pass a copy"):
        use(samples(4), frozen)
    with pytest.raises(numba.TypingError, match="main takes at most 2 arguments, 3 were given"):
        three(samples(4))
    with pytest.raises(numba.TypingError, match="main has no parameter 'd'"):
        named(samples(4))


def test_element_type_unknown_to_numba_is_refused() -> None:
    a = te.placeholder((4,), name="a")
    kernel = lpx.build(te.compute((4,), lambda i: te.cast(a[i], "bfloat16"), name="c"))

    @njit()
    def use(a: Any) -> Any:
        return kernel(a)

    with pytest.raises(numba.TypingError, match="numba has no arrays of bfloat16, which c is"):
        use(samples(4))


def test_shapes_and_overlap_are_checked_at_run_time() -> None:
    kernel, wide = scaled(), product(2, 3, 4)

    @njit()
    def use(a: Any, c: Any) -> Any:
        return kernel(a, c)

    @njit()
    def multiply(a: Any, b: Any) -> Any:
        return wide(a, b)

    a = samples(8)
    with pytest.raises(ValueError, match=r"the arrays do not have the shapes of main\(a: float32\[n\]\)"):
        use(a, np.empty(9, np.float32))
    with pytest.raises(ValueError, match="the arrays do not have the shapes of"):
        multiply(samples(2, 3), samples(3, 5))
    with pytest.raises(ValueError, match="writes c, which shares memory with a: pass a copy of one"):
        use(a[:6], a[2:])
    np.testing.assert_array_equal(use(a[:4], a[4:]), kernel(a[:4]))


def test_failed_check_is_an_exception() -> None:
    kernel = scaled(checked=True)

    @njit()
    def use(a: Any) -> Any:
        return kernel(a)

    @njit()
    def caught(a: Any) -> Any:
        try:
            kernel(a)
        except Exception:
            return 1
        return 0

    np.testing.assert_array_equal(use(np.array([1, -5], np.int32)), [12, -3])
    bad = np.array([1, 0], np.int32)
    with pytest.raises(lpx.errors.RuntimeCheckError, match="main: integer division by zero"):
        use(bad)
    assert caught(bad) == 1
    assert caught(np.array([3], np.int32)) == 0


def test_constants_and_inout_parameters() -> None:
    table = np.arange(2048, dtype=np.float32)
    a = te.placeholder((2048,), name="a")
    weights = te.constant(table)
    kernel = lpx.build(te.compute((2048,), lambda i: a[i] + weights[i], name="c"))

    @njit()
    def use(a: Any) -> Any:
        return kernel(a)

    x = samples(2048)
    np.testing.assert_array_equal(use(x), x + table)


def test_runs_in_prange_and_without_the_gil() -> None:
    kernel = scaled()

    @njit(parallel=True, nogil=True)
    def rows(x: Any, out: Any) -> None:
        for i in numba.prange(x.shape[0]):
            kernel(x[i], out[i])

    x, out = samples(64, 5), np.empty((64, 5), np.float32)
    rows(x, out)
    np.testing.assert_array_equal(out, x * 2 + 1)

    @njit(nogil=True)
    def again(x: Any, out: Any) -> None:
        for _ in range(200):
            kernel(x, out)

    results = [np.empty(100, np.float32) for _ in range(4)]
    a = samples(100)
    threads = [threading.Thread(target=again, args=(a, r)) for r in results]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in results:
        np.testing.assert_array_equal(r, a * 2 + 1)


def test_function_passed_as_an_argument() -> None:
    @njit()
    def apply(function: Any, a: Any) -> Any:
        return function(a)

    kernel = scaled()
    np.testing.assert_array_equal(apply(kernel, samples(5)), kernel(samples(5)))


def test_machine_code_outlives_the_kernel(child: Child) -> None:
    code = """
        import gc, numba, numpy as np, lpx, lpx.interop.numba
        from lpx import te

        def make():
            a = te.placeholder((3,), name="a")
            kernel = lpx.build(te.compute((3,), lambda i: a[i] + 1.0, name="c"))
            inner = numba.njit(lambda a: kernel(a))
            outer = numba.njit(lambda a: inner(a))
            outer(np.zeros(3, np.float32))
            return outer

        outer = make()
        gc.collect()
        print(outer(np.ones(3, np.float32)))
    """
    assert child(code) == "[2. 2. 2.]\n"


def test_cache_is_refused_with_a_warning_and_the_call_works(child: Child, tmp_path: Any) -> None:
    (tmp_path / "module.py").write_text(
        """
import numba, numpy as np, lpx, warnings
from lpx import te
import lpx.interop.numba
a = te.placeholder((4,), name="a")
kernel = lpx.build(te.compute((4,), lambda i: a[i] + 1.0, name="c"))
@numba.njit(cache=True)
def use(a):
    return kernel(a)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    print(use(np.zeros(4, np.float32)))
print([str(w.message).partition(" as ")[2] for w in seen])
"""
    )
    out = child(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import module", NUMBA_CACHE_DIR=str(tmp_path))
    assert "[1. 1. 1. 1.]" in out
    assert "it uses dynamic globals" in out


def test_import_of_lpx_does_not_import_numba(child: Child) -> None:
    assert child("import lpx, lpx.nn, sys; lpx.jit; lpx.build; print('numba' in sys.modules)") == "False\n"


def test_installed_package_needs_no_import_line(child: Child, tmp_path: Any) -> None:
    """The entry point of pyproject.toml, in a distribution of a name that nobody has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = tmp_path / "lpx_entry-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: lpx-entry\nVersion: 0\n")
    points = project["entry-points"]["numba_extensions"]
    (folder / "entry_points.txt").write_text(
        "[numba_extensions]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
    )
    code = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import numba, numpy as np, lpx
        from lpx import te
        a = te.placeholder((4,), name="a")
        kernel = lpx.build(te.compute((4,), lambda i: a[i] + 1.0, name="c"))
        assert "lpx.interop.numba" not in sys.modules
        print(numba.njit(lambda a: kernel(a))(np.zeros(4, np.float32)))
    """
    assert child(code) == "[1. 1. 1. 1.]\n"


def test_output_is_apart_from_constants_of_the_kernel() -> None:
    class Holder:
        table = np.arange(4096, dtype=np.float32)

    @lpx.jit
    def shifted(x: Any) -> Any:
        return x + Holder.table

    @njit()
    def use(x: Any, out: Any) -> Any:
        return shifted(x, out=out)

    x = samples(4096)
    wanted = shifted(x)
    np.testing.assert_array_equal(use(x, np.empty_like(x)), wanted)
    (constant,) = shifted.specialisations[0].bound.values()
    with pytest.raises(ValueError, match="writes out, which shares memory with constant: pass a copy of one"):
        use(x, constant)
