"""Comparing compiled expressions with NumPy's own results.

Expressions are source text, so that one table drives both sides: a batch of them becomes one function, which is run by
NumPy and compiled once.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lpx

Array = NDArray[Any]
ULPS = 16.0
"""What results of a few roundings in another order may differ by, in units of the last place of the largest element."""


def function_of(expressions: Sequence[str], names: Sequence[str], name: str = "batch") -> Callable[..., Any]:
    """A function of arrays `names` that returns the flattened results of all expressions as a tuple."""
    lines = "".join(f"    out += flat({text})\n" for text in expressions)
    source = f"def {name}({', '.join(names)}):\n    out = []\n{lines}    return tuple(out)\n"
    scope: dict[str, Any] = {"np": np, "lpx": lpx, "flat": flat}
    exec(compile(textwrap.dedent(source), f"<{name}>", "exec"), scope)
    made: Callable[..., Any] = scope[name]
    return made


def flat(*values: Any) -> list[Any]:
    """The arrays among values, lists and tuples of them, in order."""
    found: list[Any] = []
    for value in values:
        found.extend(flat(*value) if isinstance(value, list | tuple) else [value])
    return found


def run_numpy(function: Callable[..., Any], arrays: Mapping[str, Any]) -> Any:
    """What NumPy gives, without its warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(**arrays)


def check_batch(expressions: Sequence[str], arrays: Mapping[str, Any], *, ulps: float = ULPS) -> None:
    """All expressions of the arrays, compiled together, equal NumPy's results in dtype, shape and elements."""
    function = function_of(expressions, list(arrays))
    wanted = run_numpy(function, arrays)
    got = lpx.jit(function)(**arrays)
    labels = [text for text in expressions for _ in flat(run_numpy(function_of([text], list(arrays)), arrays))]
    assert len(got) == len(wanted)
    for label, g, w in zip(labels, got, wanted, strict=True):
        assert_same(label, g, np.asarray(w), ulps)


def assert_same(label: str, got: Array, wanted: Array, ulps: float = 0.0) -> None:
    """Equal dtype and shape; equal elements, floats to `ulps` of the larger of themselves and the largest element."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), label
    if wanted.dtype.kind != "f" or not ulps:
        np.testing.assert_array_equal(got, wanted, err_msg=label, strict=True)
        return
    finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
    scale = max(float(finite.max(initial=0.0)), float(np.finfo(wanted.dtype).tiny))
    tolerance = ulps * scale * float(np.finfo(wanted.dtype).eps)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance, err_msg=label)


def check_program(body: str, arrays: Mapping[str, Array]) -> None:
    """Statements over the arrays leave them, and what they return, as NumPy does."""
    source = f"def program({', '.join(arrays)}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    scope: dict[str, Any] = {"np": np, "lpx": lpx}
    exec(compile(source, "<program>", "exec"), scope)
    ours, theirs = ({name: np.array(array) for name, array in arrays.items()} for _ in range(2))
    wanted = flat(run_numpy(scope["program"], theirs))
    got = flat(lpx.jit(scope["program"])(**ours))
    for label, g, w in zip([f"{body} result"] * len(wanted), got, wanted, strict=True):
        if w is not None:
            assert_same(label, g, np.asarray(w))
    for name, array in theirs.items():
        assert_same(f"{body} argument {name}", ours[name], array)
