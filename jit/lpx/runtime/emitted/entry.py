"""What CPython calls: the vectorcall function of the native type, driven by the records of `layout`.

    PyObject *call(PyObject *self, PyObject **args, size_t nargsf, PyObject *kwnames)

It takes the first specialisation that fits the arguments exactly (the one of the last call is tried before all others
where only one can fit), allocates what outputs are not given, and runs the kernel. Whatever fits none goes to the
instance's `fallback`, in Python. Nothing here raises for an argument it does not like.
"""

from __future__ import annotations

from typing import Any

from lpx.runtime.emitted.emit import Code, Unit, Value
from lpx.runtime.emitted.layout import (
    ARGUMENT,
    ARRAY,
    BOUND,
    CPYTHON_FUNCTIONS,
    INSTANCE,
    MAX_DIMENSIONS,
    OBJECT,
    SPAN,
    SPECIALISATION,
    TABLE,
    TUPLE_SIZE,
)
from lpx.runtime.emitted.matching import MatchEmitter, after, skip
from lpx.runtime.emitted.types import I32, I64, OF_C, PTR, VOID

_VARIADIC = {"PyObject_CallMethod"}

_NO_MATCH = -1  # as a pointer
_OFFSET_FLAG = 1 << 63  # PY_VECTORCALL_ARGUMENTS_OFFSET


