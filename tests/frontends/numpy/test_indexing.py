"""Reading and assigning through indices: views, copies, what is written back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import lpx
from lpx.errors import DefinitionError, DTypeError, IndexRangeError, RuntimeCheckError, ShapeError, UnsupportedError
from tests.frontends.numpy.comparing import check_batch, check_program, function_of

RNG = np.random.default_rng(3)
ARRAYS: Mapping[str, Any] = {
    "x": np.arange(15, dtype=np.float32).reshape(3, 5),
    "d": RNG.standard_normal((2, 3, 4)),
    "i": np.array([2, 0, -1]),
    "j": np.array([[1, 0, 4], [3, 3, -5]], np.int8),
    "k": np.array(1, np.uint8),
    "z": np.zeros((0, 3), np.int16),
}

READS = """
x[0], x[1, 2], x[-1], x[:, 1:3], x[::2, ::-1], x[None, :, 2], x[..., 0], x[1:1], x[5:], x[:, -2::-2], x[()], x[...]
d[1, ..., ::2], d[:, None, 1, :-1], d[0, 1, 2], d[None, None, 0, 1:, None], d[:, 3:0:-1], d[-1:, :, -1], x[1, ...]
x[i], x[:, j], x[i, i], d[:, i, i], d[0, :, i], d[1, i], d[i[1:] + 1, 1:, [0, 3]], x[[0, 2]], z[:, 1], z[::-1]
x[[[0, 1], [2, 2]], [1]], d[:, [0], None, [1]], d[0, :, [1, 2]], x[j % 3, j], x[i][:, j][..., 0], x[z[:, 0]]
x[np.newaxis, i], x[i, None], x[:, i, None], x[k], x[:, k], x[k, k], d[k, :, k], d[:, k, 1:], x[k, i], x[[]]
x[[], []], x[i, ::2], d[..., i], d[i % 2, ..., i]
"""


def test_reads() -> None:
    check_batch(READS.strip().splitlines(), ARRAYS, ulps=0)


PROGRAMS = {
    "elements, rows, columns": "x[0] = 7; x[1, 2] = 9; x[:, -1] = 0.5; x[-1, ::-1] = x[0]",
    "steps": "x[::2, ::2] = -1; x[1::-1, 4:0:-3] = [[1, 2], [3, 4]]",
    "nothing": "x[3:] = 1; x[:, 2:2] = 5; x[[], 1] = 3",
    "everything": "x[...] = 3; d[:] = np.sqrt(d * d)",
    "broadcast": "x[1:] = np.arange(5); d[:, :, 0] = [1, 2, 3]; d[0] = x[0, 0]; x[:, :2] = x[:, 2:3]",
    "casts": "x[0] = i[0]; z[:] = 1; x[1] = True",
    "augmented": "x += 1; x[0] *= 2; x[:, 1] -= x[0, 0]; x[::2, 3] /= 4; d **= 2; d -= d[0]",
    "augmented by more": "x //= 2; x %= 4; j += 1; j <<= 1; j |= 1; j ^= 3; j &= 14; j >>= 1",
    "view of a slice": "y = x[1:]; y[0] += 1; y[:, 2] = 8; return y * 2, x[0]",
    "view of a view": "y = x[:, 1:].T; z = y[::2]; z[0] = -1; z += 10; return y, z",
    "reshaped": "y = x.reshape(5, 3); y[0] = 50; w = x.ravel(); w[7] = 70; return y[2], w",
    "transposed": "y = x.T; y[1] = np.arange(3); y += 1; d.transpose(2, 0, 1)[0] = 4; np.moveaxis(d, 0, -1)[1, 2] = 9",
    "expanded": "y = x[None, :, None]; y[0, 1] = 3; np.squeeze(y)[2] = 6; np.expand_dims(x, 0)[0, 0, 0] = 11",
    "split": "a, b = np.split(x[:, :4], 2, axis=1); a[:] = b; b += 1",
    "flipped": "np.flip(x)[0] = 5; x[::-1][0, 0] = 6",
    "changes are seen through views": "y = x[1]; x[1, 0] = 99; x += 1; return y",
    "copies are apart": "y = x.copy(); y[0] = 1; w = x.flatten(); w[1] = 2; v = x + 0; v += 1; return y, w, v",
    "astype copies": "y = x.astype(np.float32); y[0] = 5; return y",
    "index arrays copy": "y = x[i]; y[0] = 5; return y",
    "scalars are values": "s = x.sum(); t = s; s += 1; e = x[0, 0]; e += 5; return s, t, e",
    "rows by iteration": "for row in x:\n    row += row[0] + 1",
    "swap": "x[0], x[1] = x[1].copy(), x[0].copy()",
    "swap of views": "x[0], x[1] = x[1], x[0]",
    "recurrence unrolled": "for t in range(1, 5):\n    x[:, t] += 0.5 * x[:, t - 1]",
    "through an index array": "x[i] = 5; x[:, j[0]] = -1; x[i, i] = [7, 8, 9]",
    "the last of equal places": "x[[0, 0, 1, 0]] = [[1] * 5, [2] * 5, [3] * 5, [4] * 5]; x[2, [1, 1]] = [5, 6]",
    "added once at equal places": "x[[0, 0, 1]] += 10",
    "apart index arrays": "d[[0, 1], :, [2, 3]] = [[1, 2, 3], [4, 5, 6]]; d[:, i, 1] = 0",
    "index arrays after a slice": "d[:, [0, 2], [1, 3]] = [[5, 6], [7, 8]]; d[1:, ..., i] *= 2",
    "traced places": "x[i % 3, (i + 1) % 5] = i; x[k] = x[k + 1]; x[k, 0] = 100",
    "mask": "x[x > 5] = -1; d[d < 0] = 0; x[x[:, 0] < 0] = [1, 2, 3, 4, 5]; x[np.array([True, False, True])] = 2",
    "fill": "x.fill(3); y = np.zeros_like(d); y.fill(2); y[0] = 1; return y",
    "out": "np.add(x, 1, out=x); np.negative(d[0], out=d[1]); np.sum(x, axis=0, out=x[2])",
    "out of a new array": "y = np.empty_like(x); np.clip(x, 2, 4, out=y); return y",
    "made inside": "y = np.zeros_like(x); y[1:, 1:] = x[:-1, :-1]; y[0] = y[1] + 1; return y",
    "overlap": "x[1:] = x[:-1]; x[:, :-1] += x[:, 1:]",
    "nested lists": "x[0] = [x[1, 0], 2, x[2, 1], 3, 4]; return np.array([1, 2, 3]) + x[:, 0]",
}


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_programs(body: str) -> None:
    used = {name: array for name, array in ARRAYS.items() if name in body.replace("lpx", "")}
    check_program(body.replace("; ", "\n"), used)


OUT_OF_RANGE = [
    ("x[3]", IndexRangeError, r"index 3 is out of range for axis 0 with 3 element"),
    ("x[:, -6]", IndexRangeError, r"index -6 is out of range for axis 1 with 5 element"),
    ("x[[0, 7]]", IndexRangeError, r"index 7 is out of range for axis 0"),
    ("x[np.array([-4])]", IndexRangeError, r"index -4 is out of range for axis 0"),
    ("x[0, 0, 0]", IndexRangeError, r"2 dimension\(s\) is indexed with 3 index"),
    ("x[..., ...]", IndexRangeError, r"one ellipsis"),
    ("z[0]", IndexRangeError, r"index 0 is out of range for axis 0 with 0 element"),
    ("x[1.5]", DefinitionError, r"cannot be indexed with 1\.5"),
    ("x['a']", DefinitionError, r"cannot be indexed with 'a'"),
    ("x[True]", UnsupportedError, r"indexing with a bool is not supported"),
    ("x[x > 1]", UnsupportedError, r"indexing with a mask is not supported: .*\n[\s\S]*np\.where"),
    ("x[[0.5]]", DTypeError, r"indices must be integers, not float64"),
    ("x[x]", DTypeError, r"indices must be integers, not float32"),
    ("np.take(x, x)", DTypeError, r"indices must be integers, not float32"),
    ("x[i, i[:2]]", ShapeError, r"do not broadcast"),
]


@pytest.mark.parametrize(("expression", "error", "message"), OUT_OF_RANGE, ids=[e for e, *_ in OUT_OF_RANGE])
def test_reads_that_are_refused(expression: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lpx.jit(function_of([expression], list(ARRAYS)))(**ARRAYS)


REFUSED_WRITES = [
    ("i[0] = 1.5", DTypeError, r"cannot store float64 in an array of int64"),
    ("i += 0.5", DTypeError, r"cannot store float64 in an array of int64"),
    ("x[0] = x", ShapeError, r"\(3, 5\) does not broadcast to \(5,\)"),
    ("x[x > 1] = x[0]", UnsupportedError, r"assignment through a mask takes a number"),
    ("s = x.sum(); np.add(x[0], 1, out=s)", DefinitionError, r"a number cannot be written to"),
    ("np.add(x, 1, out=np.zeros((3, 5)))", DefinitionError, r"an array from outside the function cannot be written to"),
    (
        "y = np.zeros(3); y[0] = x[0, 0]",
        DefinitionError,
        r"cannot become a (Python number|NumPy array)[\s\S]*zeros_like",
    ),
]


@pytest.mark.parametrize(("body", "error", "message"), REFUSED_WRITES, ids=[b for b, *_ in REFUSED_WRITES])
def test_writes_that_are_refused(body: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_only(body)


def check_only(body: str) -> None:
    scope: dict[str, Any] = {"np": np}
    exec(f"def program(x, i):\n    {body}\n    return x", scope)
    lpx.jit(scope["program"])(np.array(ARRAYS["x"]), np.array(ARRAYS["i"]))


@pytest.mark.parametrize("bad", [3, -4, 2**40])
def test_traced_index_out_of_range_is_a_run_time_error(bad: int) -> None:
    read = lpx.jit(function_of(["x[i]", "x[i, i]", "np.take(x, i, axis=0)"], ["x", "i"]))
    x, i = ARRAYS["x"], ARRAYS["i"]
    assert read(x, i)[0].tolist() == x[i].tolist()
    with pytest.raises(RuntimeCheckError, match=r"index .* is outside"):
        read(x, np.array([0, bad, 1]))
    assert read.compilations == 1


def test_failed_call_writes_nothing() -> None:
    scope: dict[str, Any] = {}
    exec("def store(x, i):\n    x += 1\n    x[i] = 5", scope)
    store = lpx.jit(scope["store"])
    x = np.array(ARRAYS["x"])
    with pytest.raises(RuntimeCheckError):
        store(x, np.array([0, 9]))
    np.testing.assert_array_equal(x, ARRAYS["x"])


def test_integer_power_checks_its_exponents() -> None:
    power = lpx.jit(function_of(["a ** b"], ["a", "b"]))
    a = np.array([2, -3, 7, 0, -1], np.int32)
    b = np.array([31, 3, 11, 0, 5], np.int32)
    np.testing.assert_array_equal(power(a, b)[0], a**b)
    with pytest.raises(RuntimeCheckError, match="nonnegative_exponents"):
        power(a, -b)
    with pytest.raises(DefinitionError, match="negative integer powers"):
        lpx.jit(function_of(["a ** -1"], ["a"]))(a)
