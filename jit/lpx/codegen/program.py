"""Programs: the entry function of a model, which runs kernels one after another on planned memory.

A program has the calling convention of a kernel, `i32 NAME(ptr args)`, and calls kernels by theirs. What each kernel
gets is known when the program is made: parameters of the program, and places in one workspace.
"""

from __future__ import annotations

from collections.abc import Sequence

from lpx.codegen.checks import OUT_OF_MEMORY
from lpx.records import record


@record
class Parameter:
    """The buffer that the program itself is given in slot `index`."""

    index: int


@record
class Workspace:
    """The memory at byte `offset` of the workspace."""

    offset: int


@record
class Step:
    """One kernel call. `first_check` is how many run-time checks the steps before it have."""

    kernel: str
    slots: tuple[Parameter | Workspace, ...]
    first_check: int = 0


def emit_program(name: str, parameters: int, workspace: int, steps: Sequence[Step]) -> str:
    """LLVM IR of the program `name` over `parameters` buffers and `workspace` bytes.

    It returns what its first failing kernel returned, checks renumbered over the whole program.
    """
    lines = [f"declare i32 @{kernel}(ptr)" for kernel in dict.fromkeys(s.kernel for s in steps)]
    lines += ["declare ptr @lpx_scratch_acquire(i64)", "declare void @lpx_scratch_release(ptr)", ""]
    lines += [f"define i32 @{name}(ptr %args) {{", "entry:"]
    lines += _load_parameters(parameters)
    lines.append(f"  %slots = alloca [{max((len(s.slots) for s in steps), default=1)} x ptr], align 8")
    lines += _acquire(workspace)
    lines.append("  br label %step0")
    for number, step in enumerate(steps):
        lines += _call(number, step)
    lines += [f"step{len(steps)}:", "  br label %done"]
    lines += _fail(steps)
    statuses = ", ".join([f"[ 0, %step{len(steps)} ]", *(f"[ %numbered{n}, %fail{n} ]" for n in range(len(steps)))])
    lines += ["done:", f"  %status = phi i32 {statuses}"]
    lines += ["  call void @lpx_scratch_release(ptr %workspace)"] if workspace else []
    lines += ["  ret i32 %status", "}"]
    return "\n".join(lines) + "\n"


def _load_parameters(count: int) -> list[str]:
    lines: list[str] = []
    for index in range(count):
        lines.append(f"  %place{index} = getelementptr inbounds ptr, ptr %args, i64 {index}")
        lines.append(f"  %param{index} = load ptr, ptr %place{index}, align 8")
    return lines


def _acquire(workspace: int) -> list[str]:
    if not workspace:
        return []
    return [
        f"  %workspace = call ptr @lpx_scratch_acquire(i64 {workspace})",
        "  %missing = icmp eq ptr %workspace, null",
        "  br i1 %missing, label %no_memory, label %start",
        "no_memory:",
        f"  ret i32 {OUT_OF_MEMORY}",
        "start:",
    ]


def _call(number: int, step: Step) -> list[str]:
    lines = [f"step{number}:"]
    for index, slot in enumerate(step.slots):
        if isinstance(slot, Parameter):
            pointer = f"%param{slot.index}"
        else:
            pointer = f"%buffer{number}.{index}"
            lines.append(f"  {pointer} = getelementptr inbounds i8, ptr %workspace, i64 {slot.offset}")
        lines.append(f"  %slot{number}.{index} = getelementptr inbounds ptr, ptr %slots, i64 {index}")
        lines.append(f"  store ptr {pointer}, ptr %slot{number}.{index}, align 8")
    lines.append(f"  %status{number} = call i32 @{step.kernel}(ptr %slots)")
    lines.append(f"  %ok{number} = icmp eq i32 %status{number}, 0")
    lines.append(f"  br i1 %ok{number}, label %step{number + 1}, label %fail{number}")
    return lines


def _fail(steps: Sequence[Step]) -> list[str]:
    lines: list[str] = []
    for number, step in enumerate(steps):
        lines.append(f"fail{number}:")
        lines.append(f"  %check{number} = icmp sgt i32 %status{number}, 0")
        lines.append(f"  %shift{number} = select i1 %check{number}, i32 {step.first_check}, i32 0")
        lines.append(f"  %numbered{number} = add i32 %status{number}, %shift{number}")
        lines.append("  br label %done")
    return lines
