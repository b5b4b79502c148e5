"""LLVM modules to object files to code."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lpx import knobs
from lpx.errors import InternalError
from lpx.runtime import elf, objects
from lpx.runtime.emitted import emit_support
from lpx.runtime.emitted.emit import Code, Unit, Value
from lpx.runtime.emitted.record import Record
from lpx.runtime.emitted.types import I32, I64, PTR
from lpx.runtime.support import KERNEL_SYMBOLS, compile_support, link_kernel
from tests.runtime import kernels
from tests.support import Child

ANSWER = "define i32 @answer() { ret i32 42 }"


def call(code: objects.LinkedObject, name: str, *arguments: int) -> int:
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))
    return int(signature(code.address(name))(*arguments))


def test_text_to_code() -> None:
    code = objects.link_object(objects.compile_module(ANSWER), ["answer"])
    assert call(code, "answer") == 42


def test_object_bytes_link_more_than_once() -> None:
    data = objects.compile_module(ANSWER)
    first, second = (objects.link_object(data, ["answer"]) for _ in range(2))
    assert first.address("answer") != second.address("answer")
    assert call(first, "answer") == call(second, "answer") == 42


def test_same_module_same_bytes() -> None:
    assert objects.compile_module(ANSWER) == objects.compile_module(ANSWER)


def test_llvm_rejects() -> None:
    with pytest.raises(InternalError, match="LLVM rejects the generated code"):
        objects.compile_module("define i32 @f() { ret i64 0 }")


def test_unresolved_symbols_are_named() -> None:
    text = """
    declare float @__truncdfhf3(double)
    declare i32 @lpx_no_such_thing(i32)
    declare ptr @memchr(ptr, i32, i64)
    define i32 @f(i32 %x) {
        %y = call i32 @lpx_no_such_thing(i32 %x)
        %z = call float @__truncdfhf3(double 1.0)
        %p = call ptr @memchr(ptr null, i32 0, i64 0)
        ret i32 %y
    }"""
    with pytest.raises(
        InternalError, match=r"do not exist: (lpx_no_such_thing, __truncdfhf3|__truncdfhf3, lpx_no_such_thing)$"
    ):
        link_kernel(objects.compile_module(text), ("f",))


def test_missing_half_conversion_is_an_error_and_not_a_crash(child: Child) -> None:
    code = """
from lpx import knobs
from lpx.runtime import elf, objects
text = "define void @f(ptr %p, double %x) { %h = fptrunc double %x to half store half %h, ptr %p ret void }"
machine = objects.target_machine(objects.host_triple(), "x86-64")
try:
    objects.link_object(objects.compile_module(text, machine), ["f"])
except Exception as error:
    print(error)
