"""Element types are compared by identity, so every way to one leads to the same instance."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from lpx import dtypes
from lpx.dtypes import DType
from lpx.errors import DTypeError


@pytest.mark.parametrize("dtype", [*dtypes.ALL, dtypes.handle], ids=str)
def test_copies_and_pickles_are_the_same(dtype: DType) -> None:
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy(dtype) is dtype


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_names_and_numpy_dtypes_lead_to_it(dtype: DType) -> None:
    assert dtypes.parse(dtype.name) is dtype
    assert dtypes.parse(dtype) is dtype
    assert dtypes.parse(dtype.to_numpy()) is dtype
    assert dtypes.parse(dtype.to_numpy().type) is dtype


def test_types_differ() -> None:
    assert len({*dtypes.ALL, dtypes.handle}) == len(dtypes.ALL) + 1
    assert dtypes.index is dtypes.int64
    assert dtypes.float32 != dtypes.float16


@pytest.mark.parametrize("spec", ["handle", "float80", np.complex64, object, None.__class__])
def test_refuses_what_is_no_element_type(spec: object) -> None:
    with pytest.raises(DTypeError, match="is not an element type lpx knows"):
        dtypes.parse(spec)
