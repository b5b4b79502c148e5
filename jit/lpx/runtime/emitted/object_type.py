"""The heap type whose instances CPython calls through `entry`: a `PyType_Spec` and the functions it points to.

    lpx_type_spec                       for PyType_FromSpec
    void lpx_set_flags(ptr type, i64 f) adds type flags

Python code subclasses the type and adds methods and attributes; instances have a `__dict__`, weak references, and take
part in garbage collection.
"""

from __future__ import annotations

from typing import Any

from lpx.runtime.emitted.emit import Unit
from lpx.runtime.emitted.entry import EntryEmitter
from lpx.runtime.emitted.layout import HAVE_VECTORCALL, INSTANCE, OBJECT, TABLE, TYPE
from lpx.runtime.emitted.types import I32, I64, PTR, VOID, ir

_BASE_TYPE, _HAVE_GC, _VERSION_TAG = 1 << 10, 1 << 14, 1 << 18
_TP_CALL, _TP_CLEAR, _TP_DEALLOC, _TP_NEW, _TP_TRAVERSE, _TP_MEMBERS, _TP_GETSET = 50, 51, 52, 65, 71, 72, 73
_T_OBJECT, _T_OBJECT_EX, _T_ULONGLONG, _T_PYSSIZET = 6, 16, 18, 19
_READ_ONLY = 1


def emit_type(entry: EntryEmitter) -> None:
    """Emits the type of which `entry.call` is the vectorcall function."""
    unit = entry.unit
    empty = unit.variable("lpx_empty_table", ir.ArrayType(I64, TABLE.size // 8), 8)
    _emit_new(entry, empty)
    _emit_traverse(unit)
    _emit_clear(entry, empty)
    _emit_dealloc(entry)
    _emit_spec(unit)
    with unit.function("lpx_set_flags", VOID, PTR, I64) as (code, type_, flags):
        type_.put(TYPE["flags"], type_.get(TYPE["flags"]) | flags)
        code.ret()


def _emit_new(entry: EntryEmitter, empty: Any) -> None:
    with entry.unit.function("lpx_new", PTR, PTR, PTR, PTR, local=True) as (code, type_, _args, _kwargs):
        made = code.call(entry.api["PyType_GenericAlloc"], type_, 0)
        with code.when(made.ne(0)):
            made.put(INSTANCE["vectorcall"], code.symbol(entry.call))
            made.put(INSTANCE["table"], code.symbol(empty))
        code.ret(made)


def _emit_traverse(unit: Unit) -> None:
    with unit.function("lpx_traverse", I32, PTR, PTR, PTR, local=True) as (code, self, visit, context):
        for field in (OBJECT["type"], INSTANCE["dict"], INSTANCE["fallback"], INSTANCE["live"]):
            held = self.get(field)
            with code.when(held.ne(0)):
                stop = code.call_pointer(visit, I32, held, context)
                with code.when(stop.ne(0)):
                    code.ret(stop)
        code.ret(0)


def _emit_clear(entry: EntryEmitter, empty: Any) -> None:
    with entry.unit.function("lpx_clear", I32, PTR, local=True) as (code, self):
        self.put(INSTANCE["table"], code.symbol(empty))  # before what owns the old one may go
        for field in (INSTANCE["dict"], INSTANCE["fallback"], INSTANCE["live"]):
            held = self.get(field)
            self.put(field, 0)
            code.call(entry.api["Py_DecRef"], held)  # null is fine
        code.ret(0)


def _emit_dealloc(entry: EntryEmitter) -> None:
    unit = entry.unit
    with unit.function("lpx_dealloc", VOID, PTR, local=True) as (code, self):
        code.call(entry.api["PyObject_GC_UnTrack"], self)
        with code.when(self.get(INSTANCE["weakrefs"]).ne(0)):
            code.call(entry.api["PyObject_ClearWeakRefs"], self)
        code.call(unit.named("lpx_clear"), self)
        type_ = self.get(OBJECT["type"])
        code.call(entry.api["PyObject_GC_Del"], self)
        code.call(entry.api["Py_DecRef"], type_)
        code.ret()


def _emit_spec(unit: Unit) -> None:
    members = unit.constants(
        "lpx_members",
        *_member(unit, "__vectorcalloffset__", _T_PYSSIZET, INSTANCE["vectorcall"].offset, _READ_ONLY),
        *_member(unit, "__dictoffset__", _T_PYSSIZET, INSTANCE["dict"].offset, _READ_ONLY),
        *_member(unit, "__weaklistoffset__", _T_PYSSIZET, INSTANCE["weakrefs"].offset, _READ_ONLY),
        *_member(unit, "fallback", _T_OBJECT_EX, INSTANCE["fallback"].offset, 0),
        *_member(unit, "_live", _T_OBJECT, INSTANCE["live"].offset, 0),
        *_member(unit, "_table", _T_ULONGLONG, INSTANCE["table"].offset, 0),
        *(_null(), I32(0), I64(0), I32(0), _null()),
    )
    unit.text("lpx_dict_name", "__dict__")
    getters = unit.constants(
        "lpx_getters",
        *(unit.address("lpx_dict_name"), unit.address("PyObject_GenericGetDict")),
        *(unit.address("PyObject_GenericSetDict"), _null(), _null()),
        *(_null(), _null(), _null(), _null(), _null()),
    )
    slots = unit.constants(
        "lpx_slots",
        *(I32(_TP_NEW), unit.address("lpx_new")),
        *(I32(_TP_DEALLOC), unit.address("lpx_dealloc")),
        *(I32(_TP_TRAVERSE), unit.address("lpx_traverse")),
        *(I32(_TP_CLEAR), unit.address("lpx_clear")),
        *(I32(_TP_CALL), unit.address("PyVectorcall_Call")),
        *(I32(_TP_MEMBERS), unit.address(members.name)),
        *(I32(_TP_GETSET), unit.address(getters.name)),
        *(I32(0), _null()),
    )
    flags = _VERSION_TAG | _BASE_TYPE | _HAVE_GC | HAVE_VECTORCALL
    unit.text("lpx_type_name", "lpx.runtime.native.NativeBase")
    spec = unit.constants(
        "lpx_type_spec",
        unit.address("lpx_type_name"),
        I32(INSTANCE.size),
        I32(0),
        I32(flags),
        unit.address(slots.name),
    )
    spec.linkage = ""


def _member(unit: Unit, name: str, kind: int, offset: int, flags: int) -> tuple[Any, ...]:
    unit.text(f"lpx_member_{name}", name)
    return unit.address(f"lpx_member_{name}"), I32(kind), I64(offset), I32(flags), _null()


def _null() -> Any:
    return ir.Constant(PTR, None)
