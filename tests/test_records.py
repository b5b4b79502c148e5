"""Records mean what frozen, slotted dataclasses mean."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest

from lpx.records import field_names, record, replace


@record
class Point:
    """A point."""

    x: int
    y: int = 2
    tags: tuple[str, ...] = ()


@record(eq=False, repr=False)
class Node:
    span: int | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


@record(eq=False, repr=False)
class Leaf(Node):
    value: int
    children: list[int] = field(default_factory=list[int])


@record
class Nothing:
    """No fields."""


@record
class Positive:
    value: int
    half: int = 0

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError("not positive")


@record(kw_only=True)
class Named:
    name: str
    size: int = 1


def test_fields_defaults_and_keywords() -> None:
    assert (Point(1).x, Point(1).y, Point(1).tags) == (1, 2, ())
    assert Point(1, tags=("a",), y=5) == Point(1, 5, ("a",))
    assert Leaf(3, span=7).span == 7
    assert Leaf(3).children == []
    assert Leaf(3).children is not Leaf(3).children
    assert Named(name="n").size == 1
    assert field_names(Leaf) == ("span", "value", "children")


@pytest.mark.parametrize(
    ("kind", "args", "kwargs"),
    [(Point, (), {}), (Point, (1, 2, (), 4), {}), (Point, (1,), {"z": 2}), (Leaf, (1, list[int](), 2), {})],
)
def test_wrong_arguments_are_refused_also_by_the_first_call(
    kind: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="__init__"):
            kind(*args, **kwargs)


def test_keyword_only_fields_are_not_positional() -> None:
    untyped: Any = Named
    with pytest.raises(TypeError, match="positional"):
        untyped("n")


def test_frozen() -> None:
    point: Any = Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x' of a Point"):
        point.x = 3
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x' of a Point"):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.other = 1
    assert not hasattr(point, "__dict__")
    assert point == Point(1)


def test_equality_and_hash_by_fields_or_by_identity() -> None:
    assert Point(1) == Point(1) != Point(2)
    assert hash(Point(1)) == hash(Point(1))
    assert len({Point(1), Point(1), Point(2)}) == 2
    as_tuple: object = (1, 2, ())
    assert Point(1) != as_tuple
    leaf = Leaf(1)
    assert leaf != Leaf(1)
    assert {leaf: 1}[leaf] == 1
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1


def test_shows_its_fields_unless_told_otherwise() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2, tags=())"
    assert repr(Leaf(1)) == "<Leaf>"
    assert repr(Nothing()) == "Nothing()"


def test_matches_by_position_and_keyword() -> None:
    match Point(1, 5):
        case Point(x, y, tags=tags):
            assert (x, y, tags) == (1, 5, ())
    match Leaf(4, span=1):
        case Leaf(value):
            assert value == 4


def test_replace_makes_a_new_one() -> None:
    leaf = Leaf(1, [2], span=3)
    other = replace(leaf, value=5)
    assert (other.value, other.children, other.span) == (5, [2], 3)
    assert other.children is leaf.children
    assert leaf.value == 1
    with pytest.raises(TypeError, match="unexpected keyword"):
        replace(leaf, nonsense=1)


def test_post_init_runs_each_time() -> None:
    assert Positive(3).value == 3
    for _ in range(2):
        with pytest.raises(ValueError, match="not positive"):
            Positive(0)
    with pytest.raises(ValueError, match="not positive"):
        replace(Positive(3), value=-1)


def test_a_class_that_derives_without_the_decorator() -> None:
    class Wide(Point):
        __slots__ = ()

        def __init__(self, width: int) -> None:
            super().__init__(width, width)

    assert Wide(4).y == 4
    assert Wide(4) == Wide(4)


@pytest.mark.parametrize("value", [Point(1, 3, ("t",)), Nothing(), Named(name="n")])
def test_copies_and_pickles(value: Any) -> None:
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


def test_keeps_names_and_documentation() -> None:
    assert Point.__doc__ == "A point."
    assert Point.__qualname__ == "Point"
    assert Point.__init__.__qualname__ in ("Point.__init__", "_make.<locals>.construct_first")
    assert type(Point(1)) is Point


def test_means_what_a_dataclass_means() -> None:
    @dataclass(frozen=True, slots=True)
    class Reference:
        x: int
        y: int = 2
        tags: tuple[str, ...] = ()

    made, reference = Point(1), Reference(1)
    assert Point.__match_args__ == Reference.__match_args__
    assert vars(Point)["__slots__"] == vars(Reference)["__slots__"]
    assert repr(made).partition("(")[2] == repr(reference).partition("(")[2]
    assert hash(made) == hash(reference)


@record
class Marked:
    value: int
    mark: list[int] = field(default_factory=list[int], compare=False)


def test_fields_that_are_not_compared() -> None:
    assert Marked(1, [2]) == Marked(1, [3]) != Marked(2, [2])
    assert hash(Marked(1, [2])) == hash(Marked(1, [3]))
    assert pickle.loads(pickle.dumps(Marked(1, [2]))).mark == [2]
