"""`lpx.jit`: arguments, captured arrays, results, dynamic dimensions, compilations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lpx
from lpx.errors import ArgumentError, DefinitionError, LpxError, UnsupportedError
from lpx.frontends.numpy.jit import JitFunction
from tests.frontends.numpy.comparing import Array, assert_same, function_of, run_numpy

X = np.arange(12, dtype=np.float32).reshape(3, 4)
scale = np.arange(4, dtype=np.float32)  # captured by name in tests below
frozen = np.arange(4, dtype=np.float32)
frozen.flags.writeable = False


def double(x: Any) -> Any:
    return x * 2


def scaled(x: Any) -> Any:
    return x * scale


def test_keywords_defaults_and_variadic_arguments() -> None:
    @lpx.jit
    def combine(x: Any, *others: Any, factor: Any = 2.0) -> Any:
        total = x
        for other in others:
            total = total + other
        return total * factor

    np.testing.assert_array_equal(combine(X), X * 2)
    np.testing.assert_array_equal(combine(X, X, X[0], factor=3.0), (X + X + X[0]) * 3)
    assert combine.__name__ == "combine"
    with pytest.raises(ArgumentError, match=r"combine: missing a required argument: 'x'"):
        combine()


def test_static_arguments_are_compiled_in() -> None:
    @lpx.jit(static=("axis", "times"))
    def total(x: Any, axis: int = 0, times: int = 1) -> Any:
        for _ in range(times):
            x = x + 1
        return np.sum(x, axis=axis)

    np.testing.assert_array_equal(total(X, axis=1, times=2), (X + 2).sum(1))
    np.testing.assert_array_equal(total(X, 1, times=2), (X + 2).sum(1))
    np.testing.assert_array_equal(total(X), (X + 1).sum(0))
    assert total.compilations == 2
    with pytest.raises(DefinitionError, match="cannot be hashed"):
        total(X, axis=[0])


def specialisations(function: JitFunction) -> int:
    """How many kinds of calls run without Python code."""
    return len(function.specialisations)


def test_calls_that_need_no_python() -> None:
    """Calls of arrays alone, also where others are left out, run machine code at once; any other is looked at first."""

    @lpx.jit(static=("axis",))
    def total(x: Any, axis: int = 0) -> Any:
        return np.sum(x, axis=axis)

    total(X, axis=1)
    assert specialisations(total) == 0
    total(X)
    assert specialisations(total) == 1
    np.testing.assert_array_equal(total(X), X.sum(0))
    np.testing.assert_array_equal(total(X, 1), X.sum(1))

    @lpx.jit
    def shift(x: Any, by: Any = None) -> Any:
        return x + (1 if by is None else by)

    for _ in range(2):
        np.testing.assert_array_equal(shift(X), X + 1)
        np.testing.assert_array_equal(shift(X, X), X + X)  # the second array is no output
        np.testing.assert_array_equal(shift(X, by=X), X + X)
        assert specialisations(shift) == 2


def test_calls_with_options_are_known_by_them() -> None:
    """The second call with the same options, and arrays of the same kind, is not looked at again."""
    general: list[Any] = []

    class Watched(JitFunction):
        def _general_call(self, args: Any, kwargs: Any) -> Any:
            general.append(args)
            return super()._general_call(args, kwargs)

    def scaled(x: Any, by: Any, y: Any = None) -> Any:
        return x * by + (0 if y is None else y)

    scale = Watched(scaled, static=("by",))
    out = np.empty_like(X)
    for _ in range(2):
        assert [scale(X, by)[0, 1] for by in (2, 3)] == [2, 3]
        np.testing.assert_array_equal(scale(by=2, x=X), X * 2)
        np.testing.assert_array_equal(scale(X, y=X, by=2), X * 3)
        assert scale(X, 3, out=out) is out
        np.testing.assert_array_equal(out, X * 3)
    assert len(general) == 4
    wide, view = X.astype(np.float64), X[::-1]
    for _ in range(2):
        assert scale(wide, 2).dtype == np.float64
        np.testing.assert_array_equal(scale(view, 2), X[::-1] * 2)
    assert len(general) == 7  # the view each time, and the new dtype once
    with pytest.raises(ArgumentError, match="unexpected keyword argument 'bye'"):
        scale(X, 2, bye=2)
    with pytest.raises(LpxError, match="cannot be hashed"):
        scale(X, [2])


def test_equal_static_values_of_other_types_are_apart() -> None:
    power = lpx.jit(static=("p",))(function_of(["np.full_like(x, p, dtype=type(p))"], ["x", "p"]))
    assert [power(X, p)[0].dtype.kind for p in (1, 1.0, True)] == ["i", "f", "b"]


def test_text_none_tuples_and_dtypes_are_static() -> None:
    convert = lpx.jit(
        function_of(["x.astype(dtype).reshape(shape) + (0 if y is None else y)"], ["x", "dtype", "shape", "y"])
    )
    assert convert(X, "float64", (4, 3), None)[0].dtype == np.float64
    assert convert(X, np.int8, (2, 6), None)[0].shape == (2, 6)
    assert convert(X, np.dtype("int16"), (12,), X[0, 1])[0].tolist() == list(range(1, 13))


class Layer:
    def __init__(self, weight: Array) -> None:
        self.weight = weight

    @lpx.jit(static=("self",))
    def apply(self, x: Any) -> Any:
        return x @ self.weight


def test_methods() -> None:
    weight = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(Layer(weight).apply(X), X @ weight)
    np.testing.assert_array_equal(Layer(weight + 1).apply(X), X @ (weight + 1))


def test_objects_must_be_named_static() -> None:
    with pytest.raises(ArgumentError, match=r"x is a Layer, not an array[\s\S]*lpx.jit\(static=\(\"x\",\)\)"):
        lpx.jit(double)(Layer(X))


def test_globals_are_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @lpx.jit
    def outer(x: Any) -> Any:
        return double(scaled(x)) + scale

    np.testing.assert_array_equal(outer(X), X * scale * 2 + scale)
    monkeypatch.setitem(globals(), "scale", np.full(4, 7, np.float32))  # another array of the same kind
    np.testing.assert_array_equal(outer(X), X * 14 + 7)
    scale[1] = 100  # changed in place
    np.testing.assert_array_equal(outer(X), X * scale * 2 + scale)
    assert outer.compilations == 1
    monkeypatch.setitem(globals(), "scale", np.array(2.0))  # another dtype and shape
    got = outer(X)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, X * 4 + 2)
    assert outer.compilations == 2


def test_closures_are_read_at_each_call() -> None:
    bias = np.ones(4, np.float32)

    @lpx.jit
    def shift(x: Any) -> Any:
        return x + bias

    np.testing.assert_array_equal(shift(X), X + 1)
    bias[:] = 5
    np.testing.assert_array_equal(shift(X), X + 5)
    bias = np.zeros(4, np.float32)
    np.testing.assert_array_equal(shift(X), X)
    assert shift.compilations == 1


def test_read_only_arrays_are_constants() -> None:
    weights = lpx.constant([[1, 2], [3, 4], [5, 6], [7, 8]])
    assert not weights.flags.writeable
    assert weights.dtype == np.int64

    @lpx.jit
    def apply(x: Any) -> Any:
        return x @ weights.astype(np.float32) + frozen[:2]

    np.testing.assert_array_equal(apply(X), X @ weights.astype(np.float32) + frozen[:2])
    assert apply.lower(X).graph.count("constant") >= 1


def test_constant_copies() -> None:
    source = np.arange(3.0)
    copy = lpx.constant(source)
    source[0] = 9
    assert copy.tolist() == [0, 1, 2]
    with pytest.raises(lpx.LpxError, match="complex64"):
        lpx.constant(np.ones(2, np.complex64))


def test_arrays_made_inside_are_constants() -> None:
    ramp = lpx.jit(function_of(["x + np.arange(4) * np.eye(4)[0]"], ["x"]))
    np.testing.assert_array_equal(ramp(X)[0], X + np.arange(4) * np.eye(4)[0])


def test_out() -> None:
    single, several = lpx.jit(double), lpx.jit(function_of(["x + 1", "x.sum(axis=0)"], ["x"]))
    out, sums = np.empty_like(X), np.empty(4, np.float32)
    assert single(X, out=out) is out
    np.testing.assert_array_equal(out, X * 2)
    returned = several(X, out=(out, sums))
    assert returned[0] is out
    assert returned[1] is sums
    np.testing.assert_array_equal(sums, X.sum(0))
    in_place = X.copy()
    single(in_place, out=in_place)
    np.testing.assert_array_equal(in_place, X * 2)
    strided = np.zeros((3, 8), np.float32)
    single(X, out=strided[:, ::2])
    np.testing.assert_array_equal(strided[:, ::2], X * 2)
    with pytest.raises(ArgumentError, match=r"has 2 result\(s\), but out= gives 1"):
        several(np.ones(5, np.float32), out=sums)
    with pytest.raises(ArgumentError, match="has dtype float64"):
        single(X, out=np.empty((3, 4)))


def test_any_layout_and_byte_order() -> None:
    add = lpx.jit(function_of(["x + 1"], ["x"]))
    arrays: list[Array] = [X.T, X[::2, ::-1], np.asfortranarray(X), X.astype(">f4"), X[:, 0], X[1:1]]
    for array in arrays:
        np.testing.assert_array_equal(add(array)[0], array + 1)


def test_written_arguments_of_any_layout() -> None:
    scope: dict[str, Any] = {}
    exec("def clear(x):\n    x[::2] = 0", scope)
    arrays: list[Array] = [X.T.copy().T, np.array(X)[:, ::2]]
    for array in arrays:
        expected = np.array(array)
        expected[::2] = 0
        assert lpx.jit(scope["clear"])(array) is None
        np.testing.assert_array_equal(array, expected)


def test_results() -> None:
    for expression in ("(x,)", "[x, x]", "(x, x.T)", "np.ones_like(x)", "x[0, 0]", "x[0], 3, 2.5, np.arange(3)"):
        function = function_of([expression], ["x"])
        for got, want in zip(lpx.jit(function)(X), run_numpy(function, {"x": X}), strict=True):
            assert_same(expression, got, np.asarray(want))
    (same,) = lpx.jit(function_of(["x"], ["x"]))(X)
    assert not np.shares_memory(same, X)


@pytest.mark.parametrize("returned", ["None", "()", "(x, None)", "(x, [x])", "'text'", "{'a': x}"])
def test_results_that_are_refused(returned: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def function(x):\n    return {returned}", scope)
    with pytest.raises(
        DefinitionError, match=r"function returns .*\n?[\s\S]*return an array or a (flat )?tuple of arrays"
    ):
        lpx.jit(scope["function"])(X)


def test_compiled_functions_call_each_other() -> None:
    @lpx.jit
    def inner(x: Any, y: Any) -> Any:
        return x * y + 1

    @lpx.jit
    def outer(x: Any) -> Any:
        return inner(x, x) - inner(x, 2.0)

    np.testing.assert_array_equal(outer(X), X * X - X * 2)
    assert inner.compilations == 0


def test_results_are_of_the_caller_s_kind() -> None:
    torch = pytest.importorskip("torch")
    got = lpx.jit(double)(torch.arange(6, dtype=torch.float32))
    assert isinstance(got, torch.Tensor)
    assert got.tolist() == [0, 2, 4, 6, 8, 10]


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(DefinitionError, match="double has no parameter 'y'"):
        lpx.jit(static=("y",))(double)
    with pytest.raises(DefinitionError, match="double has no parameter 'y'"):
        lpx.jit(dynamic={"y": {0: "n"}})(double)
    with pytest.raises(ArgumentError, match=r"dynamic= names axis 2 of x, which has 2 dimension"):
        lpx.jit(dynamic={"x": {2: "n"}})(double)(X)


def test_lower_shows_every_form() -> None:
    lowered = lpx.jit(double).lower(X)
    assert "mul" in lowered.graph
    assert "float32[3, 4]" in lowered.te
    assert "define" in lowered.llvm
    assert lowered.ir
    assert lowered.explain()


def test_stats_name_the_arguments() -> None:
    function = lpx.jit(double)
    function(X)
    function(np.arange(3))
    assert list(function.stats) == ["x: float32[3, 4]", "x: int64[3]"]
    assert all(seconds["all"] > 0 for seconds in function.stats.values())


def test_threads_compile_once() -> None:
    function = lpx.jit(double)
    results: list[Array] = []
    threads = [threading.Thread(target=lambda: results.append(function(X))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert function.compilations == 1
    assert len(results) == 4
    for result in results:
        np.testing.assert_array_equal(result, X * 2)


LENGTHS = (0, 1, 2, 7, 8, 9, 31, 32, 33, 1000)
DYNAMIC_EXACT = """
x * 2 + 1
np.exp(x)
x[::-1]
np.flip(x) - x
np.where(x > 0, x, -x)
np.cumsum(x)
x.astype(np.float16)
np.argmax(np.append(x, 9))
np.any(x > 1)
np.max(np.append(x, -9.0))
np.stack([x, x])
np.count_nonzero(x > 0)
np.tril(x[:, None] * x)
x[:, None] * [1.0, 2.0]
""".strip().splitlines()
DYNAMIC_ROUNDED = [
    "x.mean()",
    "np.var(x)",
    "lpx.nn.softmax(x)",
    "x[2:-1].sum()",
    "x[::3].sum()",
    "np.linalg.norm(np.diff(x))",
]


def test_one_compilation_serves_all_lengths() -> None:
    function = function_of(DYNAMIC_EXACT, ["x"])
    dynamic, static = lpx.jit(dynamic={"x": {0: "n"}})(function), lpx.jit(function)
    for length in LENGTHS:
        x = np.random.default_rng(length).standard_normal(length).astype(np.float32)
        for k, (got, want) in enumerate(zip(dynamic(x), run_numpy(function, {"x": x}), strict=True)):
            assert_same(f"length {length}, result {k}", got, np.asarray(want), 64.0)
        if length in (0, 1, 9, 33):
            for got, same in zip(dynamic(x), static(x), strict=True):
                np.testing.assert_array_equal(got, same)
    assert dynamic.compilations == 1
    assert static.compilations == 4


def softmax(x: Array) -> Array:
    weights: Array = np.exp(x - x.max(initial=-np.inf))
    total: Array = weights / weights.sum()
    return total


def test_reductions_over_dynamic_lengths() -> None:
    function = function_of(DYNAMIC_ROUNDED, ["x"])
    dynamic = lpx.jit(dynamic={"x": {0: "n"}})(function)
    for length in LENGTHS:
        x = np.random.default_rng(length).standard_normal(length).astype(np.float32)
        mean, var, soft, middle, third, norm = dynamic(x)
        if length:
            np.testing.assert_allclose([mean, var], [x.mean(), x.var()], rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(soft, softmax(x), rtol=1e-5)
        np.testing.assert_allclose([middle, third], [x[2:-1].sum(), x[::3].sum()], rtol=2e-5, atol=1e-5)
        np.testing.assert_allclose(norm, np.linalg.norm(np.diff(x)), rtol=1e-5)
    assert dynamic.compilations == 1


def test_several_dynamic_dimensions() -> None:
    function = lpx.jit(dynamic={"a": {0: "m", 1: "k"}, "b": {0: "k", 1: "n"}})(
        function_of(["a @ b", "a.T"], ["a", "b"])
    )
    rng = np.random.default_rng(0)
    for m, k, n in ((1, 1, 1), (3, 0, 2), (5, 7, 9), (16, 17, 33)):
        a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
        product, transposed = function(a, b)
        np.testing.assert_allclose(product, a @ b, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(transposed, a.T)
    assert function.compilations == 1
    with pytest.raises(ArgumentError, match="must have extent 3"):
        function(np.ones((2, 3), np.float32), np.ones((4, 2), np.float32))


DYNAMIC_REFUSED: list[tuple[str, type[Exception], str]] = [
    ("np.concatenate([x, x])", UnsupportedError, r"shape \(n \+ n,\), computed from dynamic dimensions"),
    ("x[1:]", UnsupportedError, r"computed from dynamic dimensions"),
    ("x[0]", DefinitionError, r"axis 0 is dynamic and cannot be indexed by 0"),
    ("x[5:2:-1]", DefinitionError, r"axis 0 is dynamic and cannot be sliced"),
    ("len(x)", DefinitionError, r"the length of this array is dynamic"),
    ("np.roll(x, 1)", lpx.errors.ShapeError, r"np.roll needs a static shape"),
]


@pytest.mark.parametrize(("expression", "error", "message"), DYNAMIC_REFUSED, ids=[e for e, *_ in DYNAMIC_REFUSED])
def test_what_dynamic_dimensions_cannot_do(expression: str, error: type[Exception], message: str) -> None:
    function: Callable[..., Any] = lpx.jit(dynamic={"x": {0: "n"}})(function_of([expression], ["x"]))
    with pytest.raises(error, match=message):
        function(X[0])


def test_arguments_in_any_number() -> None:
    """A further argument is never taken for an output, not even once the shorter call is compiled."""

    @lpx.jit
    def total(*arrays: Any) -> Any:
        return sum(arrays[1:], arrays[0])

    a, b, c = (np.full(4, value, np.float32) for value in (1, 2, 5))
    np.testing.assert_array_equal(total(a, b), [3, 3, 3, 3])
    np.testing.assert_array_equal(total(a, b, c), [8, 8, 8, 8])
    np.testing.assert_array_equal(c, [5, 5, 5, 5])


def test_outputs_are_not_positional() -> None:
    @lpx.jit
    def add(a: Any, b: Any) -> Any:
        return a + b

    a, b, out = (np.full(4, value, np.float32) for value in (1, 2, 5))
    add(a, b)
    with pytest.raises(ArgumentError, match="too many positional arguments"):
        add(a, b, out)
    np.testing.assert_array_equal(out, [5, 5, 5, 5])
