"""Every kernel of the registry against its reference, on all kinds of arrays, and inside compiled functions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
import lpx_kernels
from lpx.frontends.numpy.arguments import abstract_arguments
from lpx.frontends.numpy.jit import JitFunction
from lpx.frontends.numpy.tracing import trace_function
from lpx_kernels import Case, Draw, Kernel, kernels
from lpx_kernels.registry import as_tuple, np_dtype
from tests.kernels.cases import CASES
from tests.kernels.checking import check

Array = NDArray[Any]
KERNELS = list(kernels().values())
RUNS = [
    pytest.param(kernel, case, dtype, id=f"{kernel.name} {case} {dtype}")
    for kernel in KERNELS
    for number, case in enumerate(CASES[kernel.name])
    for dtype in (kernel.dtypes if number == 0 else kernel.dtypes[:1])
]
EACH = pytest.mark.parametrize("kernel", KERNELS, ids=[kernel.name for kernel in KERNELS])


def assert_same(got: Any, wanted: Any) -> None:
    for one, other in zip(as_tuple(got), as_tuple(wanted), strict=True):
        np.testing.assert_array_equal(one, other)


def each_array(change: Callable[[Array], Any], positional: Sequence[Any], named: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments with every array changed."""

    def changed(value: Any) -> Any:
        return change(cast(Array, value)) if isinstance(value, np.ndarray) else value

    return [changed(value) for value in positional], {name: changed(value) for name, value in named.items()}


def test_every_kernel_has_cases_here_and_a_name_there() -> None:
    assert CASES.keys() == kernels().keys()
    functions = {name for name in lpx_kernels.__all__ if isinstance(getattr(lpx_kernels, name), JitFunction)}
    assert functions == kernels().keys()
    for kernel in KERNELS:
        assert getattr(lpx_kernels, kernel.name) is kernel.function
        assert kernel.summary


@EACH
def test_measured_cases_are_well_formed(kernel: Kernel) -> None:
    """They are traced, with arrays whose elements are never touched."""
    compiled: Any = kernel.function

    def blank(value: Any) -> Any:
        dtype = np_dtype(value.dtype or kernel.dtypes[0]) if isinstance(value, Draw) else None
        return value if dtype is None else np.empty(value.shape, dtype)

    assert kernel.cases
    for case in kernel.cases:
        positional, named = map(blank, case.positional), {name: blank(value) for name, value in case.named.items()}
        names, values = compiled._bind(tuple(positional), named)
        arguments, _ = abstract_arguments(names, values, compiled._static, {})
        assert trace_function(compiled._function, kernel.name, arguments).graph.nodes


@pytest.mark.parametrize(("kernel", "case", "dtype"), RUNS)
def test_against_reference(kernel: Kernel, case: Case, dtype: str) -> None:
    check(kernel, case, dtype)


def reversed_view(x: Array) -> Array:
    """The same elements, stored backwards."""
    everywhere = (slice(None, None, -1),) * x.ndim
    return x[everywhere].copy()[everywhere]


def transposed_view(x: Array) -> Array:
    """The same elements, stored in columns."""
    return x.T.copy().T


def every_second(x: Array) -> Array:
    """The same elements, with others between."""
    wide = np.repeat(x, 2, axis=-1) if x.ndim else x
    return wide[..., ::2] if x.ndim else wide


def swapped(x: Array) -> Array:
    """The same elements in the other byte order, where NumPy has that."""
    return x.astype(x.dtype.newbyteorder()) if x.dtype.kind != "V" else x


