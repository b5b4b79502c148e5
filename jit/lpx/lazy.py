"""Packages whose public names bring their modules in when they are first used.

What a warm start does not need (passes, code generation, rules: a third of the compiler) is so never imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module `__getattr__` for `package`: each name of `homes` is that attribute of the module it stands for.

    Checkers see the same names in an `if TYPE_CHECKING:` block, which keeps misspelt ones an error.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
