"""`python -m lpx_kernels`: list the kernels, show what their default schedules do, run one against its reference."""

from __future__ import annotations

import ast
import re
import timeit
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

import lpx
from lpx_kernels import Case, Draw, Kernel, kernels
from lpx_kernels.registry import as_tuple

app = typer.Typer(help="The kernel library of lpx.", no_args_is_help=True, add_completion=False)

_ARRAY = re.compile(r"(?P<dtype>\w*)\[(?P<extents>(\d+(,\d+)*)?)\]")


class Form(StrEnum):
    """A form of a kernel, from the graph to machine code."""

    graph = "graph"
    te = "te"
    schedule = "schedule"
    ir = "ir"
    llvm = "llvm"
    asm = "asm"
    explain = "explain"


@app.command("list")
def list_kernels() -> None:
    """List the kernels: name, dtypes, what they compute, and the cases that are measured."""
    family = ""
    for kernel in kernels().values():
        if kernel.family != family:
            family = kernel.family
            typer.echo(f"\n{family}")
        typer.echo(f"  {kernel.name} ({', '.join(kernel.dtypes)}): {kernel.summary}")
        for case in kernel.cases:
            typer.echo(f"      {case}")


_Names = Annotated[list[str] | None, typer.Argument(help="kernels; all of them unless given")]
_Arguments = Annotated[
    list[str] | None,
    typer.Argument(help="arguments, say [64,32] [32,8] bias=[8] activation=relu; the first case unless given"),
]
_DType = Annotated[str | None, typer.Option(help="dtype of arrays that say none; the kernel's first unless given")]


@app.command()
def show(
    names: _Names = None,
    form: Annotated[Form, typer.Option(help="which form to print")] = Form.schedule,
    dtype: _DType = None,
) -> None:
    """Print what the default schedule does with the first case of each kernel, or another form of it."""
    for kernel in [_kernel(name) for name in names] if names else kernels().values():
        case = kernel.cases[0]
        positional, named = case.arguments(_dtype(kernel, dtype))
        compiled: Any = kernel.function
        lowered = compiled.lower(*positional, **named)
        text = lowered.explain() if form is Form.explain else getattr(lowered, form)
        typer.echo(f"# {kernel.name} {case}\n{text}")


@app.command()
def run(name: str, arguments: _Arguments = None, dtype: _DType = None) -> None:
    """Run a kernel on random arrays, compare with its reference, and take its time.

    The status is 1 when the result is wrong.
    """
    kernel = _kernel(name)
    case = _case(arguments) if arguments else kernel.cases[0]
    positional, named = case.arguments(_dtype(kernel, dtype))
    got = kernel.function(*positional, **named)
    error, allowed = kernel.error(got, kernel.wanted(positional, named)), kernel.allowed(positional, named)
    results = ", ".join(f"{r.dtype}{list(r.shape)}" for r in as_tuple(got))
    calls, seconds = timeit.Timer(lambda: kernel.function(*positional, **named, out=got)).autorange()
    typer.echo(f"{kernel.name} {case} -> {results}")
    typer.echo(f"off by {error:.2f} machine epsilons, of {allowed:.1f} allowed; {seconds / calls * 1e6:.1f} us a call")
    if error > allowed:
        raise typer.Exit(1)


def _kernel(name: str) -> Kernel:
    found = kernels().get(name)
    if found is None:
        raise typer.BadParameter(f"there is no kernel {name!r}; there are {', '.join(kernels())}", param_hint="NAME")
    return found


def _dtype(kernel: Kernel, dtype: str | None) -> str:
    if dtype is None:
        return kernel.dtypes[0]
    if dtype not in kernel.dtypes:
        raise typer.BadParameter(f"{kernel.name} takes {', '.join(kernel.dtypes)}", param_hint="--dtype")
    return dtype


def _case(texts: Sequence[str]) -> Case:
    """The arguments that texts stand for."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if equals and name.isidentifier():
            named[name] = _argument(value)
        else:
            positional.append(_argument(text))
    return Case(tuple(positional), named)


def _argument(text: str) -> Any:
    match = _ARRAY.fullmatch(text.replace(" ", ""))
    if match is not None:
        return Draw(tuple(int(extent) for extent in match["extents"].split(",") if extent), match["dtype"])
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def main() -> None:
    """Run the command line; an error of the user's ends with status 1 and its message."""
    try:
        app()
    except lpx.LpxError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
