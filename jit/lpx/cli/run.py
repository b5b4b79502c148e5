"""`lpx run`: compile a model, run it, time it, compare it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from lpx.cli.arguments import load_arrays, parse_shapes
from lpx.cli.peers import best_peer, difference, median_seconds, run_peer
from lpx.errors import ModelError
from lpx.frontends.onnx.model import Model, load
from lpx.frontends.onnx.samples import sample_inputs
from lpx.runtime.pool import get_num_threads, set_num_threads

Array = NDArray[Any]


def run(
    model: Annotated[Path, typer.Argument(help="ONNX model", exists=True, dir_okay=False)],
    inputs: Annotated[Path | None, typer.Option(help=".npz with an array per input, by its name", exists=True)] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="shape of an input: NAME=1,3,224,224; may be repeated")
    ] = None,
    seed: Annotated[int, typer.Option(help="seed of random inputs")] = 0,
    threads: Annotated[int | None, typer.Option(help="threads; default: one per physical core", min=1, max=256)] = None,
    repeat: Annotated[int, typer.Option(help="calls that are timed", min=1)] = 20,
    compare: Annotated[
        bool, typer.Option("--compare", help="compare with ONNX Runtime, else ONNX's reference")
    ] = False,
    reference: Annotated[bool, typer.Option("--reference", help="compare with ONNX's reference evaluator")] = False,
    tolerance: Annotated[
        float, typer.Option(help="largest difference, relative to the output's largest number")
    ] = 1e-4,
    save: Annotated[Path | None, typer.Option(help="write the outputs to this .npz")] = None,
    target: Annotated[str, typer.Option(help="what to compile for")] = "cpu",
    strict: Annotated[bool, typer.Option("--strict", help="no algorithm that rounds otherwise (Winograd)")] = False,
) -> None:
    """Compile a model and run it, with random inputs unless some are given.

    Prints the outputs' types, the time to compile and the median latency. With --compare the status is 1 when an output
    differs.
    """
    if threads is not None:
        set_num_threads(threads)
    console = Console(highlight=False, soft_wrap=True)
    loaded = load(model, target, strict=strict)
    arrays = load_arrays(inputs) if inputs is not None else sample_inputs(loaded, parse_shapes(shape or []), seed)
    begin = time.perf_counter()
    outputs = loaded.run(arrays)
    first = time.perf_counter() - begin
    _print_tensors(console, "input", arrays)
    _print_tensors(console, "output", outputs)
    latency = _latency(loaded, arrays, repeat)
    count = get_num_threads()
    console.print(f"first call, with compilation: {first:.2f} s")
    console.print(f"lpx: median of {repeat} calls on {count} thread(s): {latency * 1e3:.3f} ms")
    if save is not None:
        np.savez(save, **outputs)
    if compare or reference:
        _compare(console, model, arrays, outputs, count, repeat, latency, tolerance, reference)


def _latency(model: Model, arrays: dict[str, Array], repeat: int) -> float:
    if set(arrays) == {t.name for t in model.inputs}:
        ordered = [np.ascontiguousarray(arrays[t.name]) for t in model.inputs]
        return median_seconds(lambda: model(*ordered), repeat)
    return median_seconds(lambda: model.run(arrays), repeat)


def _print_tensors(console: Console, what: str, tensors: dict[str, Array]) -> None:
    for name, array in tensors.items():
        console.print(f"{what} {name}: {array.dtype}[{', '.join(map(str, array.shape))}]", markup=False)


def _compare(
    console: Console,
    path: Path,
    inputs: dict[str, Array],
    outputs: dict[str, Array],
    threads: int,
    repeat: int,
    latency: float,
    tolerance: float,
    reference: bool,
) -> None:
    peer = "reference" if reference else best_peer()
    expected, peer_latency = run_peer(peer, path, inputs, threads, repeat)
    if peer_latency is not None:
        console.print(
            f"{peer}: median of {repeat} calls on {threads} thread(s): {peer_latency * 1e3:.3f} ms, "
            f"{peer_latency / latency:.2f} times lpx's"
        )
    table = Table("output", "largest difference", "relative", "", title=f"lpx against {peer}")
    failed: list[str] = []
    for (name, own), theirs in zip(outputs.items(), expected, strict=True):
        found = difference(own, theirs)
        good = found.is_within(tolerance)
        verdict = "equal" if good else "DIFFERS" if found.same_type else f"DIFFERS: {theirs.dtype}{list(theirs.shape)}"
        table.add_row(name, f"{found.absolute:.3g}", f"{found.relative:.3g}", verdict)
        if not good:
            failed.append(name)
    console.print(table)
    if failed:
        raise ModelError(f"{len(failed)} of {len(outputs)} outputs differ from {peer}: {', '.join(failed)}")
