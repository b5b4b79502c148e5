"""Passes from scheduled to flat loop-nest IR: one file each, and one pipeline list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.lazy import attributes

if TYPE_CHECKING:
    from lpx.passes.pipeline import lower as lower
else:
    __getattr__ = attributes(__name__, {"lower": "lpx.passes.pipeline"})
