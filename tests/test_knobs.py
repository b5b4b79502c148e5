"""The table of `LPX_*` variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lpx import knobs
from lpx.errors import KnobError
from tests.support import Child


@pytest.mark.parametrize(("text", "value"), [("1", True), ("0", False), ("on", True), ("No", False), ("", False)])
def test_flag(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    monkeypatch.setenv("LPX_TIME_PASSES", text)
    assert knobs.time_passes() is value


def test_a_change_of_the_environment_takes_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LPX_NUM_THREADS", "3")
    assert knobs.num_threads() == 3
    monkeypatch.setenv("LPX_NUM_THREADS", "4")
    assert knobs.num_threads() == 4
    monkeypatch.delenv("LPX_NUM_THREADS")
    assert knobs.num_threads() is None


def test_paths_and_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LPX_DUMP", "~/dump")
    monkeypatch.setenv("LPX_PRINT_AFTER", "simplify, vectorize")
    assert knobs.dump() == Path.home() / "dump"
    assert knobs.print_after() == ("simplify", "vectorize")
    with knobs.override(dump=None, print_after=None):
        assert knobs.dump() is None
        assert knobs.print_after() == ()


def test_cache_dir_defaults_to_the_user_s_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LPX_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with knobs.override(cache_dir=None):
        assert knobs.cache_dir().name == "lpx"


@pytest.mark.parametrize(
    ("variable", "text", "legal"),
    [
        ("LPX_NUM_THREADS", "0", "an integer from 1 to 1024"),
        ("LPX_NUM_THREADS", "two", "an integer from 1 to 1024"),
        ("LPX_NUM_THREADS", "1025", "an integer from 1 to 1024"),
        ("LPX_DEBUG", "maybe", "1 or 0"),
        ("LPX_PRINT_AFTER", "simplify,,fuse", "pass names with commas between them"),
    ],
)
def test_illegal_text_names_variable_and_legal_values(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, legal: str
) -> None:
    monkeypatch.setenv(variable, text)
    (knob,) = [knob for knob in knobs.KNOBS if knob.variable == variable]
    with pytest.raises(KnobError) as caught:
        knob()
    assert f"{variable}={text!r}" in str(caught.value)
    assert legal in str(caught.value)


def test_override_nests_and_ends() -> None:
    before = knobs.num_threads()
    with knobs.override(num_threads=2):
        with knobs.override(num_threads=1, debug=True):
            assert (knobs.num_threads(), knobs.debug()) == (1, True)
        assert (knobs.num_threads(), knobs.debug()) == (2, False)
    assert knobs.num_threads() == before


def test_override_ends_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), knobs.override(num_threads=7):
        raise ZeroDivisionError
    assert knobs.num_threads() != 7


def test_override_refuses_unknown_names_and_illegal_values() -> None:
    with pytest.raises(KnobError, match="did you mean num_threads"), knobs.override(num_thread=1):
        pass
    with pytest.raises(KnobError, match="LPX_NUM_THREADS='-1' is not legal"), knobs.override(num_threads=-1):
        pass


def test_environment_of_a_worker_carries_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LPX_NUM_THREADS", "5")
    monkeypatch.setenv("LPX_DEBUG", "1")
    with knobs.override(num_threads=2, debug=None):
        environment = knobs.environment()
    assert environment["LPX_NUM_THREADS"] == "2"
    assert "LPX_DEBUG" not in environment
    assert environment["PATH"] == os.environ["PATH"]


def test_check_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("LPX_")]:
        monkeypatch.delenv(variable)
    knobs.check_environment()
    monkeypatch.setenv("LPX_NUM_THREAD", "1")
    with pytest.raises(KnobError, match="did you mean LPX_NUM_THREADS"):
        knobs.check_environment()


def test_every_knob_is_documented_and_in_the_table() -> None:
    in_module = [name for name, value in vars(knobs).items() if isinstance(value, knobs.Knob)]
    assert sorted(in_module) == sorted(knob.name for knob in knobs.KNOBS)
    for knob in knobs.KNOBS:
        assert knob.doc.endswith(".")
        assert getattr(knobs, knob.name) is knob


def test_child_inherits_the_session_s_cache(child: Child, cache_dir: Path) -> None:
    assert child("from lpx import knobs; print(knobs.cache_dir())").strip() == str(cache_dir)
