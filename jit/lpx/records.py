"""Records: frozen, slotted classes with named fields, as `@dataclass(frozen=True, slots=True)` makes them, but cheaper.

    @record
    class Point:
        x: int
        y: int = 0

    replace(Point(1), y=2)

The compiler has two hundred such classes and makes millions of instances. A dataclass compiles five methods from text
when its module is imported, 0.4 ms each; a record compiles one, and that when its first instance is made. It also makes
instances in half the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, dataclass_transform, overload

R = TypeVar("R")


class _FieldSpec(NamedTuple):
    """How a field gets its value: from an argument, else a default, else what a factory makes; whether it counts."""

    name: str
    default: Any
    factory: Any
    kw_only: bool
    compare: bool = True


@overload
def record(cls: type[R], /) -> type[R]: ...
@overload
def record(*, eq: bool = True, repr: bool = True, kw_only: bool = False) -> Callable[[type[R]], type[R]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, *, eq: bool = True, repr: bool = True, kw_only: bool = False) -> Any:
    """The class with the annotated names of its body as fields, behind those of the records it derives from.

    `dataclasses.field` gives a field a `default`, a `default_factory`, `kw_only` or `compare=False`. `eq`: instances
    are compared, and hashed, by their fields, else by identity. `repr`: they show their fields. `kw_only`: the
    constructor takes this class's fields by keyword. After construction `__post_init__` runs, where there is one.
    """

    def decorate(decorated: Any) -> Any:
        return _make(decorated, eq, repr, kw_only)

    return decorate if cls is None else decorate(cls)


def replace(instance: R, /, **changes: Any) -> R:
    """A record with other values in some fields."""
    cls: Any = type(instance)
    for name in cls.__record_fields__:
        if name not in changes:
            changes[name] = getattr(instance, name)
    made: R = cls(**changes)
    return made


def field_names(cls: type[Any]) -> tuple[str, ...]:
    """The names of a record's fields, inherited ones first."""
    return tuple(cls.__record_fields__)


def _make(cls: Any, eq: bool, show: bool, kw_only: bool) -> Any:
    """`cls` once more, with slots, which a class has to have from the beginning."""
    namespace: dict[str, Any] = dict(cls.__dict__)
    inherited: dict[str, _FieldSpec] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited.update(getattr(base, "__record_fields__", {}))
    own = {name: _spec(name, namespace.pop(name, MISSING), kw_only) for name in cls.__annotations__}
    fields = {**inherited, **own}
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    namespace.update(
        __slots__=tuple(name for name in own if name not in inherited),
        __record_fields__=fields,
        __match_args__=tuple(spec.name for spec in fields.values() if not spec.kw_only),
        __setattr__=_refuse_to_set,
        __delattr__=_refuse_to_delete,
        __getstate__=_get_state,
        __setstate__=_set_state,
    )
    if eq:
        namespace.setdefault("__eq__", _equal)
        namespace["__hash__"] = namespace.get("__hash__") or _hash
    if show:
        namespace.setdefault("__repr__", _show)
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    made.__record_values__ = _reader(tuple(name for name, spec in fields.items() if spec.compare))

    def construct_first(self: Any, *args: Any, **kwargs: Any) -> None:
        made.__init__ = _constructor(made)
        made.__init__(self, *args, **kwargs)

    made.__init__ = construct_first
    return made


def _spec(name: str, default: Any, kw_only: bool) -> _FieldSpec:
    given = default
    if not isinstance(default, Field):
        return _FieldSpec(name, default, MISSING, kw_only)
    by_keyword = kw_only if given.kw_only is MISSING else given.kw_only
    return _FieldSpec(name, given.default, given.default_factory, by_keyword, given.compare)


def _reader(names: tuple[str, ...]) -> Any:
    """A function that gives those values of an instance which are compared, in C."""
    return attrgetter(*names) if names else staticmethod(_no_values)


def _constructor(cls: Any) -> Callable[..., None]:
    """`__init__`, compiled from text, which writes the slots past the guard that `__setattr__` is."""
    names: dict[str, Any] = {"MISSING": MISSING}
    positional: list[str] = []
    by_keyword: list[str] = []
    lines: list[str] = []
    for spec in cls.__record_fields__.values():
        name = spec.name
        names[f"set_{name}"] = getattr(cls, name).__set__
        names[f"default_{name}"] = spec.default if spec.factory is MISSING else spec.factory
        value, parameter = name, name
        if spec.factory is not MISSING:
            parameter = f"{name}=MISSING"
            value = f"default_{name}() if {name} is MISSING else {name}"
        elif spec.default is not MISSING:
            parameter = f"{name}=default_{name}"
        (by_keyword if spec.kw_only else positional).append(parameter)
        lines.append(f"    set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    parameters = ["self", *positional, *(("*", *by_keyword) if by_keyword else ())]
    code = "\n".join([f"def __init__({', '.join(parameters)}):", *lines, "    return None"])
    exec(compile(code, f"<record {cls.__qualname__}>", "exec"), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _equal(self: Any, other: Any) -> Any:
    if self is other:
        return True
    if type(other) is not type(self):
        return NotImplemented
    read = self.__record_values__
    return read(self) == read(other)


def _hash(self: Any) -> int:
    return hash(self.__record_values__(self))


def _no_values(_self: Any) -> tuple[()]:
    return ()


def _show(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__record_fields__)
    return f"{type(self).__qualname__}({shown})"


def _refuse_to_set(self: Any, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r} of a {type(self).__qualname__}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r} of a {type(self).__qualname__}")


def _get_state(self: Any) -> tuple[Any, ...]:
    """What `copy` and `pickle` keep."""
    return tuple(getattr(self, name) for name in self.__record_fields__)


def _set_state(self: Any, state: tuple[Any, ...]) -> None:
    for name, value in zip(self.__record_fields__, state, strict=True):
        object.__setattr__(self, name, value)
