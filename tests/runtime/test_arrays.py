"""The generic call path: whatever holds the right numbers is taken, whatever does not is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpx import dtypes
from lpx.errors import ArgumentError
from lpx.runtime import arrays
from lpx.runtime.native import NativeFunction
from lpx.runtime.specialisation import Specialisation
from tests.runtime import kernels

Floats = np.ndarray[Any, np.dtype[np.float32]]


def function(specialisation: Specialisation) -> NativeFunction:
    def generic(*args: Any, **kwargs: Any) -> Any:
        return arrays.call(specialisation, args, kwargs)

    made = NativeFunction(generic)
    made.add(specialisation)
    return made


def floats(n: int = 16) -> Floats:
    return np.arange(n, dtype=np.float32)


class Tagged(np.ndarray[Any, Any]):
    pass


def _views(a: Floats) -> dict[str, Any]:
    """The numbers of `a` in arrays that the native path does not take."""
    return {
        "strided": np.repeat(a, 2)[::2],
        "reversed": a[::-1].copy()[::-1],
        "big-endian": a.astype(">f4"),
        "unaligned": np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float32),
        "subclass": a.view(Tagged),
        "column": np.stack([a, a], axis=1)[:, 0],
    }


@pytest.mark.parametrize("layout", [*_views(np.zeros(1, np.float32))])
def test_inputs_of_any_layout(layout: str) -> None:
    a, b = floats(), floats() * 3
    result = function(kernels.add("n"))(_views(a)[layout], b)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, a + b)


@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_strided_outputs_are_written_back(dtype: str) -> None:
    memory = np.full(48, -1, dtype)
    out = memory[::3]
    result = function(kernels.add())(floats(), floats(), out=out)
    assert result is out
    np.testing.assert_array_equal(out, floats() * 2)
    assert (memory[1::3] == -1).all()


def test_strided_in_out_is_written_back() -> None:
    memory = np.arange(8)
    assert function(kernels.accumulate())(np.ones(4, np.int64), memory[::2]) is None
    np.testing.assert_array_equal(memory, [1, 1, 3, 3, 5, 5, 7, 7])


def test_names() -> None:
    a, b, c = floats(), floats() * 2, np.empty(16, np.float32)
    add = function(kernels.add())
    np.testing.assert_array_equal(add(b=b, a=a), a + b)
    assert add(a, b=b, c=c) is c
    np.testing.assert_array_equal(c, a + b)


def test_names_in_any_mix() -> None:
    two = function(kernels.sum_and_difference())
    a, b, d = np.ones((2, 2), np.int64), np.full((2, 2), 3), np.empty((2, 2), np.int64)
    s, given_d = two(a, b, d=d)
    assert given_d is d
    np.testing.assert_array_equal(s, 4)
    np.testing.assert_array_equal(d, -2)
    outs = [np.empty((2, 2), np.int64), np.empty((2, 2), np.int64)]
    result = two(a, b, out=outs)
    assert all(x is y for x, y in zip(result, outs, strict=True))


class Foreign:
    """An array of another library, seen through DLPack only."""

    def __init__(self, array: Any, device: int = 1) -> None:
        self.array = array
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __array_namespace__(self) -> type[Foreign]:
        return Foreign

    @staticmethod
    def from_dlpack(array: Any) -> Foreign:
        return Foreign(np.from_dlpack(array))


def test_dlpack_in_dlpack_out() -> None:
    a, b = floats(), floats() * 2
    add = function(kernels.add())
    result = add(Foreign(a), b)
    assert isinstance(result, Foreign)
    np.testing.assert_array_equal(result.array, a + b)
    out = Foreign(np.empty(16, np.float32))
    assert add(Foreign(a), Foreign(b), out=out) is out
    np.testing.assert_array_equal(out.array, a + b)


class Library:
    """A library with bfloat16, which NumPy's DLPack lacks, and whose own never says that memory may be written to."""

    int16 = "library.int16"
    bfloat16 = "library.bfloat16"

    @staticmethod
    def from_dlpack(array: Any) -> Tensor:
        return Tensor(np.from_dlpack(array))


class Tensor:
    def __init__(self, array: Any, dtype: str = "") -> None:
        self.array = array
        self.dtype = dtype or f"library.{array.dtype}"

    def view(self, dtype: str) -> Tensor:
        return Tensor(self.array, dtype)

    def __dlpack__(self, **options: Any) -> Any:
        if self.dtype == Library.bfloat16:
            raise BufferError("no such type in DLPack")
        frozen = self.array.view()
        frozen.flags.writeable = False
        return frozen.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __array__(self, **_options: Any) -> Any:
        return self.array

    def __array_namespace__(self) -> type[Library]:
        return Library


def test_output_of_a_library_that_does_not_say_it_is_writable() -> None:
    a, out = floats(), Tensor(np.empty(16, np.float32))
    assert function(kernels.add())(a, a, out=out) is out
    np.testing.assert_array_equal(out.array, a + a)


def test_small_floats_of_another_library() -> None:
    bits = np.arange(5, dtype=np.int16)
    result = function(kernels.copy_bfloat16())(Tensor(bits, Library.bfloat16))
    assert isinstance(result, Tensor)
    assert result.dtype == Library.bfloat16
    np.testing.assert_array_equal(result.array, bits)


def test_array_on_a_device() -> None:
    with pytest.raises(ArgumentError, match="b lives on a device other than the CPU"):
        function(kernels.add())(floats(), Foreign(floats(), device=2))


