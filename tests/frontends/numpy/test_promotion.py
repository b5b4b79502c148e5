"""Result dtypes are NumPy's own (NEP 50), for every pair of dtypes and for Python numbers. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import lpx
from lpx import dtypes
from lpx.errors import DTypeError
from lpx.frontends.numpy.arguments import abstract_arguments
from lpx.frontends.numpy.tracing import trace_function
from tests.frontends.numpy.comparing import flat, function_of, run_numpy

DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
PAIRS = """
a + b
a * b
a / b
np.maximum(a, b)
np.arctan2(a, b)
np.hypot(a, b)
a < b
np.logical_and(a, b)
np.where(a, a, b)
np.concatenate([a, b])
np.dot(a, b)
a @ b
np.minimum.outer(a, b)
np.clip(a, b, b)
""".strip().splitlines()
PARTIAL = """
a - b
a // b
a % b
a ** b
a & b
a ^ b
a << b
np.fmod(a, b)
np.copysign(a, b)
np.logaddexp(a, b)
np.floor_divide(a, b)
np.float_power(a, b)
""".strip().splitlines()
ONE = """
a + 1
1 - a
a * 2.5
a / 2
a + True
a > 0.5
np.maximum(a, 1)
np.where(a, a, 1.5)
np.clip(a, 0, 1)
np.sqrt(a)
np.sin(a)
np.floor(a)
np.isnan(a)
np.sum(a)
np.prod(a)
np.mean(a)
np.var(a)
np.max(a)
np.cumsum(a)
np.argmax(a)
np.any(a)
np.round(a)
np.linalg.norm(a)
np.count_nonzero(a)
np.dot(a, 2)
np.append(a, 1)
np.add(a, a, dtype=np.float64)
np.trace(np.outer(a, a))
np.average(a)
np.nansum(a)
np.isclose(a, a)
np.where(a > 0, 1, 2.0)
np.full_like(a, 1)
a.astype(np.float16)
np.logaddexp2(a, 0.5)
np.bitwise_count(a.astype(np.int32))
np.power(a, 2.0)
np.absolute(a)
np.square(a)
np.convolve(a, a)
""".strip().splitlines()


def traced_dtypes(expressions: Sequence[str], **arrays: Any) -> list[Any]:
    """The dtype of each result, from tracing alone."""
    arguments, _ = abstract_arguments(list(arrays), list(arrays.values()), (), {})
    traced = trace_function(function_of(expressions, list(arrays)), "promotion", arguments)
    return [value.dtype.to_numpy() for value in traced.graph.outputs[: traced.results]]


def numpy_dtypes(expressions: Sequence[str], **arrays: Any) -> list[Any]:
    return [np.asarray(r).dtype for r in run_numpy(function_of(expressions, list(arrays)), arrays)]


@pytest.mark.parametrize("left", DTYPES)
def test_pairs(left: str) -> None:
    for right in DTYPES:
        arrays = {"a": np.ones(3, left), "b": np.ones(3, right)}
        assert traced_dtypes(PAIRS, **arrays) == numpy_dtypes(PAIRS, **arrays), right


@pytest.mark.parametrize("expression", PARTIAL)
def test_pairs_that_numpy_may_refuse(expression: str) -> None:
    for left in DTYPES:
        for right in DTYPES:
            arrays = {"a": np.ones(3, left), "b": np.ones(3, right)}
            try:
                wanted = numpy_dtypes([expression], **arrays)
            except TypeError:
                with pytest.raises(DTypeError, match=r"np\.\w+ does not take"):
                    traced_dtypes([expression], **arrays)
            else:
                assert traced_dtypes([expression], **arrays) == wanted, (left, right)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_array_and_numbers(dtype: str) -> None:
    accepted = [e for e in ONE if not (dtype == "bool" and ("1 - a" in e or "convolve" in e))]
    assert traced_dtypes(accepted, a=np.ones(3, dtype)) == numpy_dtypes(accepted, a=np.ones(3, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", [True, 2, 2.5, np.float32(2), np.int64(2), np.float16(2)], ids=repr)
def test_numbers_as_arguments(dtype: str, number: Any) -> None:
    expressions = [
        "a + b",
        "b * a",
        "a / b",
        "np.maximum(a, b)",
        "a < b",
        "np.where(a, a, b)",
        "a + (b + b)",
        "a * -(-b + 1)",
    ]
    if isinstance(number, bool):
        expressions = expressions[:-1]
    arrays = {"a": np.ones(3, dtype), "b": number}
    assert traced_dtypes(expressions, **arrays) == numpy_dtypes(expressions, **arrays)


def test_arithmetic_of_python_numbers_gives_python_numbers() -> None:
    x = np.ones(3, np.float32)

    def compute(x: Any, s: float, k: int) -> Any:
        return x * (s * 2 + k), x + s / 3, x * k**2, x + (s > 1), x * (k // 2), x - abs(-s)

    got = lpx.jit(compute)(x, 2.5, 3)
    for g, w in zip(flat(got), compute(x, 2.5, 3), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-6)


def test_integers_must_fit() -> None:
    x = np.ones(3, np.uint8)
    with pytest.raises(DTypeError, match="the integer 300 does not fit uint8"):
        traced_dtypes(["a + 300"], a=x)
    with pytest.raises(DTypeError, match="the integer -1 does not fit uint8"):
        traced_dtypes(["np.maximum(a, -1)"], a=x)
    add = lpx.jit(function_of(["x + k"], ["x", "k"]))
    assert add(x, 254)[0].tolist() == [255, 255, 255]
    with pytest.raises(DTypeError, match="the integer k = 300 does not fit uint8"):
        add(x, 300)
    assert add.compilations == 1


def test_bfloat16_promotes_as_numpy_does() -> None:
    x = np.ones(3, dtypes.bfloat16.to_numpy())
    expressions = ["a + a", "a * np.float32(2)", "np.exp(a)", "a < a", "np.maximum(a, a)"]
    assert traced_dtypes(expressions, a=x) == numpy_dtypes(expressions, a=x)
