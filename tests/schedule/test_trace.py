from __future__ import annotations

import math
from typing import cast

import pytest

from lpx import te
from lpx.errors import ScheduleError, TraceError
from lpx.schedule import Instruction, Schedule, Trace, create_schedule, replay
from lpx.schedule.errors import ExtentError, OptionError, UnknownNameError
from lpx.schedule.loops import Tail
from tests.schedule.support import bias_relu, check_replays, elementwise, matmul


def test_trace_as_python_reads_like_the_schedule() -> None:
    s = create_schedule(matmul(8, 8, te.var("n")))
    i, j, _ = s.loops("C")
    o, _ = s.split(i, factor=4)
    s.partition(j, s.symbol("n") // 2)
    s.parallel(o)
    assert s.trace.as_python() == (
        "def apply(s):\n"
        "    i, j, r = s.loops(block='C')\n"
        "    i_o, i_i = s.split(i, factor=4)\n"
        '    j_0, j_1 = s.partition(j, (s.symbol("n") // 2))\n'
        "    s.parallel(i_o)\n"
    )


def test_queries_are_recorded_once() -> None:
    s = create_schedule(matmul(8, 8, 8))
    assert s.loops("C") == s.loops("C")
    assert s.loops("C")[0] is s["C"].loops("C")[0]
    assert len(s.trace) == 1


def test_a_handle_from_nowhere_is_brought_in() -> None:
    """Handles that no instruction of the trace gave, such as loops that compute_at made, are queried in the trace."""
    s = create_schedule(bias_relu(4, 3, 5))
    s.compute_at("C", s.loops("D")[0])
    inner = s.handles.loop(s.statement(s.loops("C")[-1]).var)  # type: ignore[union-attr] # pyright: ignore
    s.unroll(inner)
    check_replays(s, bias_relu(4, 3, 5))


def test_handles_of_another_schedule_are_refused() -> None:
    a, b = create_schedule(elementwise(8)), create_schedule(elementwise(8))
    with pytest.raises(UnknownNameError, match="loop i is not in this program"):
        b.split(a.loops("C")[0], 2)


def test_refused_primitives_change_nothing() -> None:
    s = create_schedule(elementwise(8))
    (i,) = s.loops("C")
    before, trace = s.function, s.trace
    with pytest.raises(ScheduleError):
        s.fuse(i, i)
    assert s.function is before
    assert s.trace is trace


def test_message_is_one_line_and_str_shows_the_program() -> None:
    s = create_schedule(matmul(8, 8, 8))
    with pytest.raises(ScheduleError) as caught:
        s.parallel(s.loops("C")[2])
    assert "\n" not in caught.value.message
    assert "^^^^" in str(caught.value)
    assert "test_trace.py" in str(caught.value)


def test_misspelt_primitive() -> None:
    s = create_schedule(elementwise(8))
    with pytest.raises(AttributeError, match="no primitive 'vectorise'; did you mean vectorize"):
        s.vectorise  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 7, "instructions": []}', '{"version": 1, "instructions": [{"name": 3}]}']
)
def test_texts_that_are_no_traces(text: str) -> None:
    with pytest.raises(TraceError):
        Trace.from_json(text)


@pytest.mark.parametrize(
    "instruction",
    [
        Instruction("no_such_primitive"),
        Instruction("split", ({"ref": "i"},), {"factor": 2}, ("a", "b")),
        Instruction("loops", (), {"block": "C"}, ("i", "j")),
        Instruction("partition", ({"ref": "i"}, {"expr": "q"}), {}, ("a", "b")),
    ],
)
def test_traces_that_do_not_fit(instruction: Instruction) -> None:
    first = Instruction("loops", (), {"block": "B"}, ("k",))
    with pytest.raises((TraceError, ScheduleError)):
        replay(Trace((first, instruction)), elementwise(8))


def _sampled(s: Schedule) -> None:
    i, j, _ = s.loops("C")
    s.split(i, s.sample_tile(i, 3, max_innermost=8))
    lanes = s.sample_choice((4, 8), probs=(0.5, 0.5))
    tail = s.sample_choice(("guard", "peel"))
    s.split(j, cast("int", lanes), tail=cast("Tail", tail))


def test_sampled_values_carry_their_origin() -> None:
    program = matmul(16, 4, 16)
    s = create_schedule(program, seed=3)
    _sampled(s)
    check_replays(s, program)
    other = replay(s.trace, program, decisions=[[2, 8], 1, 0])
    assert "for i_2 in 0..8" in str(other)
    assert "for j_i in 0..8" in str(other)
    assert other.trace.decisions == ([2, 8], 1, 0)
    assert str(replay(s.trace, program, resample=True, seed=3)) == str(s)


def test_decisions_given_to_a_template() -> None:
    program = matmul(16, 4, 16)
    s = create_schedule(program, decisions=[[4, 2], 0, 1])
    _sampled(s)
    assert s.trace.decisions == ([4, 2], 0, 1)


def test_sample_tile_draws_divisors() -> None:
    program = matmul(12, 4, 16)
    seen: set[tuple[int, ...]] = set()
    for seed in range(60):
        s = create_schedule(program, seed=seed)
        inner = s.sample_tile(s.loops("C")[0], 3, max_innermost=4)
        assert 12 % math.prod(inner) == 0
        assert inner[-1] <= 4
        seen.add(tuple(int(f) for f in inner))
    assert len(seen) > 8


def test_sampling_refuses() -> None:
    s = create_schedule(matmul(te.var("m"), 4, 16))
    i, j, _ = s.loops("C")
    with pytest.raises(ExtentError, match="sample_tile: loop i has a symbolic extent"):
        s.sample_tile(i, 2)
    assert all(f in (1, 2, 4, 8) for f in s.sample_tile(i, 3, max_innermost=8, exact=False))
    for decision, message in (((3,), "does not divide the extent 16"), ((4, 4), "does not fit"), ((0,), "not a list")):
        with pytest.raises(OptionError, match=message):
            s.sample_tile(j, 2, decision=decision)
    with pytest.raises(OptionError, match="parts=1"):
        s.sample_tile(j, 1)
    with pytest.raises(OptionError, match="write 0 and 1"):
        s.sample_choice((True, False))
    with pytest.raises(OptionError, match="decision 2 is not a position in 2 options"):
        s.sample_choice((1, 2), decision=2)
    with pytest.raises(OptionError, match="do not fit 2 options"):
        s.sample_choice((1, 2), probs=(1.0,))
    with pytest.raises(OptionError, match="decision 9 is not a legal place of C"):
        s.sample_location("C", decision=9)


def test_sample_location() -> None:
    program = bias_relu(4, 3, 5)
    texts: set[str] = set()
    for seed in range(12):
        s = create_schedule(program, seed=seed)
        s.compute_at("C", s.sample_location("C"))
        check_replays(s, program)
        texts.add(str(s))
    assert len(texts) == 3, "root, at i, at j; a reduction is not inlined"
    s = create_schedule(elementwise(8))
    s.compute_at("B", s.sample_location("B", decision=-2))
    assert len(s.blocks()) == 1
    assert str(replay(s.trace, elementwise(8), decisions=[0])).count("for") == 1
