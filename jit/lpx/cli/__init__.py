"""The command `lpx`: run, inspect and check models, and look at this machine."""

from lpx.cli.app import main

__all__ = ["main"]
