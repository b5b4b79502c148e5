"""The parts of the run time that lpx writes as LLVM IR: threads, scratch memory, Ctrl-C, and what CPython calls.

They are compiled once and then come from the disk cache, so what emits them is imported when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.lazy import attributes

if TYPE_CHECKING:
    from lpx.runtime.emitted.library import emit_entry as emit_entry
    from lpx.runtime.emitted.library import emit_support as emit_support
else:
    _HOME = "lpx.runtime.emitted.library"
    __getattr__ = attributes(__name__, {"emit_entry": _HOME, "emit_support": _HOME})
