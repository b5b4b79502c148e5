"""lpx: a tensor compiler in Python.

Importing this package is cheap: a public name brings its room (and llvmlite, numpy, onnx) in when it is first used.
To add a name, give it a line in `_PUBLIC` and the same import under `TYPE_CHECKING`; a test compares the two.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lpx import errors as errors
    from lpx import knobs as knobs
    from lpx import nn as nn
    from lpx import onnx as onnx
    from lpx import te as te
    from lpx.driver.build import build as build
    from lpx.driver.build import lower_program as lower_program
    from lpx.errors import LpxError as LpxError
    from lpx.frontends.numpy.constants import constant as constant
    from lpx.frontends.numpy.jit import jit as jit
    from lpx.runtime import get_num_threads as get_num_threads
    from lpx.runtime import set_num_threads as set_num_threads
    from lpx.schedule import create_schedule as create_schedule
    from lpx.schedule import replay as replay
    from lpx.target import Target as Target

__version__ = "0.1.0"

_PUBLIC = {  # name -> the module that defines it, or the module itself
    "LpxError": "lpx.errors",
    "Target": "lpx.target",
    "build": "lpx.driver.build",
    "constant": "lpx.frontends.numpy.constants",
    "create_schedule": "lpx.schedule",
    "errors": "lpx.errors",
    "get_num_threads": "lpx.runtime",
    "jit": "lpx.frontends.numpy.jit",
    "knobs": "lpx.knobs",
    "lower_program": "lpx.driver.build",
    "nn": "lpx.nn",
    "onnx": "lpx.onnx",
    "replay": "lpx.schedule",
    "set_num_threads": "lpx.runtime",
    "te": "lpx.te",
}

if not TYPE_CHECKING:  # a checker that saw `__getattr__` would accept every misspelt name

    def __getattr__(name):
        home = _PUBLIC.get(name)
        if home is None:
            raise AttributeError(f"module 'lpx' has no attribute {name!r}")
        module = import_module(home)
        value = module if home == f"lpx.{name}" else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