class Foreign:
    """An array of a library that speaks DLPack and nothing else."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.dtype = array.dtype

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


@EACH
def test_arrays_of_every_kind(kernel: Kernel) -> None:
    case = CASES[kernel.name][0]
    positional, named = case.arguments(kernel.dtypes[0])
    wanted = kernel.function(*positional, **named)
    for change in (reversed_view, transposed_view, every_second, swapped, Foreign):
        others, other_named = each_array(change, positional, named)
        assert_same(kernel.function(*others, **other_named), wanted)


@EACH
def test_out_is_written_and_returned(kernel: Kernel) -> None:
    case = CASES[kernel.name][0]
    positional, named = case.arguments(kernel.dtypes[0])
    wanted = kernel.function(*positional, **named)
    plain = [np.zeros_like(result) for result in as_tuple(wanted)]
    columns = [np.zeros(result.shape[::-1], result.dtype).T for result in as_tuple(wanted)]
    for outs in (plain, columns):
        out = tuple(outs) if isinstance(wanted, tuple) else outs[0]
        got = kernel.function(*positional, **named, out=out)
        assert all(one is other for one, other in zip(as_tuple(got), outs, strict=True))
        assert_same(got, wanted)


@EACH
def test_part_of_a_compiled_function(kernel: Kernel) -> None:
    case = CASES[kernel.name][0]
    positional, named = case.arguments(kernel.dtypes[0])
    places = [k for k, value in enumerate(positional) if isinstance(value, np.ndarray)]
    names = [name for name, value in named.items() if isinstance(value, np.ndarray)]

    @lpx.jit
    def program(*arrays: Any) -> Any:
        rest = iter(arrays)
        given = [next(rest) if k in places else value for k, value in enumerate(positional)]
        options = {name: next(rest) if name in names else value for name, value in named.items()}
        return kernel.function(*given, **options)

    arrays = [*(positional[k] for k in places), *(named[name] for name in names)]
    assert_same(program(*arrays), kernel.function(*positional, **named))
    assert program.compilations == 1


def test_kernels_fuse_in_a_compiled_function() -> None:
    x, w = np.ones((4, 8), np.float32), np.ones((8, 16), np.float32)

    @lpx.jit
    def layer(x: Any, w: Any) -> Any:
        return lpx_kernels.relu(lpx_kernels.matmul(x, w) - 7.5)

    assert len(layer.lower(x, w).kernels) == 1
    np.testing.assert_array_equal(layer(x, w), np.full((4, 16), 0.5))


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@EACH
def test_torch_in_torch_out(kernel: Kernel) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what its import warns of
        torch: Any = import_module("torch")
    case = CASES[kernel.name][0]
    positional, named = case.arguments(kernel.dtypes[0])
    wanted = kernel.function(*positional, **named)
    others, other_named = each_array(torch.from_numpy, positional, named)
    got = kernel.function(*others, **other_named)
    assert all(isinstance(result, torch.Tensor) for result in as_tuple(got))
    assert_same(got, wanted)


def as_they_are(a: Any, b: Any) -> tuple[Any, Any]:
    return a, b


LAYOUTS: list[tuple[str, Callable[[Any, Any], tuple[Any, Any]], tuple[int, ...], tuple[int, ...]]] = [
    ("ik,kj->ij", as_they_are, (37, 53), (53, 71)),
    ("ik,jk->ij", lambda a, b: (a, b.T), (37, 53), (71, 53)),
    ("ki,kj->ij", lambda a, b: (a.T, b), (53, 37), (53, 71)),
    ("bik,bkj->bij", as_they_are, (3, 17, 19), (3, 19, 33)),
    ("ik,k->i", as_they_are, (67, 131), (131,)),
]


@pytest.mark.parametrize(("subscripts", "arranged", "left", "right"), LAYOUTS, ids=[row[0] for row in LAYOUTS])
def test_products_get_one_schedule_however_written(
    subscripts: str,
    arranged: Callable[[Any, Any], tuple[Any, Any]],
    left: tuple[int, ...],
    right: tuple[int, ...],
) -> None:
    """The rules know products by their algebra: `lpx_kernels.matmul`, `@` and `np.einsum` are scheduled alike."""

    def by_operator(a: Any, b: Any) -> Any:
        x, y = arranged(a, b)
        return x @ y

    def by_kernel(a: Any, b: Any) -> Any:
        return lpx_kernels.matmul(*arranged(a, b))

    def by_labels(a: Any, b: Any) -> Any:
        return np.einsum(subscripts, a, b)

    a, b = np.ones(left, np.float32), np.ones(right, np.float32)
    texts = {scheduled(function, a, b) for function in (by_operator, by_kernel, by_labels)}
    assert len(texts) == 1


def scheduled(function: Callable[[Any, Any], Any], a: Array, b: Array) -> str:
    """The scheduled IR of the kernels of a function, with one name for all products."""
    kernels = lpx.jit(function).lower(a, b).kernels
    return re.sub("transpose_matmul|einsum", "matmul", "\n".join(str(kernel.schedule) for kernel in kernels))