"""
    assert child(code).strip() == "generated code needs functions that do not exist: __truncdfhf2"


def test_garbage_is_an_error() -> None:
    with pytest.raises(InternalError, match="cannot load the object file"):
        objects.link_object(b"not an object file", ["f"])


def test_export_that_is_not_there() -> None:
    with pytest.raises(InternalError):
        objects.link_object(objects.compile_module(ANSWER), ["question"])
    with pytest.raises(InternalError, match="question is not exported by this object; it exports answer"):
        objects.link_object(objects.compile_module(ANSWER), ["answer"]).address("question")


def test_kernels_resolve_the_support_library() -> None:
    unit = Unit("uses", objects.host_triple())
    with unit.function("uses", I64) as (code,):
        total = code.variable(code.i64(0))
        for name in KERNEL_SYMBOLS:
            total.set(total.get() + code.symbol(unit.imported(name)).address())
        code.ret(total.get())
    assert call(link_kernel(objects.compile_module(unit), ("uses",)), "uses") != 0


def test_loops_are_left_as_scheduled() -> None:
    module = objects.parse_module(
        """
    define void @axpy(ptr noalias %x, ptr noalias %y, i64 %n) {
    entry:
      br label %loop
    loop:
      %i = phi i64 [ 0, %entry ], [ %next, %loop ]
      %px = getelementptr float, ptr %x, i64 %i
      %py = getelementptr float, ptr %y, i64 %i
      %vx = load float, ptr %px
      %vy = load float, ptr %py
      %sum = fadd float %vx, %vy
      store float %sum, ptr %py
      %next = add i64 %i, 1
      %more = icmp slt i64 %next, %n
      br i1 %more, label %loop, label %done
    done:
      ret void
    }"""
    )
    objects.optimise(module, objects.target_machine())
    text = str(module)
    assert text.count("fadd float") == 1
    assert "x float>" not in text


def test_optimises() -> None:
    module = objects.parse_module(
        """
    define internal i64 @helper(i64 %x) alwaysinline { %y = mul i64 %x, 3 ret i64 %y }
    define i64 @f(i64 %x) {
      %slot = alloca i64
      store i64 %x, ptr %slot
      %a = load i64, ptr %slot
      %b = call i64 @helper(i64 %a)
      ret i64 %b
    }"""
    )
    objects.optimise(module, objects.target_machine())
    assert "alloca" not in str(module)
    assert "helper" not in str(module)


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"])
def test_support_compiles_for_each_platform(triple: str) -> None:
    data = compile_support(triple)
    assert data[:5] == b"\x7fELF\x02"
    needed = set(elf.undefined_symbols(data))
    assert needed <= {
        "clock_gettime", "free", "madvise", "posix_memalign", "pthread_create", "pthread_detach", "pthread_sigmask",
        "sigaction", "sigfillset", "syscall", "_GLOBAL_OFFSET_TABLE_", "memset",
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler to link with")
def test_support_links_into_a_shared_library(tmp_path: Path) -> None:
    """Ahead-of-time libraries take the same object file and run without Python."""
    (tmp_path / "support.o").write_bytes(compile_support(objects.host_triple()))
    library = tmp_path / "support.so"
    done = subprocess.run(["cc", "-shared", "-o", library, tmp_path / "support.o"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = ctypes.CDLL(str(library))
    loaded.lpx_pool_configure(3, 0)
    assert loaded.lpx_pool_size() == 3


def test_undefined_symbols() -> None:
    data = kernels.compiled("uses", _calls_puts)
    assert elf.undefined_symbols(data) == ["puts"]
    assert elf.undefined_symbols(b"\x7fMZ") == []


def _calls_puts(unit: Unit, code: Code, slots: Value) -> None:
    code.ret(code.call(unit.extern("puts", I32, PTR), slots))


def test_record_layout() -> None:
    record = Record(8, a="i32", b="i64", c="i32", p="ptr")
    assert [record[name].offset for name in "abcp"] == [8, 16, 24, 32]
    assert record.size == 40
    memory = bytearray(record.size)
    record.write(memory, 0, a=-1, p=5)
    assert memory[8:12] == b"\xff" * 4
    assert memory[32:40] == (5).to_bytes(8, "little")


def test_function_must_return() -> None:
    unit = Unit("bad", objects.host_triple())
    with pytest.raises(ValueError, match="bad does not return"), unit.function("bad", I32):
        pass


def test_emitted_support_is_verified_ir() -> None:
    module: Any = objects.parse_module(emit_support(objects.host_triple()))
    defined = {function.name for function in module.functions if not function.is_declaration}
    assert {name for name in KERNEL_SYMBOLS if name != "lpx_interrupted"} <= defined


def test_perf_map_names_local_functions_too() -> None:
    text = """
    define internal i64 @local(i64 %x) noinline { %y = mul i64 %x, %x ret i64 %y }
    define i64 @outer(i64 %x) { %y = call i64 @local(i64 %x) %z = add i64 %y, 1 ret i64 %z }"""
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    before = path.read_text() if path.exists() else ""
    try:
        with knobs.override(perf_map=1):
            code = objects.link_object(objects.compile_module(text), ["outer"])
        lines = [line.split() for line in path.read_text()[len(before) :].splitlines()]
    finally:
        path.write_text(before) if before else path.unlink()
    found = {name: (int(start, 16), int(size, 16)) for start, size, name in lines}
    assert found.keys() == {"lpx:local", "lpx:outer"}
    assert found["lpx:outer"][0] == code.address("outer")
    assert call(code, "outer", 5) == 26
    square = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(found["lpx:local"][0])
    assert square(7) == 49
    assert all(0 < size < 100 for _, size in found.values())
