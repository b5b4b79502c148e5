"""Attention: 12 heads of 128 positions, 8 causal ones of 1024.

pytest bench/test_attention.py
"""

from __future__ import annotations

import pytest
from bench.compare import Compare

from lpx.cli.comparison.operations import attention


@pytest.mark.parametrize(("heads", "length", "causal"), [(12, 128, 0), (8, 1024, 1)])
def test_attention(compare: Compare, heads: int, length: int, causal: int) -> None:
    """One call of `lpx.nn.attention`."""
    compare(attention(heads, length, 64, causal))
