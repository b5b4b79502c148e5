"""The cache of compiled code, across processes that share a folder."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import lpx
from lpx import rules, te
from lpx.driver import compile as compiling
from lpx.driver import fingerprint
from lpx.errors import CacheWarning
from lpx.ir.nodes import Function
from lpx.knobs import override
from lpx.rules.default import DefaultSchedule, default_schedule
from lpx.target import Target
from tests.driver.programs import normal, scaled_sum, weighted
from tests.support import Child

BUILD = """
import json, numpy as np, lpx
from lpx import te
from lpx.runtime import objects

compile_anew, compiled = objects.compile_module, []
objects.compile_module = lambda *args: compiled.append(args) or compile_anew(*args)

def build(helper, weights):
    a, w = te.placeholder((5,), name="A"), te.constant(np.asarray(weights, np.float32), name="W")
    kernel = lpx.build(te.compute((5,), lambda i: helper(a[i] * w[i]), name="C"))
    print(json.dumps([len(compiled), kernel(np.arange(5, dtype=np.float32)).tolist(), sorted(kernel.stats)]))
    compiled.clear()

build(lambda x: x + 1.0, [1, 1, 1, 1, 1])
"""

CHANGED = """
build(lambda x: x + 2.0, [1, 1, 1, 1, 1])
build(lambda x: x + 1.0, [0, 1, 1, 1, 2])
"""


def test_a_second_process_compiles_what_changed_only(child: Child, tmp_path: Path) -> None:
    """A change in a function that the expression calls, or in a constant, makes another program."""
    folder = str(tmp_path)
    (first,) = [json.loads(line) for line in child(BUILD, LPX_CACHE_DIR=folder).splitlines()]
    assert first[0] >= 1
    assert first[1:] == [[1, 2, 3, 4, 5], ["emit", "link", "llvm", "lower", "schedule"]]
    again, helper, constant = [json.loads(line) for line in child(BUILD + CHANGED, LPX_CACHE_DIR=folder).splitlines()]
    assert again == [0, [1, 2, 3, 4, 5], ["link"]]
    assert helper[:2] == [1, [2, 3, 4, 5, 6]]
    assert constant[:2] == [1, [1, 2, 3, 4, 9]]


def test_a_changed_compiler_misses_its_old_results(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target.parse("cpu")
    before = fingerprint.key_of("kernel", "program", target)
    assert fingerprint.key_of("kernel", "program", target) == before
    monkeypatch.setattr(fingerprint, "sources", lambda: "another digest")
    assert fingerprint.key_of("kernel", "program", target) != before


def test_the_key_tells_kinds_programs_and_targets_apart() -> None:
    target = Target.parse("cpu")
    keys = {
        fingerprint.key_of("kernel", "program", target),
        fingerprint.key_of("program", "program", target),
        fingerprint.key_of("kernel", "another", target),
        fingerprint.key_of("kernel", "program", Target.parse("cpu:x86-64")),
    }
    assert len(keys) == 4


def test_the_key_tells_numbers_of_cores_apart(child: Child) -> None:
    """Default schedules depend on them."""
    program = """
import os
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:{count}])
from lpx.driver import fingerprint
from lpx.target import Target
print(fingerprint.key_of("kernel", "program", Target.parse("cpu")))
"""
    available = len(os.sched_getaffinity(0))
    keys = {child(program.format(count=count)) for count in (1, available)}
    assert len(keys) == min(available, 2)


def test_constants_are_not_in_the_object() -> None:
    """A kernel holds a pointer to its constant, whose bytes stay where the caller's program has them."""
    weights = normal(1000)
    function = te.lower(weighted(weights))
    compiled = compiling.compile_function(str(function), lambda: function, Target.parse("cpu"))
    assert weights.tobytes()[:16] not in compiled.kernel.data
    assert len(compiled.kernel.data) < weights.nbytes


def test_what_is_in_the_cache_is_not_scheduled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lpx.build(scaled_sum(9))
    scheduled: list[Function] = []

    def note(function: Function, target: Target) -> DefaultSchedule:
        scheduled.append(function)
        return default_schedule(function, target)

    monkeypatch.setattr(rules, "default_schedule", note)
    kernel = lpx.build(scaled_sum(9))
    assert scheduled == []
    assert "vectors of" in kernel.explain()
    assert len(scheduled) == 1


def test_a_schedule_by_hand_is_no_program_for_the_rules() -> None:
    """The same text, compiled as it stands and by the rules, is two entries."""
    program = te.lower(scaled_sum(100))
    by_hand, by_rules = lpx.build(lpx.create_schedule(program)), lpx.build(program)
    assert "ramp" not in by_hand.forms.ir
    assert "ramp" in by_rules.forms.ir
    assert by_hand.specialisation.code is not by_rules.specialisation.code
    assert sorted(lpx.build(lpx.create_schedule(program)).stats) == sorted(lpx.build(program).stats) == ["link"]


def entries(folder: Path) -> set[Path]:
    return set(folder.rglob("*.lpxo"))


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_entry_is_compiled_again_with_one_warning(tmp_path: Path, damage: str) -> None:
    a, b = normal(7), normal(7, seed=1)
    with override(cache_dir=tmp_path):
        lpx.build(scaled_sum(8))  # what every kernel is linked with may be stored along with the first
        others = entries(tmp_path)
        lpx.build(scaled_sum(7))
        (entry,) = entries(tmp_path) - others
        content = entry.read_bytes()
        entry.write_bytes(content[:-100] if damage == "truncated" else content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.warns(
            CacheWarning, match=re.escape(f"the cache entry {entry} is damaged; compiling again")
        ) as seen:
            kernel = lpx.build(scaled_sum(7))
        assert len(seen) == 1
        np.testing.assert_array_equal(kernel(a, b), a * 2 + b)
        assert entry.read_bytes() == content
        assert sorted(lpx.build(scaled_sum(7)).stats) == ["link"]


def test_the_cache_keeps_how_a_kernel_is_called(tmp_path: Path) -> None:
    """Names, symbolic shapes and the messages of run-time checks come from the entry."""
    n, m = te.var("n"), te.var("m")
    x, places = te.placeholder((n,), name="x"), te.placeholder((m,), "int64", name="places")
    program = te.compute((m,), lambda i: x[places[i]], name="picked")
    with override(cache_dir=tmp_path):
        cold, warm = lpx.build(program), lpx.build(program)
    assert sorted(warm.stats) == ["link"]
    assert warm.signature == cold.signature
    assert warm.signature.checks
    np.testing.assert_array_equal(warm(x=normal(9), places=np.asarray([8, 0])), normal(9)[[8, 0]])
    with pytest.raises(lpx.errors.RuntimeCheckError, match="outside"):
        warm(x=normal(9), places=np.asarray([9, 0]))