class EntryEmitter:
    """Emits the call path into a unit. `tuple_items` is the offset of a tuple's first item in this CPython."""

    def __init__(self, unit: Unit, tuple_items: int) -> None:
        self.unit = unit
        self.tuple_items = tuple_items
        self.array_type = unit.imported("PyArray_Type")
        self.none = unit.imported("_Py_NoneStruct")
        self.tuple_type = unit.imported("PyTuple_Type")
        self.type_error = unit.imported("PyExc_TypeError", PTR)
        self.out_name = unit.imported("lpx_out_name")
        self.new_array = unit.extern("PyArray_NewFromDescr", PTR, PTR, PTR, I32, PTR, PTR, PTR, I32, PTR)
        self.api = {
            name: unit.extern(
                name,
                VOID if result == "void" else OF_C[result],
                *(OF_C[parameter] for parameter in parameters),
                variadic=name in _VARIADIC,
            )
            for name, (result, parameters) in CPYTHON_FUNCTIONS.items()
        }
        self.match = MatchEmitter(unit, self.array_type).match
        self.outputs = self._emit_outputs()
        self.allocate = self._emit_allocate()
        self.run = self._emit_run()
        self.results = self._emit_results()
        self.launch = self._emit_launch()
        self.fall_back = self._emit_fall_back()
        self.call = self._emit_call()

    def _emit_outputs(self) -> Any:
        """The given outputs of a call: null if there are none, -1 if the number of arguments is wrong."""
        with self.unit.function("lpx_outputs", PTR, PTR, PTR, PTR, I64, PTR, local=True, inline=True) as (
            code,
            table,
            specialisation,
            args,
            nargs,
            kwnames,
        ):
            inputs = specialisation.get(SPECIALISATION["inputs"])
            outputs = specialisation.get(SPECIALISATION["outputs"])
            after_inputs = args + inputs * 8
            no_match = code.null() + _NO_MATCH
            with code.when(kwnames.eq(0)):
                with code.when(nargs.eq(inputs)):
                    code.ret(0)
                given = nargs.eq(inputs + outputs) & table.get(TABLE["positional"]).ne(0)
                code.ret(code.select(given, after_inputs, no_match))
            with code.when(nargs.ne(inputs)):
                code.ret(no_match)
            out = after_inputs.load(PTR)
            with code.when(out.eq(code.symbol(self.none))):
                code.ret(0)
            with code.when(outputs.eq(1)):
                code.ret(after_inputs)
            is_tuple = out.get(OBJECT["type"]).eq(code.symbol(self.tuple_type))
            with code.when(is_tuple), code.when(out.get(TUPLE_SIZE["size"]).eq(outputs)):
                code.ret(out + self.tuple_items)
            code.ret(no_match)
        return self.unit.named("lpx_outputs")

    def _emit_allocate(self) -> Any:
        """A new array for an output, or null with an exception set."""
        with self.unit.function("lpx_allocate", PTR, PTR, PTR, local=True, inline=True) as (code, argument, extents):
            shape = code.stack(I64, MAX_DIMENSIONS)
            ndim = argument.get(ARGUMENT["ndim"])
            with code.count(ndim.widen()) as i:
                extent = code.variable((argument + ARGUMENT.size + i * 8).load(I64))
                with code.when(extent.get() < 0):
                    extent.set((extents + (code.i64(-1) - extent.get()) * 8).load(I64))
                (shape + i * 8).store(extent.get())
            descr = argument.get(ARGUMENT["descr"])
            code.call(self.api["Py_IncRef"], descr)  # NewFromDescr takes it
            null = code.null()
            array_type = code.symbol(self.array_type)
            code.ret(code.call(self.new_array, array_type, descr, ndim, shape, null, null, 0, null))
        return self.unit.named("lpx_allocate")

    def _emit_run(self) -> Any:
        """Runs the kernel, without the GIL if it is long; its status."""
        enter, leave = (self.unit.extern(name, VOID) for name in ("lpx_long_enter", "lpx_long_leave"))
        with self.unit.function("lpx_run", I32, PTR, PTR, local=True, inline=True) as (code, specialisation, slots):
            entry = specialisation.get(SPECIALISATION["entry"])
            with code.when(specialisation.get(SPECIALISATION["long"]).eq(0)):
                code.ret(code.call_pointer(entry, I32, slots))
            code.call(enter)
            state = code.call(self.api["PyEval_SaveThread"])
            status = code.call_pointer(entry, I32, slots)
            code.call(self.api["PyEval_RestoreThread"], state)
            code.call(leave)
            code.ret(status)
        return self.unit.named("lpx_run")

    def _emit_results(self) -> Any:
        """What a call returns for n output objects, of which it takes the references unless they are borrowed."""
        with self.unit.function("lpx_results", PTR, PTR, I64, I32, local=True) as (code, objects, n, borrowed):
            with code.when(n.eq(0)):
                code.call(self.api["Py_IncRef"], code.symbol(self.none))  # mortal before Python 3.12
                code.ret(code.symbol(self.none))
            with code.when(borrowed.ne(0)), code.count(n) as i:
                code.call(self.api["Py_IncRef"], (objects + i * 8).load(PTR))
            with code.when(n.eq(1)):
                code.ret(objects.load(PTR))
            result = code.call(self.api["PyTuple_New"], n)
            with code.count(n) as i:
                item = (objects + i * 8).load(PTR)
                with code.choose(result.eq(0)) as (failed, made):
                    with failed:
                        code.call(self.api["Py_DecRef"], item)
                    with made:
                        code.call(self.api["PyTuple_SetItem"], result, i, item)
            code.ret(result)
        return self.unit.named("lpx_results")

    def _emit_launch(self) -> Any:
        """Runs a call that matched and makes its result. `kwout` is the object given as `out=`, or null."""
        fail, format_ = self.unit.text("lpx_fail_name", "fail"), self.unit.text("lpx_fail_format", "i")
        with self.unit.function("lpx_launch", PTR, PTR, PTR, PTR, PTR, local=True, inline=True) as (
            code,
            specialisation,
            outs,
            slots,
            kwout,
        ):
            owner = specialisation.get(SPECIALISATION["owner"])
            code.call(self.api["Py_IncRef"], owner)  # the function may lose the specialisation meanwhile
            outputs = specialisation.get(SPECIALISATION["outputs"])
            argument = code.variable(specialisation + SPECIALISATION.size)
            skip(code, argument, specialisation.get(SPECIALISATION["inputs"]))
            made = code.stack_array(PTR, outputs)
            count = code.variable(code.i64(0))
            with code.choose(outs.eq(0)) as (absent, given):
                with absent, code.count(outputs) as i:
                    extents = slots + specialisation.get(SPECIALISATION["buffers"]) * 8
                    array = code.call(self.allocate, argument.get(), extents)
                    with code.when(array.eq(0), likely=False):
                        code.call(self.api["Py_DecRef"], owner)
                        self._drop(code, made, count.get())
                        code.ret(0)
                    (made + i * 8).store(array)
                    count.set(i + 1)
                    (slots + argument.get().get(ARGUMENT["slot"]).widen() * 8).store(array.get(ARRAY["data"]))
                    argument.set(after(argument.get()))
                with given:
                    skip(code, argument, outputs)
            with code.count(specialisation.get(SPECIALISATION["bound"])) as i:
                bound = argument.get() + i * BOUND.size
                (slots + bound.get(BOUND["slot"]) * 8).store(bound.get(BOUND["data"]))
            status = code.call(self.run, specialisation, slots)
            with code.when(status.ne(0), likely=False):
                name, text = code.symbol(fail), code.symbol(format_)
                nothing = code.call(self.api["PyObject_CallMethod"], owner, name, text, status)
                code.call(self.api["Py_DecRef"], nothing)  # null: `fail` always raises
                code.call(self.api["Py_DecRef"], owner)
                self._drop(code, made, count.get())
                code.ret(0)
            code.call(self.api["Py_DecRef"], owner)
            with code.when(outs.eq(0)):
                code.ret(code.call(self.results, made, outputs, 0))
            with code.when(kwout.ne(0)):
                code.call(self.api["Py_IncRef"], kwout)
                code.ret(kwout)
            code.ret(code.call(self.results, outs, outputs, 1))
        return self.unit.named("lpx_launch")

    def _drop(self, code: Code, objects: Value, n: Value) -> None:
        with code.count(n) as i:
            code.call(self.api["Py_DecRef"], (objects + i * 8).load(PTR))

    def _emit_fall_back(self) -> Any:
        """The same call, in Python."""
        message = self.unit.text("lpx_no_fallback", "this function was never initialised")
        with self.unit.function("lpx_fall_back", PTR, PTR, PTR, I64, PTR, local=True) as (
            code,
            self_,
            args,
            nargsf,
            kwnames,
        ):
            fallback = self_.get(INSTANCE["fallback"])
            with code.when(fallback.eq(0), likely=False):
                error = code.symbol(self.type_error).load(PTR)
                code.call(self.api["PyErr_SetString"], error, code.symbol(message))
                code.ret(0)
            code.call(self.api["Py_IncRef"], fallback)  # it may be replaced while it runs
            result = code.call(self.api["PyObject_Vectorcall"], fallback, args, nargsf, kwnames)
            code.call(self.api["Py_DecRef"], fallback)
            code.ret(result)
        return self.unit.named("lpx_fall_back")

    def _emit_call(self) -> Any:
        with self.unit.function("lpx_call", PTR, PTR, PTR, I64, PTR, local=True) as (
            code,
            self_,
            args,
            nargsf,
            kwnames,
        ):
            nargs = nargsf & (_OFFSET_FLAG - 1)
            kwout = code.variable(code.null())
            with code.when(kwnames.ne(0)):
                only_out = code.variable(kwnames.get(TUPLE_SIZE["size"]).eq(1))
                with code.when(only_out.get()):
                    only_out.set((kwnames + self.tuple_items).load(PTR).eq(code.symbol(self.out_name)))
                with code.when(only_out.get().eq(0)):
                    code.ret(code.call(self.fall_back, self_, args, nargsf, kwnames))
                kwout.set((args + nargs * 8).load(PTR))
            table = self_.get(INSTANCE["table"])
            slots = code.stack_array(I64, table.get(TABLE["slots"]))
            spans = code.stack_array(I64, table.get(TABLE["arguments"]) * (SPAN.size // 8))
            pointers = table + TABLE.size
            first = code.i64(1) - table.get(TABLE["exclusive"])
            with code.count(table.get(TABLE["count"]) + 1, first) as i:
                specialisation = (pointers + i * 8).load(PTR)
                outs = code.call(self.outputs, table, specialisation, args, nargs, kwnames)
                with (
                    code.when(outs.ne(code.null() + _NO_MATCH)),
                    code.when(code.call(self.match, specialisation, args, outs, slots, spans).ne(0)),
                ):
                    pointers.store(specialisation)
                    code.ret(code.call(self.launch, specialisation, outs, slots, kwout.get()))
            code.ret(code.call(self.fall_back, self_, args, nargsf, kwnames))
        return self.unit.named("lpx_call")
