"""Whether a call fits a specialisation, decided from the array objects in memory.

    i32 lpx_match(ptr specialisation, ptr args, ptr outs, ptr slots, ptr spans)

`args` are the inputs, `outs` the given outputs or null. A match has filled the kernel's slots, but for new outputs and
bound arrays. Arguments that overlap where one of them is written do not match.
"""

from __future__ import annotations

from typing import Any

from lpx.runtime.emitted.emit import Code, Unit, Value, Variable
from lpx.runtime.emitted.layout import ARGUMENT, ARRAY, BOUND, DESCR, OBJECT, SPAN, SPECIALISATION, WRITEABLE
from lpx.runtime.emitted.types import I32, I64, PTR, VOID

_NATIVE_ORDERS = (ord("="), ord("|"))


class MatchEmitter:
    """Emits `lpx_match`, for inlining, into a unit."""

    def __init__(self, unit: Unit, array_type: Any) -> None:
        self.unit = unit
        self.array_type = array_type
        self.check = self._emit_check()
        self.overlaps = self._emit_overlaps()
        self.match = self._emit_match()

    def _emit_check(self) -> Any:
        """Whether one object fits an ARGUMENT; notes its data in `slots`, its extents, and its span of memory."""
        with self.unit.function("lpx_check", I32, PTR, PTR, PTR, PTR, PTR, local=True, inline=True) as (
            code,
            argument,
            obj,
            slots,
            extents,
            span,
        ):
            _require(code, obj.get(OBJECT["type"]).eq(code.symbol(self.array_type)))
            flags = argument.get(ARGUMENT["flags"])
            _require(code, (obj.get(ARRAY["flags"]) & flags).eq(flags))
            ndim = argument.get(ARGUMENT["ndim"])
            _require(code, obj.get(ARRAY["ndim"]).eq(ndim))
            descr = obj.get(ARRAY["descr"])
            with code.when(descr.ne(argument.get(ARGUMENT["descr"]))):
                _require(code, descr.get(DESCR["number"]).eq(argument.get(ARGUMENT["number"])))
                order = descr.get(DESCR["byteorder"])
                _require(code, order.eq(_NATIVE_ORDERS[0]) | order.eq(_NATIVE_ORDERS[1]))
            shape = obj.get(ARRAY["shape"])
            itemsize = argument.get(ARGUMENT["itemsize"])
            bytes_ = code.variable(itemsize)
            with code.count(ndim.widen()) as i:
                given = (shape + i * 8).load(I64)
                wanted = (argument + ARGUMENT.size + i * 8).load(I64)
                with code.choose(wanted < 0) as (symbolic, fixed):
                    with symbolic:
                        known = extents + (code.i64(-1) - wanted) * 8
                        with code.when(known.load(I64) < 0):
                            known.store(given)
                        _require(code, known.load(I64).eq(given))
                    with fixed:
                        _require(code, wanted.eq(given))
                bytes_.set(bytes_.get() * given)
            data = obj.get(ARRAY["data"])
            _require(code, (data.address() & (itemsize - 1)).eq(0))
            (slots + argument.get(ARGUMENT["slot"]).widen() * 8).store(data)
            span.put(SPAN["start"], data.address())
            span.put(SPAN["end"], data.address() + bytes_.get())
            span.put(SPAN["written"], (flags & WRITEABLE).widen())
            code.ret(1)
        return self.unit.named("lpx_check")

    def _emit_overlaps(self) -> Any:
        """Whether memory that one of the n arguments has written is also that of another, or of a bound array."""
        with self.unit.function("lpx_overlaps", I32, PTR, PTR, PTR, I64, local=True) as (
            code,
            specialisation,
            bound,
            spans,
            n,
        ):
            with code.count(n) as i:
                written = spans + i * SPAN.size
                with code.when(written.get(SPAN["written"]).ne(0)):
                    start, end = written.get(SPAN["start"]), written.get(SPAN["end"])
                    with code.count(n) as j:
                        other = spans + j * SPAN.size
                        shared = _share(code, start, end, other.get(SPAN["start"]), other.get(SPAN["end"]))
                        with code.when(shared & i.ne(j)):
                            code.ret(1)
                    with code.count(specialisation.get(SPECIALISATION["bound"])) as j:
                        fixed = bound + j * BOUND.size
                        first = fixed.get(BOUND["data"]).address()
                        with code.when(_share(code, start, end, first, first + fixed.get(BOUND["bytes"]))):
                            code.ret(1)
            code.ret(0)
        return self.unit.named("lpx_overlaps")

    def _emit_match(self) -> Any:
        """The whole decision for one specialisation."""
        with self.unit.function("lpx_match", I32, PTR, PTR, PTR, PTR, PTR, local=True, inline=True) as (
            code,
            specialisation,
            args,
            outs,
            slots,
            spans,
        ):
            extents = slots + specialisation.get(SPECIALISATION["buffers"]) * 8
            with code.count(specialisation.get(SPECIALISATION["free_extents"])) as i:
                (extents + i * 8).store(-1)
            inputs = specialisation.get(SPECIALISATION["inputs"])
            outputs = specialisation.get(SPECIALISATION["outputs"])
            argument = code.variable(specialisation + SPECIALISATION.size)
            self._check_all(code, argument, args, inputs, slots, extents, spans)
            derive = specialisation.get(SPECIALISATION["derive"])
            with code.when(derive.ne(0)):
                code.call_pointer(derive, VOID, extents)
                derived = extents + specialisation.get(SPECIALISATION["free_extents"]) * 8
                with code.count(specialisation.get(SPECIALISATION["derived_extents"])) as i:
                    _require(code, (derived + i * 8).load(I64) >= 0)
            with code.when(outs.ne(0)):
                self._check_all(code, argument, outs, outputs, slots, extents, spans + inputs * SPAN.size)
            given = code.select(outs.ne(0), inputs + outputs, inputs)
            writes = outs.ne(0) | specialisation.get(SPECIALISATION["in_outs"]).ne(0)
            with code.when(writes):
                with code.when(outs.eq(0)):
                    skip(code, argument, outputs)
                _require(code, code.call(self.overlaps, specialisation, argument.get(), spans, given).eq(0))
            code.ret(1)
        return self.unit.named("lpx_match")

    def _check_all(
        self, code: Code, argument: Variable, objects: Value, n: Value, slots: Value, extents: Value, spans: Value
    ) -> None:
        with code.count(n) as i:
            obj = (objects + i * 8).load(PTR)
            _require(code, code.call(self.check, argument.get(), obj, slots, extents, spans + i * SPAN.size).ne(0))
            argument.set(after(argument.get()))


def _require(code: Code, condition: Value) -> None:
    with code.when(condition.eq(0)):
        code.ret(0)


def _share(code: Code, start: Value, end: Value, other_start: Value, other_end: Value) -> Value:
    """Whether two spans have a byte in common; an empty one has none."""
    later = code.select(start < other_start, other_start, start)
    return later < code.select(end < other_end, end, other_end)


def after(argument: Value) -> Value:
    """The record behind an ARGUMENT and its dimensions."""
    return argument + argument.get(ARGUMENT["ndim"]).widen() * 8 + ARGUMENT.size


def skip(code: Code, argument: Variable, n: Value) -> None:
    """Moves `argument` over n ARGUMENT records."""
    with code.count(n):
        argument.set(after(argument.get()))
