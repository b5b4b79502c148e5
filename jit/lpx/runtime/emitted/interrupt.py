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

from lpx.runtime.emitted.emit import I8, I32, PTR, VOID, Unit

_SIGINT = 2
_SIG_DFL, _SIG_IGN = 0, 1
_SIGACTION_BYTES = 152  # glibc and musl on 64-bit Linux: handler, 128 bytes of mask, flags, restorer


def emit_interrupt(unit: Unit) -> None:
    """Emits the flag, the handler and the two calls around a long kernel."""
    flag = unit.variable("lpx_interrupted", I32, local=False)
    running = unit.variable("lpx_long_running", I32)
    previous = unit.variable("lpx_previous_handler", PTR)
    sigaction = unit.extern("sigaction", I32, I32, PTR, PTR)

    with unit.function("lpx_on_interrupt", VOID, I32, PTR, PTR, local=True) as (code, number, info, context):
        with code.when(code.load_atomic(code.symbol(running), I32, "monotonic").ne(0)):
            code.store_atomic(code.symbol(flag), code.i32(1))
        code.call_pointer(code.symbol(previous).load(PTR), VOID, number, info, context)
        code.ret()
    handler = unit.extern("lpx_on_interrupt", VOID)

    with unit.function("lpx_long_enter", VOID) as (code,):
        with code.when(code.atomic("add", code.symbol(running), code.i32(1)).eq(0)):
            code.store_atomic(code.symbol(flag), code.i32(0))
        action = code.stack(I8, _SIGACTION_BYTES, align=8)
        code.call(sigaction, _SIGINT, code.null(), action)
        present = action.load(PTR)
        ours = code.symbol(handler)
        with code.when(present.ne(ours)), code.when(present.address().ne(_SIG_DFL) & present.address().ne(_SIG_IGN)):
            code.symbol(previous).store(present)
            action.store(ours)
            code.call(sigaction, _SIGINT, action, code.null())
        code.ret()

    with unit.function("lpx_long_leave", VOID) as (code,):
        with code.when(code.atomic("sub", code.symbol(running), code.i32(1)).eq(1)):
            code.store_atomic(code.symbol(flag), code.i32(0))
        code.ret()

    with unit.function("lpx_long_reset", VOID) as (code,):
        code.symbol(running).store(0, I32)
        code.symbol(flag).store(0, I32)
        code.ret()
