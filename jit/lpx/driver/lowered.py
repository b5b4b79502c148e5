"""Every form a program goes through on its way to machine code, for people to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lpx import codegen, passes
from lpx.driver.compile import constants_as_parameters, machine_of
from lpx.driver.preparation import separate
from lpx.ir.nodes import Function
from lpx.ir.printer import print_function
from lpx.records import record, replace
from lpx.runtime import objects
from lpx.target import Target

if TYPE_CHECKING:
    from lpx.codegen.module import GeneratedModule
    from lpx.rules import DefaultSchedule
    from lpx.schedule.schedule import Schedule


@dataclass(frozen=True)
class LoweredKernel:
    """One kernel. Not slotted: each form is made when it is first asked for, the schedule by `make`.

    `te` is the program before scheduling and `schedule` what was done to it, `notes` in words.
    """

    name: str
    function: Function
    target: Target
    make: Callable[[], DefaultSchedule]

    @property
    def schedule(self) -> Schedule:
        """The schedule that code is made of."""
        return self._made.schedule

    @property
    def notes(self) -> Sequence[str]:
        """What the rules did, in words; nothing where the schedule was given."""
        return self._made.notes

    @property
    def te(self) -> str:
        """The loop nests of the tensor expression, unscheduled."""
        return print_function(self.function)

    @cached_property
    def ir(self) -> str:
        """The flat IR that code is generated from."""
        return print_function(self._flat)

    @cached_property
    def llvm(self) -> str:
        """LLVM IR as generated, before LLVM optimises it."""
        return self._generated.text

    @cached_property
    def asm(self) -> str:
        """Assembly for the target."""
        machine = machine_of(self.target)
        module = objects.parse_module(self.llvm)
        for definition in self._generated.definitions:
            objects.link_in(module, definition, machine)
        objects.optimise(module, machine)
        return str(machine.emit_assembly(module))

    @cached_property
    def _generated(self) -> GeneratedModule:
        return codegen.lower_to_llvm(self._flat, self.target)

    @cached_property
    def _made(self) -> DefaultSchedule:
        return self.make()

    @cached_property
    def _flat(self) -> Function:
        function = replace(self.schedule.function, name=self.name)
        return passes.lower(separate(constants_as_parameters(function)).main, self.target).function


@record
class Lowered:
    """The forms of a compiled function: its graph, and its kernels in running order. A property of all kernels joins
    their texts.
    """

    graph: str
    kernels: Sequence[LoweredKernel]
    stats: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def te(self) -> str:
        """The tensor expressions, unscheduled."""
        return "\n".join(k.te for k in self.kernels)

    @property
    def schedule(self) -> str:
        """The schedules, as Python."""
        return "\n".join(f"# {k.name}\n{k.schedule.trace.as_python()}" for k in self.kernels)

    @property
    def ir(self) -> str:
        """The flat IR."""
        return "\n".join(k.ir for k in self.kernels)

    @property
    def llvm(self) -> str:
        """LLVM IR before optimisation."""
        return "\n".join(k.llvm for k in self.kernels)

    @property
    def asm(self) -> str:
        """Assembly."""
        return "\n".join(k.asm for k in self.kernels)

    def explain(self) -> str:
        """What was decided, in words."""
        lines: list[str] = []
        for kernel in self.kernels:
            lines.append(f"kernel {kernel.name} for {kernel.target}")
            lines += [f"  {note}" for note in kernel.notes]
        return "\n".join(lines)
