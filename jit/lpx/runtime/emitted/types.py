"""LLVM's types as emitted code names them, and those of C structures' fields."""

from __future__ import annotations

import importlib
from typing import Any

from lpx.runtime.emitted.record import CType

ir: Any = importlib.import_module("llvmlite.ir")  # llvmlite carries no types

I8: Any = ir.IntType(8)
I32: Any = ir.IntType(32)
I64: Any = ir.IntType(64)
PTR: Any = ir.PointerType()
VOID: Any = ir.VoidType()

OF_C: dict[CType, Any] = {"i8": I8, "i32": I32, "i64": I64, "ptr": PTR}


def size_of(type_: Any) -> int:
    """Bytes of an integer or pointer."""
    return 8 if type_ == PTR else int(type_.width) // 8
