"""mpmath without its missing types, in one place."""

from __future__ import annotations

from typing import Any, cast

import mpmath

mp: Any = cast("Any", mpmath).mp
"""Arithmetic of any precision; `with mp.workprec(bits):` sets it."""

Real = Any
"""An mpmath number."""
