"""The page of supported names is what the tables say; `pytest --update-golden` rewrites it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from lpx.frontends.numpy import registry
from lpx.frontends.numpy.registry import name_of
from lpx.frontends.numpy.trace import TracedArray
from lpx.frontends.numpy.tracing import TABLES
from tests.support import ROOT

PAGE = ROOT / "docs" / "numpy_support.md"
PROPERTIES = sorted(
    name for name, value in vars(TracedArray).items() if isinstance(value, property) and hasattr(np.ndarray, name)
)


INTRODUCTION = (
    "What functions compiled by `lpx.jit` may use. Results have NumPy's dtypes (NEP 50) and shapes. Everything"
    " else is refused by name. This page is generated from the tables that `lpx.jit` itself uses."
)
OF_UFUNCS = (
    "With `out=`, `dtype=` and, given `out=`, `where=`. `reduce` and `accumulate` go for `add` and `multiply`,"
    " `reduce` also for `maximum`, `minimum`, `logical_and`, `logical_or`; `outer` for all."
)
OF_INDEXING = (
    "Indexing by integers, slices, `None`, `...`, integer arrays (known or computed) and any mix; assignment"
    " through all of these, and of numbers through masks. An index out of range that is computed is a run-time"
    " error. Basic indices give views, to which assignment changes the array."
)


def page() -> str:
    """The page, from the tables."""
    ufuncs = sorted(f"np.{u.__name__}" for u in registry.UFUNCS)
    functions = sorted(registry.FUNCTIONS, key=name_of)
    refused = sorted(registry.REFUSED, key=name_of)
    return "\n".join(
        [
            "# NumPy in compiled functions",
            "",
            INTRODUCTION,
            "",
            f"## Ufuncs ({len(ufuncs)})",
            "",
            OF_UFUNCS,
            "",
            ", ".join(f"`{name}`" for name in ufuncs),
            "",
            f"## Functions ({len(functions)})",
            "",
            "| function | arguments |",
            "|---|---|",
            *(f"| `{name_of(f)}` | {arguments_of(f)} |" for f in functions),
            "",
            f"## Methods and attributes of arrays ({len(registry.METHODS) + len(PROPERTIES)})",
            "",
            ", ".join(f"`{name}`" for name in sorted([*registry.METHODS, *PROPERTIES])),
            "",
            OF_INDEXING,
            "",
            "## Not supported, and what to do instead",
            "",
            "| functions | instead |",
            "|---|---|",
            *(
                f"| {', '.join(f'`{name_of(f)}`' for f in refused if registry.REFUSED[f] == hint)} | {hint} |"
                for hint in dict.fromkeys(registry.REFUSED[f] for f in refused)
            ),
            "",
        ]
    )


def arguments_of(function: registry.Function) -> str:
    """The parameters a row takes, as NumPy names them."""
    parameters = list(inspect.signature(registry.FUNCTIONS[function]).parameters.values())[1:]
    names = [f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in parameters]
    known = inspect.signature(function).parameters
    has_keywords = any(p.kind is p.VAR_KEYWORD for p in known.values())
    return ", ".join(f"`{name}`" for name in names if has_keywords or name.strip("*") in known)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.2.0", reason="the page lists what NumPy 2.2 has")
def test_the_page_is_what_the_tables_say(request: pytest.FixtureRequest) -> None:
    text = page()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "stale: run pytest --update-golden"


def test_coverage() -> None:
    assert len(TABLES) == 2
    assert len(registry.UFUNCS) >= 60
    assert len(registry.FUNCTIONS) >= 60


@pytest.mark.parametrize("function", registry.FUNCTIONS, ids=name_of)
def test_rows_take_the_parameters_of_numpy(function: registry.Function) -> None:
    """A row has no parameter that NumPy's function lacks, but for those of another function of the same row."""
    row = registry.FUNCTIONS[function]
    known = {p for f, r in registry.FUNCTIONS.items() if r is row for p in inspect.signature(f).parameters}
    has_keywords = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
    taken = list(inspect.signature(row).parameters)
    assert taken[0] in ("trace", "_")
    assert has_keywords or set(taken[1:]) <= known
