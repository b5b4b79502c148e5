"""`lpx.build`: a schedule, a function or tensor expressions to a callable kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lpx import rules
from lpx.driver.compile import compile_function
from lpx.driver.compiled import Compiled
from lpx.driver.flags import with_flags
from lpx.driver.lowered import LoweredKernel
from lpx.errors import ArgumentError, TargetError
from lpx.ir.nodes import Function
from lpx.ir.printer import print_function
from lpx.records import replace
from lpx.runtime import arrays
from lpx.runtime.native import NativeFunction
from lpx.runtime.signature import Signature
from lpx.schedule.schedule import Schedule, create_schedule
from lpx.source import locating_errors
from lpx.target import Target
from lpx.te.lower import lower
from lpx.te.tensor import Tensor

Program = Schedule | Function | Tensor | Sequence[Tensor]


class Kernel(NativeFunction):
    """Machine code of one function: `c = kernel(a, b)`, `kernel(a, b, c)` or `kernel(a, b, out=c)`.

    Takes any arrays of the right dtypes and shapes (NumPy, DLPack); C-contiguous NumPy arrays take the fast path.
    """

    def __init__(self, compiled: Compiled, forms: LoweredKernel, bound: Mapping[str, Any]) -> None:
        super().__init__(self._call)
        self.signature: Signature = compiled.signature
        self.forms = forms
        self._compiled = compiled
        self.specialisation = compiled.link(bound=bound)
        self.add(self.specialisation)

    @property
    def stats(self) -> Mapping[str, float]:
        """Seconds spent per phase; only linking when the code came from the cache."""
        return dict(self._compiled.seconds)

    def explain(self) -> str:
        """What the kernel is and what was decided for it, in words."""
        return "\n".join([f"kernel {self.signature} for {self.forms.target}", *(f"  {n}" for n in self.forms.notes)])

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        with locating_errors():
            return arrays.call(self.specialisation, args, kwargs)

    def __repr__(self) -> str:
        return f"<lpx kernel {self.signature}>"


def build(program: Program, target: str | Target = "cpu", *, fastmath: Sequence[str] = ()) -> Kernel:
    """Compile a schedule as it stands, or a function or tensors with the default schedule.

    Raises: TargetError when `target` cannot run here (see `lower_program`); ArgumentError for a parameter of role
    `constant`; CompileError when the target cannot express the program.
    """
    with locating_errors():
        forms = lower_program(program, target, fastmath=fastmath)
        _check_callable(forms)
        compiled = compile_function(_identity(forms, program), lambda: forms.schedule.function, forms.target)
    named = replace(compiled.signature, name=forms.name)
    bound = dict(zip(_bound_names(named), forms.function.constants.values(), strict=True))
    return Kernel(replace(compiled, signature=named), forms, bound)


def _check_callable(forms: LoweredKernel) -> None:
    if not forms.target.runs_here:
        raise TargetError(
            f"code for {forms.target} does not run here",
            hint="lpx.lower_program shows it; target='cpu' is this machine",
        )
    for param in forms.function.params:
        if param.role == "constant":
            raise ArgumentError(
                f"{forms.name} has a constant parameter, {param.buffer.name}, whose elements are not known",
                hint="give it the role in, or its elements: te.constant",
            )


def lower_program(program: Program, target: str | Target = "cpu", *, fastmath: Sequence[str] = ()) -> LoweredKernel:
    """Every form of a program, for any target: IR, LLVM IR, assembly. Nothing is run."""
    with locating_errors():
        return _lower(program, Target.parse(target), fastmath)


def _lower(program: Program, chosen: Target, fastmath: Sequence[str]) -> LoweredKernel:
    if isinstance(program, Schedule):
        function = with_flags(program.function, fastmath)
        given = program if function is program.function else create_schedule(function)
        return LoweredKernel(function.name, function, chosen, lambda: rules.DefaultSchedule(given))
    function = with_flags(program if isinstance(program, Function) else lower(program), fastmath)
    if function.stage != "scheduled":
        return LoweredKernel(function.name, function, chosen, lambda: rules.DefaultSchedule(create_schedule(function)))
    return LoweredKernel(function.name, function, chosen, lambda: rules.default_schedule(function, chosen))


def _identity(forms: LoweredKernel, program: Program) -> str:
    """The text that identifies a program and who schedules it; constants are in it by a digest of their elements."""
    scheduled_by = "hand" if isinstance(program, Schedule) else "rules"
    return f"{print_function(forms.function)}\nscheduled by {scheduled_by}"


def _bound_names(signature: Signature) -> list[str]:
    return [p.name for p in signature.parameters if p.role == "bound"]
