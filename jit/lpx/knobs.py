"""Every `LPX_*` environment variable, in one typed table; the only place that reads `os.environ`.

    knobs.num_threads()                      # parsed value of LPX_NUM_THREADS, None when unset
    with knobs.override(num_threads=1): ...  # for the block, as if LPX_NUM_THREADS=1 were set
    knobs.KNOBS                              # the table, for documentation and `lpx doctor`

A variable is read when it is asked for, so a change of the environment takes effect at once; the last text is not
parsed again. An empty variable counts as unset. An illegal value is a `KnobError` naming the variable and what would be
legal.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from lpx.errors import KnobError

T = TypeVar("T")


class Knob(Generic[T]):
    """One variable; call it for its present value.

    `parse` turns the text of the variable into a value and raises `ValueError` for a text that is not legal; `legal`
    says in words what is; `default` makes the value of an unset variable.
    """

    __slots__ = ("_memo", "_parse", "default", "doc", "legal", "name")

    def __init__(self, name: str, parse: Callable[[str], T], default: Callable[[], T], legal: str, doc: str) -> None:
        self.name = name
        self.default = default
        self.legal = legal
        self.doc = doc
        self._parse = parse
        self._memo: tuple[str, T] | None = None

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return f"LPX_{self.name.upper()}"

    def __call__(self) -> T:
        """The value now; raises `KnobError` for an illegal text."""
        text = _text_of(self.variable)
        if not text:
            return self.default()
        memo = self._memo  # one tuple, so that a race between threads costs a second parse and nothing else
        if memo is None or memo[0] != text:
            memo = self._memo = (text, self.parse(text))
        return memo[1]

    def parse(self, text: str) -> T:
        """The value that `text` stands for; raises `KnobError` for an illegal one."""
        try:
            return self._parse(text)
        except ValueError:
            raise KnobError(f"{self.variable}={text!r} is not legal", hint=f"{self.variable} is {self.legal}") from None


_overrides: Mapping[str, str] = {}


def _text_of(variable: str) -> str:
    text = _overrides.get(variable)
    return os.environ.get(variable, "") if text is None else text


def _flag(text: str) -> bool:
    match text.lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off":
            return False
        case _:
            raise ValueError


def _thread_count(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 1024:
        raise ValueError
    return count


def _pass_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError
    return names


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _user_cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("lpx", appauthor=False)


def _no_names() -> tuple[str, ...]:
    return ()


def _off() -> bool:
    return False


def _unset() -> None:
    return None


def _flag_knob(name: str, doc: str) -> Knob[bool]:
    return Knob(name, _flag, _off, "1 or 0 (also true/false, yes/no, on/off)", doc)


debug = _flag_knob("debug", "Keep internal frames in tracebacks and internal names in printed programs.")
verify = _flag_knob(
    "verify", "Run the IR verifier after every pass and every schedule primitive, not only at the ends."
)
time_passes = _flag_knob("time_passes", "Print the time each pass and each LLVM stage took.")
perf_map = _flag_knob("perf_map", "Name compiled kernels to Linux perf (/tmp/perf-PID.map) and to gdb.")
dump = Knob[Path | None](
    "dump", _path, _unset, "a folder", "Write the program after each pass, LLVM IR, assembly and PTX into this folder."
)
print_after = Knob(
    "print_after",
    _pass_names,
    _no_names,
    "pass names with commas between them, or all",
    "Print the program to stderr after these passes.",
)
num_threads = Knob[int | None](
    "num_threads",
    _thread_count,
    _unset,
    "an integer from 1 to 1024",
    "Threads that parallel loops run on; unset: one per physical core this process may use.",
)
cache_dir = Knob("cache_dir", _path, _user_cache, "a folder", "Folder of compiled kernels and of tuning results.")

KNOBS: tuple[Knob[Any], ...] = (
    debug,
    dump,
    print_after,
    verify,
    time_passes,
    num_threads,
    cache_dir,
    perf_map,
)


@contextmanager
def override(**values: object) -> Generator[None]:
    """Within the block, knobs answer as if their variables held `str(value)`; None stands for unset.

    Applies to every thread of the process; blocks nest. Raises `KnobError` for an unknown knob or an illegal value.
    """
    global _overrides  # noqa: PLW0603 (one mapping, replaced whole, so that readers never see half a change)
    texts = {_find(name).variable: "" if value is None else str(value) for name, value in values.items()}
    for name in values:
        knob = _find(name)
        if texts[knob.variable]:
            knob.parse(texts[knob.variable])
    saved = _overrides
    _overrides = {**saved, **texts}
    try:
        yield
    finally:
        _overrides = saved


def environment() -> dict[str, str]:
    """A copy of the environment with overrides applied: what a worker process is started with."""
    merged = {**os.environ, **_overrides}
    return {name: text for name, text in merged.items() if text or name not in _overrides}


def check_environment() -> None:
    """Raises `KnobError` for an `LPX_*` variable that does not exist or holds an illegal value."""
    known = {knob.variable for knob in KNOBS}
    for variable in os.environ:
        if variable.startswith("LPX_") and variable not in known:
            raise KnobError(f"{variable} is not a variable of lpx", hint=_suggest(variable, sorted(known)))
    for knob in KNOBS:
        knob()


def _find(name: str) -> Knob[Any]:
    for knob in KNOBS:
        if knob.name == name:
            return knob
    raise KnobError(f"lpx has no knob {name!r}", hint=_suggest(name, [knob.name for knob in KNOBS]))


def _suggest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
