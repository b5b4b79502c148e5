"""Small kernels, written as LLVM IR, that tests of the run time call."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from lpx import dtypes
from lpx.runtime import objects
from lpx.runtime.emitted.emit import Code, Unit, Value
from lpx.runtime.emitted.types import I8, I32, I64, PTR, VOID
from lpx.runtime.signature import Parameter, Signature
from lpx.runtime.specialisation import Specialisation
from lpx.runtime.support import link_kernel

FLOAT: Any = importlib.import_module("llvmlite.ir").FloatType()
f32, i64 = dtypes.float32, dtypes.int64


def kernel(signature: Signature, body: Callable[[Unit, Code, Value], None], **options: Any) -> Specialisation:
    """A specialisation whose kernel `body(unit, code, slots)` emits; `body` returns 0 where it does not itself."""
    data = compiled(signature.name, body)
    exports = (signature.name, options["derive"]) if "derive" in options else (signature.name,)
    return Specialisation(signature, link_kernel(data, exports), **options)


def compiled(name: str, body: Callable[[Unit, Code, Value], None]) -> bytes:
    unit = Unit(name, objects.host_triple())
    with unit.function(name, I32, PTR) as (code, slots):
        body(unit, code, slots)
        if not code.builder.block.is_terminated:
            code.ret(0)
    return objects.compile_module(unit)


def slot(slots: Value, index: int, type_: Any = PTR) -> Value:
    return (slots + 8 * index).load(type_)


def add_body(n: int | str) -> Callable[[Unit, Code, Value], None]:
    def body(_unit: Unit, code: Code, slots: Value) -> None:
        extent = slot(slots, 3, I64) if isinstance(n, str) else code.i64(n)
        a, b, c = (slot(slots, i) for i in range(3))
        with code.count(extent) as i:
            total = code.builder.fadd((a + i * 4).load(FLOAT).ir, (b + i * 4).load(FLOAT).ir)
            (c + i * 4).store(Value(code, total))

    return body


@functools.cache
def add(n: int | str = 16) -> Specialisation:
    """c = a + b, float32[n]."""
    shape = (n,)
    parameters = (Parameter("a", f32, shape), Parameter("b", f32, shape), Parameter("c", f32, shape, "out"))
    return kernel(Signature("add", parameters, (n,) if isinstance(n, str) else ()), add_body(n))


@functools.cache
def sum_and_difference() -> Specialisation:
    """s, d = a + b, a - b, int64[n, 2]."""
    shape = ("n", 2)

    def body(_unit: Unit, code: Code, slots: Value) -> None:
        a, b, s, d = (slot(slots, i) for i in range(4))
        with code.count(slot(slots, 4, I64) * 2) as i:
            (s + i * 8).store((a + i * 8).load(I64) + (b + i * 8).load(I64))
            (d + i * 8).store((a + i * 8).load(I64) - (b + i * 8).load(I64))

    names = [Parameter(name, i64, shape, "in" if name in "ab" else "out") for name in "absd"]
    return kernel(Signature("sum_and_difference", tuple(names), ("n",)), body)


@functools.cache
def accumulate() -> Specialisation:
    """x += a, int64[n]; returns nothing."""

    def body(_unit: Unit, code: Code, slots: Value) -> None:
        a, x = slot(slots, 0), slot(slots, 1)
        with code.count(slot(slots, 2, I64)) as i:
            (x + i * 8).store((x + i * 8).load(I64) + (a + i * 8).load(I64))

    parameters = (Parameter("a", i64, ("n",)), Parameter("x", i64, ("n",), "inout"))
    return kernel(Signature("accumulate", parameters, ("n",)), body)


@functools.cache
def status(*, long: bool = False) -> Specialisation:
    """Returns the int32 it is given as its status, and nothing."""

    def body(_unit: Unit, code: Code, slots: Value) -> None:
        code.ret(slot(slots, 0).load(I32))

    parameters = (Parameter("code", dtypes.int32, ()), Parameter("c", f32, (4,), "out"))
    checks = ("index 7 is out of range", "division by zero")
    return kernel(Signature("status", parameters, checks=checks), body, long=long)


@functools.cache
def framed() -> Specialisation:
    """b[0] = b[n + 1] = -1 around a, int64[n]; the extent n + 2 is derived."""

    def body(unit: Unit, code: Code, slots: Value) -> None:
        a, b, n = slot(slots, 0), slot(slots, 1), slot(slots, 2, I64)
        with code.count(n) as i:
            (b + 8 + i * 8).store((a + i * 8).load(I64))
        b.store(-1)
        (b + 8 + n * 8).store(-1)
        with unit.function("derive", VOID, PTR) as (derive, extents):
            (extents + 8).store(extents.load(I64) + 2)
            derive.ret()

    parameters = (Parameter("a", i64, ("n",)), Parameter("b", i64, ("m",), "out"))
    return kernel(Signature("framed", parameters, ("n",), ("m",)), body, derive="derive")


@functools.cache
def shrunk() -> Specialisation:
    """b = a[:n - 3], int64[n]; the derived extent n - 3 is negative for short arrays."""

    def body(unit: Unit, code: Code, slots: Value) -> None:
        a, b, n = slot(slots, 0), slot(slots, 1), slot(slots, 2, I64)
        with code.count(n - 3) as i:
            (b + i * 8).store((a + i * 8).load(I64))
        with unit.function("derive", VOID, PTR) as (derive, extents):
            (extents + 8).store(extents.load(I64) - 3)
            derive.ret()

    parameters = (Parameter("a", i64, ("n",)), Parameter("b", i64, ("m",), "out"))
    return kernel(Signature("shrunk", parameters, ("n",), ("m",)), body, derive="derive")


def plus_bound(w: np.ndarray[Any, Any]) -> Specialisation:
    """c = a + w with w bound, int64."""

    def body(_unit: Unit, code: Code, slots: Value) -> None:
        w_, a, c = (slot(slots, i) for i in range(3))
        with code.count(code.i64(len(w))) as i:
            (c + i * 8).store((a + i * 8).load(I64) + (w_ + i * 8).load(I64))

    shape = w.shape
    parameters = (Parameter("w", i64, shape, "bound"), Parameter("a", i64, shape), Parameter("c", i64, shape, "out"))
    return kernel(Signature("plus_bound", parameters), body, bound={"w": w})


def _share(code: Code, n: Value, t: Value, nt: Value) -> tuple[Value, Value]:
    """First and one-past-last of share t of nt of n: floor(n * t / nt), by a loop that avoids a division."""
    divide = code.builder.sdiv
    return Value(code, divide((n * t).ir, nt.ir)), Value(code, divide((n * (t + 1)).ir, nt.ir))


@functools.cache
def threads_of_rows() -> Specialisation:
    """owner[i] = thread that had row i; rows int64[n] gives n; 1 + number of threads in count[0]."""

    def body(unit: Unit, code: Code, slots: Value) -> None:
        with unit.function("share", I32, PTR, I64, I64, local=True) as (share, closure, t, nt):
            n = (closure + 16).load(I64)
            first, last = _share(share, n, t, nt)
            i = share.variable(first)
            with share.forever():
                share.leave_when(i.get() >= last)
                (closure.load(PTR) + i.get() * 8).store(t)
                i.set(i.get() + 1)
            with share.when(t.eq(0)):
                (closure + 8).load(PTR).store(nt)
            share.ret(0)
        closure = code.stack(I64, 3)
        closure.store(slot(slots, 1))
        (closure + 8).store(slot(slots, 2))
        (closure + 16).store(slot(slots, 3, I64))
        parallel = unit.extern("lpx_parallel", I32, PTR, PTR, I64)
        code.ret(code.call(parallel, Value(code, unit.address("share")), closure, slot(slots, 3, I64)))

    parameters = (
        Parameter("rows", i64, ("n",)),
        Parameter("owner", i64, ("n",), "out"),
        Parameter("count", i64, (1,), "out"),
    )
    return kernel(Signature("threads_of_rows", parameters, ("n",)), body, long=True)


@functools.cache
def rounds(fail_at: int = -1) -> Specialisation:
    """k rounds of: every thread adds 1 to its cell, barrier, checks all cells, barrier. Thread 1 fails with 2 in round
    `fail_at`.

    Returns cells int64[8]; status 1 if a thread saw another's cell of the wrong round.
    """

    def body(unit: Unit, code: Code, slots: Value) -> None:
        barrier = unit.extern("lpx_barrier", I32, PTR)

        def wait(share: Code, region: Value) -> None:
            stop = share.call(barrier, region)
            with share.when(stop.ne(0)):
                share.ret(stop)

        with unit.function("share", I32, PTR, I64, I64, PTR, local=True) as (share, closure, t, nt, region):
            cells = closure.load(PTR)
            with share.count((closure + 8).load(I64)) as round_:
                with share.when(round_.eq(fail_at)), share.when(t.eq(nt - 1)):
                    share.ret(2)
                (cells + t * 8).store((cells + t * 8).load(I64) + 1)
                wait(share, region)
                with share.count(nt) as other, share.when((cells + other * 8).load(I64).ne(round_ + 1)):
                    share.ret(1)
                wait(share, region)
            share.ret(0)
        closure = code.stack(I64, 2)
        closure.store(slot(slots, 1))
        (closure + 8).store(slot(slots, 0).load(I64))
        with code.count(code.i64(8)) as i:
            (slot(slots, 1) + i * 8).store(0)
        parallel = unit.extern("lpx_parallel", I32, PTR, PTR, I64)
        code.ret(code.call(parallel, Value(code, unit.address("share")), closure, 8))

    parameters = (Parameter("k", i64, (1,)), Parameter("cells", i64, (8,), "out"))
    return kernel(Signature("rounds", parameters, checks=("a barrier leaked", "told to fail")), body, long=True)


@functools.cache
def nested() -> Specialisation:
    """inner[i]: threads of a region inside share i of a region over 4; outer threads in outer[0]."""

    def body(unit: Unit, code: Code, slots: Value) -> None:
        parallel = unit.extern("lpx_parallel", I32, PTR, PTR, I64)
        with unit.function("inner", I32, PTR, I64, I64, local=True) as (inner, closure, t, nt):
            with inner.when(t.eq(0)):
                closure.store(nt)
            inner.ret(0)
        with unit.function("outer", I32, PTR, I64, I64, local=True) as (outer, closure, t, nt):
            with outer.when(t.eq(0)):
                (closure + 8).load(PTR).store(nt)
            outer.ret(outer.call(parallel, outer.symbol(unit.extern("inner", I32)), closure.load(PTR) + t * 8, 4))
        closure = code.stack(I64, 2)
        closure.store(slot(slots, 0))
        (closure + 8).store(slot(slots, 1))
        with code.count(code.i64(4)) as i:
            (slot(slots, 0) + i * 8).store(0)
        code.ret(code.call(parallel, code.symbol(unit.extern("outer", I32)), closure, 4))

    parameters = (Parameter("inner", i64, (4,), "out"), Parameter("outer", i64, (1,), "out"))
    return kernel(Signature("nested", parameters), body, long=True)


@functools.cache
def until_interrupted(*, threads: bool = False) -> Specialisation:
    """Runs until `lpx_interrupted` is set, on one thread or on all; sets started[0] first."""

    def loop(unit: Unit, code: Code) -> None:
        flag = code.symbol(unit.module.globals["lpx_interrupted"])
        with code.forever(), code.when(code.load_atomic(flag, I32, "monotonic").ne(0)):
            code.ret(-1)

    def body(unit: Unit, code: Code, slots: Value) -> None:
        unit.imported("lpx_interrupted", I32)
        slot(slots, 0).store(1)
        if not threads:
            loop(unit, code)
            code.unreachable()
            return
        with unit.function("share", I32, PTR, I64, I64, local=True) as (share, _closure, _t, _nt):
            loop(unit, share)
            share.unreachable()
        parallel = unit.extern("lpx_parallel", I32, PTR, PTR, I64)
        code.ret(code.call(parallel, Value(code, unit.address("share")), slot(slots, 0), 8))

    return kernel(Signature("until_interrupted", (Parameter("started", i64, (1,), "inout"),)), body, long=True)


@functools.cache
def until_told(*, long: bool = True) -> Specialisation:
    """Sets flags[0], then runs until flags[1] is set from another thread."""

    def body(_unit: Unit, code: Code, slots: Value) -> None:
        flags = slot(slots, 0)
        code.store_atomic(flags, code.i64(1))
        with code.forever():
            code.leave_when(code.load_atomic(flags + 8, I64).ne(0))

    return kernel(Signature("until_told", (Parameter("flags", i64, (2,), "inout"),)), body, long=long)


@functools.cache
def scratch() -> Specialisation:
    """Acquires and releases sizes[i] bytes.

    Addresses[i] is the block, filled with i when acquired; 2 when out of memory.
    """

    def body(unit: Unit, code: Code, slots: Value) -> None:
        acquire = unit.extern("lpx_scratch_acquire", PTR, I64)
        release = unit.extern("lpx_scratch_release", VOID, PTR)
        with code.count(slot(slots, 2, I64)) as i:
            block = code.call(acquire, (slot(slots, 0) + i * 8).load(I64))
            with code.when(block.eq(0)):
                code.ret(-2)
            block.store(i)
            (slot(slots, 1) + i * 8).store(block)
            code.call(release, block)

    parameters = (Parameter("sizes", i64, ("n",)), Parameter("addresses", i64, ("n",), "out"))
    return kernel(Signature("scratch", parameters, ("n",)), body)


def use_threads(n: int) -> int:
    """Threads that a region uses after `set_num_threads(n)`; runs in a child process."""
    from lpx.runtime.native import NativeFunction
    from lpx.runtime.pool import set_num_threads

    set_num_threads(n)
    call = NativeFunction(print)
    call.add(threads_of_rows())
    return int(call(np.zeros(64, np.int64))[1][0])


@functools.cache
def add_integers() -> Specialisation:
    """c = a + b, int64[n], front to back: an overlap that is not handled shows."""

    def body(_unit: Unit, code: Code, slots: Value) -> None:
        a, b, c = (slot(slots, i) for i in range(3))
        with code.count(slot(slots, 3, I64)) as i:
            (c + i * 8).store((a + i * 8).load(I64) + (b + i * 8).load(I64))

    names = [Parameter(name, i64, ("n",), "out" if name == "c" else "in") for name in "abc"]
    return kernel(Signature("add_integers", tuple(names), ("n",)), body)


@functools.cache
def copy_bfloat16() -> Specialisation:
    """c = a, bfloat16[n]."""

    def body(_unit: Unit, code: Code, slots: Value) -> None:
        a, c = slot(slots, 0), slot(slots, 1)
        with code.count(slot(slots, 2, I64) * 2) as i:
            (c + i).store((a + i).load(I8))

    parameters = (Parameter("a", dtypes.bfloat16, ("n",)), Parameter("c", dtypes.bfloat16, ("n",), "out"))
    return kernel(Signature("copy_bfloat16", parameters, ("n",)), body)
