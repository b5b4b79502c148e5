"""`lpx bench`: a kernel or a function of yours next to the libraries that are installed."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lpx import dtypes
from lpx.cli.arguments import load_arrays, load_object, parse_array, parse_sizes
from lpx.cli.comparison import libraries, operations, timing
from lpx.cli.comparison.program import Array, Function, Program, aligned_copy
from lpx.cli.comparison.result import Result, duration
from lpx.errors import ArgumentError, LpxError
from lpx.runtime.pool import get_num_threads, set_num_threads

KNOWN = ", ".join(operations.KERNELS)


def bench(
    program: Annotated[str, typer.Argument(help=f"a kernel ({KNOWN}), or FILE.py:NAME of a function")],
    shape: Annotated[str, typer.Option(help="sizes of a kernel: M=128,N=3072,K=768, or 1536x128 in order")] = "",
    dtype: Annotated[str, typer.Option(help="element type of a kernel")] = "float32",
    constant: Annotated[bool, typer.Option("--constant", help="a kernel's weights are constants")] = False,
    arg: Annotated[list[str] | None, typer.Option(help="an argument of a function: float32[64,128]; repeated")] = None,
    example_inputs: Annotated[
        Path | None, typer.Option(help=".npz with an array per parameter of a function", exists=True)
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="threads of all libraries; default: one per physical core", min=1, max=256)
    ] = None,
    seconds: Annotated[float, typer.Option(help="time to spend on timing", min=0)] = timing.SECONDS,
    tolerance: Annotated[
        float | None, typer.Option(help="largest difference, relative to the result's largest number")
    ] = None,
    peers: Annotated[str, typer.Option("--libraries", help="compare with these")] = ",".join(libraries.NAMES),
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
) -> None:
    """Time a kernel, or a NumPy function compiled by lpx.jit, next to other libraries, in turns and after checking.

    A function is run by NumPy, and by numba where that compiles it; kernels are known to PyTorch, JAX and ONNX Runtime
    as well. Ratios are of a library's time to that of lpx: above 1, lpx is faster.
    """
    if threads is not None:
        set_num_threads(threads)
    if ".py:" in program:
        subject = _of_function(load_object(program), program, arg or [], example_inputs)
    else:
        subject = _of_kernel(program, shape, dtype, constant)
    with libraries.on_the_same_threads(_chosen(peers)) as found:
        left_out: dict[str, str] = {}
        candidates = found.candidates(subject, left_out)
        timing.check(candidates, subject.tolerance if tolerance is None else tolerance)
        times = timing.interleave(candidates, seconds)
    result = Result(subject.name, {name: median(rounds) for name, rounds in times.items()})
    if as_json:
        print(json.dumps(_described(result, left_out), indent=2))
    else:
        _print(result, subject, left_out)


def _chosen(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in libraries.NAMES]
    if unknown:
        raise typer.BadParameter(
            f"there is no library {unknown[0]!r}; there are {', '.join(libraries.NAMES)}", param_hint="--libraries"
        )
    return names


def _of_kernel(name: str, shape: str, dtype: str, constant: bool) -> Program:
    """The program of a known kernel, whose sizes are the positional parameters of what makes it."""
    make = operations.KERNELS.get(name)
    if make is None:
        raise typer.BadParameter(f"there is no kernel {name!r}; there are {KNOWN}", param_hint="PROGRAM")
    parameters = inspect.signature(make).parameters.values()
    try:
        element = dtypes.parse(dtype)
    except LpxError as error:
        raise typer.BadParameter(error.message, param_hint="--dtype") from None
    if not element.is_float:
        raise typer.BadParameter(f"kernels compute with floats, not with {dtype}", param_hint="--dtype")
    options: dict[str, Any] = {"dtype": dtype, "constant": constant}
    for option, value in options.items():
        if option not in {p.name for p in parameters} and value not in ("float32", False):
            raise typer.BadParameter(f"{name} takes none", param_hint=f"--{option}")
    sizes = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    given = parse_sizes(shape, [p.name for p in sizes])
    missing = [p.name for p in sizes if p.default is p.empty and p.name not in given]
    if missing:
        every = ",".join(f"{p.name}=..." if p.default is p.empty else f"{p.name}={p.default}" for p in sizes)
        raise typer.BadParameter(f"{name} needs {', '.join(missing)}; write {every}", param_hint="--shape")
    return make(**given, **{o: v for o, v in options.items() if o in {p.name for p in parameters}})


def _of_function(found: Any, text: str, args: Sequence[str], inputs: Path | None) -> Program:
    """The program of a plain NumPy function, which may have been given to lpx.jit already."""
    function: Function = inspect.unwrap(found) if callable(found) else found
    if not inspect.isfunction(function):
        raise ArgumentError(f"{text} is a {type(found).__name__}", hint="name a function of NumPy arrays")
    arrays = _by_parameter(function, load_arrays(inputs)) if inputs is not None else _parsed(args)
    if not arrays:
        raise typer.BadParameter("give an array for each parameter", param_hint="--example-inputs or --arg")
    aligned = {name: aligned_copy(array) for name, array in arrays.items()}
    return Program(text.rpartition(":")[2], aligned, lpx=function, numpy=function, numba=function, tolerance=1e-4)


def _parsed(texts: Sequence[str]) -> dict[str, Array]:
    return {f"argument {position}": parse_array(text, position) for position, text in enumerate(texts)}


def _by_parameter(function: Callable[..., Any], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays in the order of the parameters that they are named after."""
    names = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    if sorted(names) != sorted(arrays):
        raise typer.BadParameter(
            f"the file has {', '.join(arrays)}; the parameters are {', '.join(names)}", param_hint="--example-inputs"
        )
    return {name: arrays[name] for name in names}


def _described(result: Result, left_out: Mapping[str, str]) -> dict[str, Any]:
    peer = result.best_peer
    return {
        "program": result.name,
        "threads": get_num_threads(),
        "seconds": dict(result.seconds),
        "best_peer": peer or None,
        "ratio": result.ratio if peer else None,
        "left_out": dict(left_out),
        "libraries": libraries.describe(),
    }


def _print(result: Result, subject: Program, left_out: Mapping[str, str]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    rates = subject.flop is not None
    columns = ["library", "median", *(["GFLOP/s"] if rates else []), "ratio to lpx"]
    table = Table(*columns, title=f"{result.name}, {get_num_threads()} thread(s)")
    for name, taken in sorted(result.seconds.items(), key=lambda item: item[1]):
        rate = [f"{subject.flop / taken / 1e9:.1f}"] if subject.flop is not None else []
        ratio = "" if name == "lpx" else f"{taken / result.seconds['lpx']:.2f}"
        table.add_row(name, duration(taken), *rate, ratio, style="bold" if name == "lpx" else "")
    console.print(table)
    for name, why in left_out.items():
        console.print(f"{name} is left out: {why}", markup=False)
