"""`lpx check`: everything in a model that lpx cannot run, at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lpx.cli.arguments import parse_shapes
from lpx.frontends.onnx.check import check as check_model


def check(
    model: Annotated[Path, typer.Argument(help="ONNX model", exists=True, dir_okay=False)],
    shape: Annotated[
        list[str] | None, typer.Option(help="shape of an input: NAME=1,3,224,224; may be repeated")
    ] = None,
) -> None:
    """List every operator, version, dtype or attribute of a model that lpx does not support.

    The status is 1 when there is any.
    """
    report = check_model(model, parse_shapes(shape or []))
    console = Console(highlight=False, soft_wrap=True)
    kinds = ", ".join(f"{name} {count}" for name, count in report.operators.items())
    console.print(f"{sum(report.operators.values())} nodes: {kinds}", markup=False)
    for why in report.unseen:
        console.print(f"not looked at: {why}", markup=False)
    if not report.faults:
        console.print("all of them are supported")
        return
    table = Table("operator", "operator set", "node", "fault")
    for fault in report.faults:
        table.add_row(fault.operator, str(fault.opset), fault.node, f"{fault.message} {fault.hint}".strip())
    console.print(table)
    raise typer.Exit(1)
