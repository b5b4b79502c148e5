"""The application: its commands, and errors as one message instead of a traceback."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from lpx import knobs
from lpx.cli import bench, check, doctor, inspect, run
from lpx.errors import LpxError

app = typer.Typer(
    name="lpx",
    help="lpx, a tensor compiler: compile, run and look into models and functions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("inspect")(inspect.inspect)
app.command("check")(check.check)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run the command line.

    An error of the user's ends with status 1 and its message; LPX_DEBUG=1 shows the traceback.
    """
    try:
        app()
    except LpxError as error:
        if knobs.debug():
            raise
        Console(stderr=True, highlight=False).print("error:", style="bold red", end=" ")
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
