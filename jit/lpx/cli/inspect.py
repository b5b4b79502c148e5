"""`lpx inspect`: the forms a model or a function goes through on its way to machine code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from lpx.cli.arguments import load_arrays, load_object, parse_array, parse_shapes
from lpx.driver.build import lower_program
from lpx.driver.lowered import Lowered, LoweredKernel
from lpx.errors import ArgumentError
from lpx.frontends.numpy.jit import JitFunction, jit
from lpx.frontends.onnx.model import load
from lpx.frontends.onnx.samples import sample_inputs
from lpx.ir.nodes import Function
from lpx.schedule.schedule import Schedule
from lpx.te.tensor import Tensor


class Form(StrEnum):
    """A form of a program, from the graph to machine code."""

    graph = "graph"
    te = "te"
    schedule = "schedule"
    ir = "ir"
    llvm = "llvm"
    asm = "asm"
    explain = "explain"


def inspect(
    program: Annotated[str, typer.Argument(help="an ONNX model, or FILE.py:NAME of a function, tensor or schedule")],
    form: Annotated[Form, typer.Option(help="which form to print")] = Form.explain,
    kernel: Annotated[str | None, typer.Option(help="only kernels whose name contains this")] = None,
    arg: Annotated[list[str] | None, typer.Option(help="an argument of a function: float32[64,128]; repeated")] = None,
    inputs: Annotated[Path | None, typer.Option(help=".npz with an array per input of a model", exists=True)] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="shape of a model's input: NAME=1,3,224,224; repeated")
    ] = None,
    target: Annotated[str, typer.Option(help="what to compile for")] = "cpu",
) -> None:
    """Print one form of a model or a function: its graph, tensor expressions, schedule, IR, LLVM IR or assembly."""
    lowered = _lower(program, arg or [], inputs, shape or [], target)
    if kernel is not None:
        chosen = [k for k in lowered.kernels if kernel in k.name]
        if not chosen:
            names = ", ".join(sorted({k.name for k in lowered.kernels}))
            raise ArgumentError(f"no kernel has {kernel!r} in its name", hint=f"there are {names}")
        lowered = Lowered(lowered.graph, chosen, lowered.stats)
    sys.stdout.write(_FORMS[form](lowered).rstrip("\n") + "\n")


_FORMS: dict[Form, Callable[[Lowered], str]] = {
    Form.graph: lambda lowered: lowered.graph,
    Form.te: lambda lowered: lowered.te,
    Form.schedule: lambda lowered: lowered.schedule,
    Form.ir: lambda lowered: lowered.ir,
    Form.llvm: lambda lowered: lowered.llvm,
    Form.asm: lambda lowered: lowered.asm,
    Form.explain: lambda lowered: lowered.explain(),
}


def _lower(program: str, args: Sequence[str], inputs: Path | None, shapes: Sequence[str], target: str) -> Lowered:
    if ".py:" in program:
        return _lower_python(load_object(program), program, args, target)
    model = load(program, target)
    arrays = load_arrays(inputs) if inputs is not None else sample_inputs(model, parse_shapes(shapes))
    return model.lower(arrays)


def _lower_python(found: Any, program: str, args: Sequence[str], target: str) -> Lowered:
    arrays = [parse_array(text, position) for position, text in enumerate(args)]
    if isinstance(found, JitFunction):
        return found.lower(*arrays)
    if isinstance(found, LoweredKernel):
        return Lowered("", [found])
    if isinstance(found, Schedule | Function | Tensor):
        return Lowered("", [lower_program(found, target)])
    if callable(found):
        return jit(target=target)(found).lower(*arrays)
    raise ArgumentError(
        f"{program} is a {type(found).__name__}", hint="name a function, a te tensor, a schedule or a kernel"
    )
