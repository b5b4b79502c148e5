"""Every legality check matters: what it refuses is not refused, or by something else, when it is switched off.

Checks are found by their names, `check_*` and `_check_*`, in all of `lpx.schedule`; a new one needs a case in
`refusals.py`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import traceback
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, cast

import pytest

import lpx.schedule
from lpx.errors import LpxError, VerifyError
from lpx.ir import traverse
from lpx.ir.nodes import Store
from lpx.ir.verify import verify
from lpx.schedule import queries
from lpx.schedule.errors import MismatchError, RefusedError
from lpx.schedule.testing import check_equivalent
from tests.fuzz.refusals import CASES, Case

Check = Callable[..., Any]
Home = ModuleType | type
UNSOUND = "wrong result"


def _modules() -> list[ModuleType]:
    package = lpx.schedule
    return [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]


def _homes() -> list[Home]:
    """Every module of schedules, and the classes defined in them."""
    homes: list[Home] = []
    for module in _modules():
        homes.append(module)
        homes += [c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__]
    return homes


def _checks() -> dict[str, list[Check]]:
    """The checks by name."""
    found: dict[str, list[Check]] = {}
    for home in _homes():
        for name, value in vars(home).items():
            own = isinstance(value, FunctionType) and value.__module__ == getattr(home, "__module__", home.__name__)
            if own and name.lstrip("_").startswith("check_"):
                found.setdefault(name, []).append(cast("Check", value))
    return found


CHECKS = _checks()


def test_every_check_has_a_case() -> None:
    assert set(CHECKS) - {case.check for case in CASES} == set()


def _plausible(check: str, arguments: inspect.BoundArguments) -> object:
    """What a check that gives something might give for what it refuses."""
    values = arguments.arguments
    match check:
        case "check_injective":
            return _Places(values["mapping"], values["buffer"].shape)
        case "check_pointwise":
            return next(s for s in traverse.walk(values["block"]) if isinstance(s, Store))
        case "check_one_buffer" | "check_single_output":
            return min(traverse.written_buffers(values["block"]), key=lambda b: b.name)
        case "check_loop_above":
            return list(values["around"])
        case "check_read_inside":
            return [a for a in _reads(values["function"], values["block"]) if values["loop"] in a.path]
        case "check_reads":
            return []
        case _:
            return None


class _Places:
    """An index map taken at its word."""

    def __init__(self, mapping: Any, shape: tuple[Any, ...]) -> None:
        self.extents = mapping(*shape)


def _reads(function: Any, block: Any) -> list[Any]:
    outputs = traverse.written_buffers(block)
    found = queries.accesses(function.body)
    return [a for a in found if a.buffer in outputs and not a.is_write and block not in a.path]


def _switch_off(monkeypatch: pytest.MonkeyPatch, check: str) -> None:
    """Let every check of this name pass whatever it would refuse."""
    for original in CHECKS[check]:

        def lenient(*args: Any, original: Check = original, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except (RefusedError, MismatchError):
                return _plausible(check, inspect.signature(original).bind(*args, **kwargs))

        for home in _homes():
            for name, value in list(vars(home).items()):
                if value is original:
                    monkeypatch.setattr(home, name, lenient)


def _outcome(case: Case) -> tuple[str, list[str]]:
    """What comes of a case: an error's message and the functions it went through, or what is wrong with the result."""
    try:
        s = case.attempt()
    except VerifyError as error:
        return f"{UNSOUND}: {error.message}", []
    except LpxError as error:
        return error.message, [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    except Exception as error:  # what a check keeps out may break anything
        return f"{type(error).__name__}: {error}", []
    if s is None:
        return "accepted", []
    try:
        verify(s.function)
        check_equivalent(s.original, s.function, {"n": 5})
    except LpxError as error:
        return f"{UNSOUND}: {error.message}", []
    return "accepted", []


@pytest.mark.parametrize("case", CASES, ids=[case.attempt.__name__ for case in CASES])
def test_a_check_refuses_what_else_would_pass(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    message, functions = _outcome(case)
    assert case.check in functions, f"refused by {functions[-1:]}: {message}"
    _switch_off(monkeypatch, case.check)
    without, _ = _outcome(case)
    print(case.check, "->", without.splitlines()[0][:150])
    assert without != message
    if case.is_unsound:
        assert without.startswith(UNSOUND)
