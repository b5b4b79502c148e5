"""Ctrl-C in long kernels: a SIGINT handler in front of Python's own.

    i32 lpx_interrupted                  generated code polls it in long loops and returns -1 when it is set
    void lpx_long_enter()                a long kernel begins (called with the GIL held)
    void lpx_long_leave()                ... and ends
    void lpx_long_reset()                none runs: called in a forked child

Python's handler only notes the signal; Python acts on it between two bytecodes, hence after the kernel. Ours sets the
flag if a long kernel runs, then calls Python's. It is put in place by the first long kernel and again whenever someone
has replaced it, so `signal.signal` works as always. Where SIGINT is ignored or has its default action, it is left
alone.
"""

from __future__ import annotations

from typing import Any

from lpx.runtime.emitted.emit import Code, Unit
from lpx.runtime.emitted.record import Record
from lpx.runtime.emitted.types import I8, I32, PTR, VOID, ir

_SIGINT = 2
_SIG_DFL, _SIG_IGN = 0, 1
_SIGACTION_BYTES = 152  # glibc and musl on 64-bit Linux: handler, 128 bytes of mask, flags, restorer
_CHAIN = Record(previous="ptr", older="ptr", inside="i32")
"""The handler we replaced, and the one before.

If `previous` was put in front of ours, it calls us, and we go on to `older`.
"""


def emit_interrupt(unit: Unit) -> None:
    """Emits the flag, the handler and the two calls around a long kernel."""
    flag = unit.variable("lpx_interrupted", I32, local=False)
    running = unit.variable("lpx_long_running", I32)
    chain = unit.variable("lpx_previous_handlers", ir.ArrayType(I8, _CHAIN.size), 8)

    with unit.function("lpx_on_interrupt", VOID, I32, PTR, PTR, local=True) as (code, number, info, context):
        with code.when(code.load_atomic(code.symbol(running), I32, "monotonic").ne(0)):
            code.store_atomic(code.symbol(flag), code.i32(1))
        links = code.symbol(chain)
        inside = links + _CHAIN["inside"].offset
        again = code.atomic("xchg", inside, code.i32(1)).ne(0)
        following = code.select(again, links.get(_CHAIN["older"]), links.get(_CHAIN["previous"]))
        with code.when(following.ne(0)):
            code.call_pointer(following, VOID, number, info, context)
        with code.when(again.eq(0)):
            code.store_atomic(inside, code.i32(0))
        code.ret()
    handler = unit.named("lpx_on_interrupt")

    with unit.function("lpx_long_enter", VOID) as (code,):
        with code.when(code.atomic("add", code.symbol(running), code.i32(1)).eq(0)):
            code.store_atomic(code.symbol(flag), code.i32(0))
        if unit.is_linux:
            _hook(code, chain, handler)
        code.ret()

    with unit.function("lpx_long_leave", VOID) as (code,):
        with code.when(code.atomic("sub", code.symbol(running), code.i32(1)).eq(1)):
            code.store_atomic(code.symbol(flag), code.i32(0))
        code.ret()

    with unit.function("lpx_long_reset", VOID) as (code,):
        code.symbol(running).store(0, I32)
        code.symbol(flag).store(0, I32)
        code.ret()


def _hook(code: Code, chain: Any, handler: Any) -> None:
    """Puts our handler in front of the present one, unless it is there already or there is none."""
    sigaction = code.unit.extern("sigaction", I32, I32, PTR, PTR)
    action = code.stack(I8, _SIGACTION_BYTES, align=8)
    code.call(sigaction, _SIGINT, code.null(), action)
    present = action.load(PTR)
    handled = present.address().ne(_SIG_DFL) & present.address().ne(_SIG_IGN)
    with code.when(handled & present.ne(code.symbol(handler))):
        links = code.symbol(chain)
        links.put(_CHAIN["older"], links.get(_CHAIN["previous"]))
        links.put(_CHAIN["previous"], present)
        action.store(code.symbol(handler))
        code.call(sigaction, _SIGINT, action, code.null())
