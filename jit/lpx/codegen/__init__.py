"""Flat loop-nest IR to LLVM IR text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.lazy import attributes

if TYPE_CHECKING:
    from lpx.codegen.cpu import lower_to_llvm as lower_to_llvm
else:
    __getattr__ = attributes(__name__, {"lower_to_llvm": "lpx.codegen.cpu"})
