"""What cannot be compiled is refused by name, at the user's line, with what to do instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lpx
from lpx.errors import (
    DefinitionError,
    DTypeError,
    LpxError,
    ShapeError,
    UnsupportedError,
)
from lpx.frontends.numpy import registry
from tests.frontends.numpy.comparing import function_of

X = np.arange(12, dtype=np.float32).reshape(3, 4)
PLACES = np.arange(4)

REFUSED: list[tuple[str, type[Exception], str]] = [
    ("np.sort(x)", UnsupportedError, r"lpx\.jit does not support np\.sort[\s\S]*hint: sort outside"),
    ("np.unique(x)", UnsupportedError, r"does not support np\.unique[\s\S]*depends on the elements"),
    ("np.nonzero(x)", UnsupportedError, r"does not support np\.nonzero[\s\S]*np\.where\(mask, a, b\)"),
    ("np.linalg.inv(x[:3, :3])", UnsupportedError, r"does not support np\.linalg\.inv[\s\S]*outside"),
    ("np.fft.fft(x)", UnsupportedError, r"does not support np\.fft\.fft[\s\S]*table of supported functions"),
    ("np.gcd(i, i)", UnsupportedError, r"does not support the ufunc np\.gcd"),
    ("np.subtract.reduce(x)", UnsupportedError, r"does not support np\.subtract\.reduce"),
    ("np.add.at(x, 0, 1)", UnsupportedError, r"does not support np\.add\.at"),
    ("np.add.reduceat(x, [0, 1])", UnsupportedError, r"does not support np\.add\.reduceat"),
    ("np.add(x, x, where=x > 0)", UnsupportedError, r"where= leaves elements undefined[\s\S]*np\.where"),
    ("np.add(x, x, casting='unsafe')", UnsupportedError, r"does not support np\.add with casting="),
    ("np.matmul(x, x.T, axes=[(0, 1), (0, 1), (0, 1)])", UnsupportedError, r"does not support np\.matmul with axes="),
    ("x.sort()", UnsupportedError, r"does not support ndarray\.sort"),
    ("x.tolist()", UnsupportedError, r"does not support ndarray\.tolist"),
    ("x.view(np.int32)", UnsupportedError, r"does not support ndarray\.view"),
    ("x.nonsense", UnsupportedError, r"does not support ndarray\.nonsense"),
    ("np.mean(x, where=x > 0)", UnsupportedError, r"does not support np\.mean with where="),
    ("np.max(x, where=x > 0)", UnsupportedError, r"np\.max with where= needs initial="),
    ("np.reshape(x, (4, 3), order='F')", UnsupportedError, r"reshape in order 'F' is not supported"),
    ("np.pad(x, 1, mode='linear_ramp')", UnsupportedError, r"np\.pad in mode 'linear_ramp'"),
    ("np.where(x)", UnsupportedError, r"np\.where\(condition\) alone is not supported"),
    ("np.einsum(x, [0, 1])", UnsupportedError, r"without a string of subscripts"),
    ("np.linalg.norm(x, 'nuc')", UnsupportedError, r"np\.linalg\.norm with ord='nuc'"),
    ("np.take(x, [0], mode='nearest')", UnsupportedError, r"mode='nearest'"),
    ("np.sum(x, axes=0)", TypeError, r"unexpected keyword argument 'axes'"),
    ("np.transpose()", TypeError, r"transpose\(\) missing"),
    ("x if x.sum() > 0 else -x", DefinitionError, r"cannot become a truth value[\s\S]*np\.where"),
    ("list(range(i[0]))", DefinitionError, r"cannot become a Python integer[\s\S]*static"),
    ("np.sum(x, axis=i[0])", DefinitionError, r"cannot become a Python integer"),
    ("float(x[0, 0])", DefinitionError, r"cannot become a Python number"),
    ("int(i[0])", DefinitionError, r"cannot become a Python integer"),
    ("np.asarray(x)", DefinitionError, r"cannot become a NumPy array"),
    ("x + 'text'", DTypeError, r"<U4"),
    ("x + None", DTypeError, r"None is not an array"),
    ("x + 1j", DTypeError, r"complex128"),
    ("x.astype(complex)", DTypeError, r"complex"),
    ("x.astype('datetime64[s]')", DTypeError, r"datetime64"),
    ("x & 1", DTypeError, r"np\.bitwise_and does not take \(float32, int64\)"),
    ("~x", DTypeError, r"np\.invert does not take \(float32\)"),
    ("(x > 0) - (x > 1)", DTypeError, r"np\.subtract does not take \(bool, bool\)"),
    ("x + i[:3]", ShapeError, r"shapes \(3, 4\) and \(3,\) do not broadcast"),
    ("x @ x", ShapeError, r"matmul of \(3, 4\) and \(3, 4\): inner dimensions differ"),
    ("x @ 2", ShapeError, r"one dimension or more"),
    ("x.reshape(5, 3)", ShapeError, r"cannot reshape \(3, 4\) to \(5, 3\)"),
    ("x.reshape(-1, 5)", ShapeError, r"cannot reshape \(3, 4\) to \(-1, 5\)"),
    ("x.reshape(-1, -1)", ShapeError, r"cannot reshape"),
    ("np.sum(x, axis=2)", ShapeError, r"axis 2 is out of range for 2 dimension"),
    ("np.sum(x, axis=(0, 0))", ShapeError, r"name a dimension twice"),
    ("np.transpose(x, (0, 0))", ShapeError, r"not a permutation"),
    ("np.moveaxis(x, (0, 0), (1, 0))", ShapeError, r"cannot move axes"),
    ("np.squeeze(x, axis=0)", ShapeError, r"cannot squeeze axes 0 of \(3, 4\)"),
    ("np.broadcast_to(x, (2, 4))", ShapeError, r"\(3, 4\) does not broadcast to \(2, 4\)"),
    ("np.concatenate([x, x[:, :2]])", ShapeError, r"cannot concatenate \(3, 4\) and \(3, 2\) on axis 0"),
    ("np.concatenate([x, i])", ShapeError, r"cannot concatenate \(3, 4\) and \(4,\)"),
    ("np.concatenate([x[0, 0], x[0, 0]])", ShapeError, r"arrays without dimensions"),
    ("np.split(x, 2)", ShapeError, r"3 elements do not split into 2 equal parts"),
    ("np.max(x[:0])", ShapeError, r"np\.max over no elements"),
    ("np.argmin(x[:0], axis=0)", ShapeError, r"np\.argmin over no elements"),
    ("np.pad(x, -1)", ShapeError, r"np\.pad cannot take away"),
    ("np.cross(x, x)", ShapeError, r"vectors of 3 elements"),
    ("np.einsum('ij,jk->ik', x)", ShapeError, r"names 2 operand\(s\), 1 are given"),
    ("np.einsum('ijk->i', x)", ShapeError, r"does not fit an operand of 2 dimension"),
    ("np.einsum('ij->ik', x)", ShapeError, r"a label twice, or one that no operand has"),
    ("np.tensordot(x, x, 1)", ShapeError, r"np\.tensordot of \(3, 4\) and \(3, 4\)"),
    ("np.diag(x[None])", ShapeError, r"one or two dimensions"),
    ("np.diagonal(i)", ShapeError, r"two dimensions or more"),
    ("np.convolve(x[0], x[0], 'half')", ShapeError, r"mode 'half'"),
    ("np.interp(x, i[:1], i[:1])", ShapeError, r"two points or more"),
    ("np.searchsorted(x, i)", ShapeError, r"looks in a 1-D array"),
    ("np.take_along_axis(x, i, 0)", ShapeError, r"must have one rank"),
]


@pytest.mark.parametrize(("expression", "error", "message"), REFUSED, ids=[e for e, *_ in REFUSED])
def test_refused(expression: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        lpx.jit(function_of([expression], ["x", "i"]))(X, PLACES)
    if isinstance(caught.value, LpxError):
        assert caught.value.span is not None or caught.value.hint, "neither a place nor a remedy"


def test_hints_of_refused_functions() -> None:
    for function, hint in registry.REFUSED.items():
        assert hint
        assert function not in registry.FUNCTIONS


def test_errors_point_at_the_user_s_line() -> None:
    def faulty(x: Any) -> Any:
        return np.sort(x)

    with pytest.raises(UnsupportedError) as caught:
        lpx.jit(faulty)(X)
    assert caught.value.span is not None
    assert caught.value.span.filename == __file__
    assert "return np.sort(x)" in str(caught.value)


def test_arrays_of_two_functions_do_not_mix() -> None:
    kept: list[Any] = []

    def leak(x: Any) -> Any:
        kept.append(x)
        return x + 1

    lpx.jit(leak)(X)

    def use(x: Any) -> Any:
        return x + kept[0]

    with pytest.raises(DefinitionError, match="array of another traced function"):
        lpx.jit(use)(X)


@pytest.mark.parametrize("array", [X.astype(complex), X.astype("datetime64[s]"), X.astype(object), np.array(["a"])])
def test_dtypes_that_are_refused(array: Any) -> None:
    with pytest.raises(DTypeError, match="is not an element type lpx knows"):
        lpx.jit(function_of(["x"], ["x"]))(array)