def test_dlpack_that_cannot_be_read() -> None:
    class Broken(Foreign):
        def __dlpack__(self, **_options: Any) -> Any:
            raise BufferError("requires grad")

    with pytest.raises(ArgumentError, match="a cannot be read as an array: requires grad"):
        function(kernels.add())(Broken(floats()), floats())


def test_numbers_for_rank_zero() -> None:
    call = function(kernels.status())
    for zero in (0, np.int64(0), np.int8(0), False, np.array(0)):
        assert call(zero).shape == (4,)
    with pytest.raises(ArgumentError, match="code has dtype float64"):
        call(0.5)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((floats(),), {}, "add was not given b"),
        ((), {}, "add was not given a, b"),
        ((floats(),) * 4, {}, "takes at most 3 arguments, 4 were given"),
        ((floats(), floats()), {"bias": 1}, "add has no parameter 'bias'"),
        ((floats(), floats()), {"a": floats()}, "was given 'a' twice"),
        ((floats(), floats(), floats()), {"out": floats()}, "was given 'c' twice"),
        ((floats(), floats()), {"out": (floats(), floats())}, "has 1 outputs, out= gives 2"),
        ((floats(), [1.0] * 16), {}, "b is a list, not an array"),
        ((floats(), np.ma.masked_array(floats())), {}, "b is a masked array"),
        (
            (floats(), floats().astype(np.float64)),
            {},
            r"add: b has dtype float64: float64\[16\] was given, float32\[16\] is expected\n.*astype\(float32\)",
        ),
        ((floats(), floats().reshape(4, 4)), {}, r"add: b has rank 2: float32\[4, 4\] was given"),
        ((floats(), floats(15)), {}, "add: b has extent 15 on axis 0.*\n.*must have extent 16"),
        ((floats(), floats(), np.frombuffer(bytes(64), np.float32)), {}, "add: c is read-only"),
        ((floats(), floats(), floats(17)), {}, "add: c has extent 17 on axis 0"),
        ((floats(), floats(), floats().astype(int)), {}, "add: c has dtype int64"),
    ],
)
def test_refusals_name_the_parameter(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        function(kernels.add())(*args, **kwargs)


def test_refusal_says_what_a_symbol_stands_for() -> None:
    with pytest.raises(ArgumentError, match=r"add: b has extent 5 on axis 0: .* float32\[n=4\] is expected"):
        function(kernels.add("n"))(floats(4), floats(5))
    with pytest.raises(ArgumentError, match=r"framed: b has extent 4 on axis 0: .* int64\[m=5\] is expected"):
        function(kernels.framed())(np.arange(3), np.zeros(4, np.int64))


def test_derived_extents() -> None:
    framed = function(kernels.framed())
    np.testing.assert_array_equal(framed(np.arange(6)[::2]), [-1, 0, 2, 4, -1])
    with pytest.raises(ArgumentError, match=r"shrunk would return b with the shape \[-1\]"):
        function(kernels.shrunk())(np.arange(2))


@pytest.mark.parametrize("shape", [(0,), (0, 2)])
def test_empty(shape: tuple[int, ...]) -> None:
    if len(shape) == 1:
        assert function(kernels.add("n"))(floats(0)[::-1], floats(0)).shape == (0,)
    else:
        s, d = function(kernels.sum_and_difference())(np.zeros(shape, np.int64), np.zeros((0, 4), np.int64)[:, ::2])
        assert s.shape == d.shape == shape


def test_outputs_must_not_share_memory() -> None:
    two = function(kernels.sum_and_difference())
    a, c = np.ones((2, 2), np.int64), np.zeros((3, 2), np.int64)
    with pytest.raises(ArgumentError, match="writes both s and d, which share memory"):
        two(a, a, c[:2], c[1:])


def test_output_over_a_bound_array() -> None:
    w = np.arange(4)
    call = function(kernels.plus_bound(w))
    assert call(np.full(4, 10), out=w[::-1]) is not None
    np.testing.assert_array_equal(w[::-1], [10, 11, 12, 13])


def test_equal_dtype_of_another_number() -> None:
    """`long` and `long long` are one type on this platform, with two numbers in NumPy."""
    a = np.arange(4).astype("q")
    assert a.dtype.num != np.dtype(np.int64).num
    x = np.zeros(4, "q")
    function(kernels.accumulate())(a, x)
    np.testing.assert_array_equal(x, a)


def test_small_floats() -> None:
    call = function(kernels.copy_bfloat16())
    values = np.array([1.5, -2, 3e38, np.inf], dtypes.bfloat16.to_numpy())
    np.testing.assert_array_equal(call(values), values)
    np.testing.assert_array_equal(call(np.repeat(values, 2)[::2]), values)


@given(
    starts=st.tuples(*[st.integers(0, 20)] * 3),
    steps=st.tuples(*[st.sampled_from([1, 2, -1, -2])] * 3),
    n=st.integers(0, 8),
    m=st.integers(0, 3),
)
def test_overlap_behaves_as_if_inputs_were_copied_first(
    starts: tuple[int, int, int], steps: tuple[int, int, int], n: int, m: int
) -> None:
    memory = np.arange(64)
    a, b, c = (memory[20 + start :: step][:n] for start, step in zip(starts, steps, strict=True))
    wanted = memory.copy()
    wanted[20 + starts[2] :: steps[2]][:n] = a.copy() + b.copy()
    assert function(kernels.add_integers())(a, b, c) is c
    np.testing.assert_array_equal(memory, wanted)

    x = memory[m : m + n]
    before = memory.copy()
    before[m : m + n] += b.copy()
    assert function(kernels.accumulate())(b, x) is None
    np.testing.assert_array_equal(memory, before)
