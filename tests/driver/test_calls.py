"""Calling a kernel: outputs given and not, arrays of any strides and libraries, refusals that name the argument."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import lpx
from lpx.driver.build import Kernel
from lpx.errors import ArgumentError
from tests.driver.programs import Array, minimum_and_maximum, normal, scaled_sum

A, B = normal(100), normal(100, seed=1)
WANTED = A * 2 + B


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return lpx.build(scaled_sum(100))


@pytest.mark.parametrize("way", ["position", "out", "name"])
def test_the_output_may_be_given(kernel: Kernel, way: str) -> None:
    out = np.zeros(100, np.float32)
    match way:
        case "position":
            returned = kernel(A, B, out)
        case "out":
            returned = kernel(A, B, out=out)
        case _:
            returned = kernel(A, B, C=out)
    assert returned is out
    np.testing.assert_array_equal(out, WANTED)


def test_inputs_may_be_given_by_name(kernel: Kernel) -> None:
    np.testing.assert_array_equal(kernel(B=B, A=A), WANTED)


def test_one_array_may_be_input_and_output(kernel: Kernel) -> None:
    a = A.copy()
    kernel(a, B, out=a)
    np.testing.assert_array_equal(a, WANTED)


def test_an_output_over_part_of_an_input(kernel: Kernel) -> None:
    """As if the inputs had been copied first."""
    memory = np.concatenate([A, normal(50, seed=2)])
    kernel(memory[:100], B, out=memory[50:])
    np.testing.assert_array_equal(memory[50:], WANTED)


@pytest.mark.parametrize("step", [2, -1, -3])
def test_strided_arrays(kernel: Kernel, step: int) -> None:
    spread = np.zeros(100 * abs(step), np.float32)
    a, out = spread[::step], np.zeros_like(spread)[::step]
    a[:] = A
    assert kernel(a, B, out=out) is out
    np.testing.assert_array_equal(out, WANTED)


def test_unaligned_and_swapped_arrays(kernel: Kernel) -> None:
    unaligned = np.frombuffer(b"\0" + A.tobytes(), np.uint8)[1:].view(np.float32)
    swapped = B.astype(B.dtype.newbyteorder())
    np.testing.assert_array_equal(kernel(unaligned, swapped), WANTED)


def test_several_outputs_may_be_given() -> None:
    both = lpx.build(minimum_and_maximum(100))
    low, high = np.empty_like(A), np.empty_like(A)
    returned = both(A, B, out=(low, high))
    assert returned[0] is low
    assert returned[1] is high
    np.testing.assert_array_equal(low, np.minimum(A, B))
    np.testing.assert_array_equal(high, np.maximum(A, B))


class Foreign:
    """An array of a library that speaks DLPack and nothing else."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class Distant(Foreign):
    """The same in the memory of a GPU."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_arrays_of_other_libraries(kernel: Kernel) -> None:
    out = np.empty(100, np.float32)
    kernel(Foreign(A), Foreign(B), out=out)
    np.testing.assert_array_equal(out, WANTED)


REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "dtype": (
        (A.astype(np.float64), B),
        {},
        r"A has dtype float64: float64\[100\] was given, float32\[100\] is expected",
    ),
    "extent": ((A, B[:50]), {}, r"B has extent 50 on axis 0: float32\[50\] was given"),
    "rank": ((A.reshape(10, 10), B), {}, r"A has rank 2: float32\[10, 10\] was given"),
    "output": ((A, B), {"out": np.empty(100, np.int32)}, r"C has dtype int32"),
    "missing": ((A,), {}, r"main was not given B"),
    "surplus": ((A, B, A, A), {}, r"main takes at most 3 arguments, 4 were given"),
    "unknown": ((A, B), {"result": A}, r"main has no parameter 'result'"),
    "twice": ((A, B), {"B": B}, r"main was given 'B' twice"),
    "outputs": ((A, B), {"out": (A, B)}, r"main has 1 outputs, out= gives 2"),
    "text": (("A", B), {}, r"A is a str, not an array"),
    "device": ((Distant(A), B), {}, r"A lives on a device other than the CPU"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_argument(kernel: Kernel, case: str) -> None:
    args, kwargs, message = REFUSED[case]
    with pytest.raises(ArgumentError) as refused:
        kernel(*args, **kwargs)
    assert re.search(message, refused.value.message)
    assert refused.value.hint


def test_a_read_only_output_is_refused(kernel: Kernel) -> None:
    out = np.empty(100, np.float32)
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="C is read-only"):
        kernel(A, B, out=out)
