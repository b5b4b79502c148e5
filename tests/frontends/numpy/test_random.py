"""Random programs of elementwise operations, reductions and movements agree with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.numpy.comparing import check_batch

SHAPE = (3, 4)
LEAVES = ("a", "b", "c[:, None, 0]", "c.T[:, :1].T", "a[::-1]", "b * 0 + 2")
UNARY = (
    "-({0})",
    "np.abs({0})",
    "np.sign({0})",
    "np.square({0})",
    "np.flip({0})",
    "np.roll({0}, 1, 0)",
    "np.rint({0} / 4)",
)
BINARY = (
    "({0}) + ({1})",
    "({0}) - ({1})",
    "({0}) * ({1})",
    "np.maximum({0}, {1})",
    "np.where(({0}) > ({1}), {0}, {1})",
)
WHOLE = (
    *("np.sum({0}, axis=0)", "np.max({0}, axis=-1, keepdims=True)", "np.cumsum({0}, axis=1)", "({0})[1:, ::2]"),
    *(
        "np.argmax({0}, axis=1)",
        "np.transpose({0})",
        "np.stack([{0}, {0}])",
        "np.where(({0}) > 0, {0}, 0).astype(np.float64)",
    ),
    *("np.reshape({0}, (-1,))", "np.any({0}, axis=0)", "np.concatenate([{0}, {0}], axis=1)", "np.diff({0})", "{0}"),
)


def expressions() -> st.SearchStrategy[str]:
    """Expressions over arrays a, b, c of shape SHAPE."""

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        unary = st.builds(str.format, st.sampled_from(UNARY), inner)
        return unary | st.builds(str.format, st.sampled_from(BINARY), inner, inner)

    of_array = st.recursive(st.sampled_from(LEAVES), grow, max_leaves=5).map(lambda e: f"a * 0 + {e}")
    return st.builds(str.format, st.sampled_from(WHOLE), of_array)


def arrays(dtypes: tuple[str, str, str], seed: int) -> dict[str, Any]:
    """Small whole numbers, on which float sums are exact in any order."""
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-3, 4, SHAPE).astype(dtype) for name, dtype in zip("abc", dtypes, strict=True)}


DTYPES = st.sampled_from(["int8", "uint8", "int32", "int64", "float32", "float64"])


@settings(max_examples=10)
@given(st.lists(expressions(), min_size=2, max_size=4), st.tuples(DTYPES, DTYPES, DTYPES), st.integers(0, 99))
def test_random_expressions(programs: list[str], dtypes: tuple[str, str, str], seed: int) -> None:
    check_batch(programs, arrays(dtypes, seed), ulps=0)
