"""Tracing: the array that stands for a tensor while a function runs once to be recorded.

A traced array looks like an `ndarray`. Operators, ufuncs and NumPy functions applied to it add nodes to the graph
instead of computing; what each adds is in the tables of `lpx.frontends.numpy.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes
from lpx.errors import DefinitionError, DTypeError, UnsupportedError
from lpx.frontends.numpy import registry
from lpx.frontends.numpy.array_operators import ArrayOperators
from lpx.graph import shapes
from lpx.graph.builder import GraphBuilder
from lpx.graph.nodes import Dim, Value
from lpx.records import record
from lpx.source import capture

Number = bool | int | float


class UnsupportedAttributeError(UnsupportedError, AttributeError):
    """An attribute of ndarray that traced arrays do not have."""


class Trace:
    """One run of a user's function: the graph it builds, and the arrays it captured from outside.

    `captured` maps the `id` of an array that must be bound at call time to its name. Every other array met is a
    constant.
    """

    def __init__(self, name: str, captured: Mapping[int, str] | None = None) -> None:
        self.builder = GraphBuilder(name)
        self._captured = captured or {}
        self._bound: dict[int, Value] = {}
        self._constants: dict[int, tuple[object, Value]] = {}
        self.narrowed: dict[tuple[str, dtypes.DType], None] = {}
        """The Python integers among the arguments, with the integer dtypes they are converted to: they must fit."""

    @property
    def bound(self) -> list[int]:
        """The ids of the captured arrays that became inputs, in input order."""
        return list(self._bound)

    def argument(self, dtype: dtypes.DType, shape: Sequence[Dim], name: str, weak: type | None = None) -> TracedArray:
        """A new argument of the function being traced; `weak` where it is a Python number."""
        array = TracedArray(self, self.builder.input(dtype, shape, name), weak)
        array.is_scalar = weak is not None
        return array

    def add(self, name: str, *operands: TracedArray, **attrs: Any) -> TracedArray:
        """A node with one output."""
        return TracedArray(self, self.builder.add(name, [x.value for x in operands], **attrs))

    def add_multi(self, name: str, *operands: TracedArray, **attrs: Any) -> tuple[TracedArray, ...]:
        """A node with several outputs."""
        values = self.builder.add_multi(name, [x.value for x in operands], attrs)
        return tuple(TracedArray(self, value) for value in values)

    def constant(self, array: NDArray[Any]) -> TracedArray:
        """A new array with known elements."""
        return TracedArray(self, self.builder.constant(array))

    def array(self, x: object) -> TracedArray:
        """`x` as a traced array: a traced array itself, an array, or what `np.asarray` makes of it."""
        if isinstance(x, TracedArray):
            if x.owner is not self:
                raise DefinitionError(
                    "an array of another traced function is used here", hint="pass it as an argument", span=capture()
                )
            return x
        if is_list(x) and holds_traced(x):
            return cast("TracedArray", np.stack([cast("Any", self.array(e)) for e in x]))
        if isinstance(x, Number) and not isinstance(x, np.generic):
            return TracedArray(self, self._value_of_number(x), type(x), x)
        return TracedArray(self, self._value_of(x))

    def _value_of_number(self, x: Number) -> Value:
        """A constant; of float64 for an integer beyond 64 bits, which is only good for meeting floats."""
        array = np.asarray(x)
        return self.builder.constant(array.astype(np.float64) if array.dtype.hasobject else array)

    def _value_of(self, x: object) -> Value:
        array: NDArray[Any] = np.asarray(cast("Any", x))
        if array.dtype.hasobject:
            raise DTypeError(f"{x!r} is not an array", hint="use arrays and numbers", span=capture())
        dtype = dtypes.parse(array.dtype)
        key = id(x)
        if key in self._captured:
            if key not in self._bound:
                self._bound[key] = self.builder.input(dtype, array.shape, self._captured[key])
            return self._bound[key]
        if key not in self._constants:  # keeps `x` alive, so that its id stays its own
            self._constants[key] = (x, self.builder.constant(array))
        return self._constants[key][1]

    def number(self, value: Number, dtype: object) -> TracedArray:
        """A 0-d constant of a dtype.

        Raises: DTypeError when it does not fit an integer dtype, as NumPy would refuse it.
        """
        target = dtypes.parse(dtype)
        try:
            return TracedArray(self, self.builder.constant(np.asarray(value, target.to_numpy())))
        except OverflowError:
            hint = f"it holds {target.min_value}..{target.max_value}; make the number an array of a wider dtype"
            raise DTypeError(f"the integer {value} does not fit {target}", hint=hint, span=capture()) from None

    def extent(self, extent: Dim, dtype: object) -> TracedArray:
        """An extent as a 0-d array; a symbolic one is read at run time."""
        return self.add("full", shape=(), value=extent, dtype=dtypes.parse(dtype).name)

    def cast(self, x: TracedArray, dtype: object) -> TracedArray:
        """A new array of the same elements in another dtype."""
        target = dtypes.parse(dtype)
        if x.value.dtype == target:
            return TracedArray(self, x.value)
        if x.number is not None:
            return self.number(x.number, target)
        if x.weak is int and target.is_integer and x.value in self.builder.sources:
            self.narrowed[x.value.name, target] = None
        return self.add("cast", x, dtype=target.name)


@record
class Lens:
    """How an array shows elements of `base`, so that a change of one is seen in the other.

    `read` gives its value from that of the base, `write` the base's new value from its old one and the view's.
    `selection` identifies which elements they are, where the view was made by indexing.
    """

    base: TracedArray
    read: Callable[[Value], Value]
    write: Callable[[Value, Value], Value]
    selection: object = None


class TracedArray(ArrayOperators):
    """A tensor of the graph being traced. Assignment to it (`x[i] = v`, `x += v`) changes which value it holds.

    `weak` is the Python type of what was a Python number: it takes part in promotion as the number would. `number` is
    its value, where it is known. `lens` is set for a view of another array. As in NumPy, results without dimensions
    are scalars, which are never changed.
    """

    __slots__ = ("_seen", "_value", "lens", "number", "owner", "weak")

    def __init__(
        self,
        trace: Trace,
        value: Value,
        weak: type | None = None,
        number: Number | None = None,
        lens: Lens | None = None,
    ) -> None:
        self.owner = trace
        self.weak = weak
        self.number = number
        self.lens = lens
        self.is_scalar = not value.shape
        self._value = value
        self._seen = None if lens is None else lens.base.value

    @property
    def value(self) -> Value:
        """The value it holds now: a view's follows that of its base."""
        if self.lens is not None and self._seen is not self.lens.base.value:
            self._seen = self.lens.base.value
            self._value = self.lens.read(self._seen)
        return self._value

    @value.setter
    def value(self, new: Value) -> None:
        if self.lens is not None:
            self.lens.base.value = self.lens.write(self.lens.base.value, new)
            self._seen = self.lens.base.value
        self._value = new

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Extents: ints, or index expressions where dynamic."""
        return self._value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self._value.dtype.to_numpy()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._value.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return shapes.size(self._value.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._value.dtype.itemsize

    @property
    def nbytes(self) -> Dim:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def T(self) -> TracedArray:
        """All axes reversed."""
        return cast("TracedArray", np.transpose(cast("Any", self)))

    @property
    def mT(self) -> TracedArray:
        """The last two axes exchanged."""
        return cast("TracedArray", np.matrix_transpose(cast("Any", self)))

    @property
    def real(self) -> TracedArray:
        """Itself: there are no complex arrays."""
        return self

    @property
    def base(self) -> TracedArray | None:
        """The array this is a view of."""
        return None if self.lens is None else self.lens.base

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A method of ndarray, by the table."""
        row = registry.METHODS.get(name)
        if row is None:
            if name.startswith("__"):
                raise AttributeError(name)
            hint = "see the table of supported methods in the docs; elements are only known when the function runs"
            raise UnsupportedAttributeError(f"lpx.jit does not support ndarray.{name}", hint=hint, span=capture())

        def call(*args: Any, **kwargs: Any) -> Any:
            if row in registry.FUNCTIONS:
                return row(self, *args, **kwargs)
            return row(self.owner, self, *args, **kwargs)

        return call

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Called by NumPy when a ufunc meets a traced array."""
        return registry.PROTOCOLS["__array_ufunc__"](self.owner, ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Called by NumPy when one of its functions meets a traced array."""
        return registry.PROTOCOLS["__array_function__"](self.owner, function, args, kwargs)

    def __getitem__(self, key: object) -> Any:
        return registry.PROTOCOLS["__getitem__"](self.owner, self, key)

    def __setitem__(self, key: object, value: object) -> None:
        registry.PROTOCOLS["__setitem__"](self.owner, self, key, value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        extent = self.shape[0]
        if not isinstance(extent, int):
            raise DefinitionError("the length of this array is dynamic", hint="use x.shape[0]", span=capture())
        return extent

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise _unknown_elements("a truth value", "use np.where(cond, a, b), or make the argument static")

    def __index__(self) -> int:
        raise _unknown_elements("a Python integer", 'make the argument static: lpx.jit(static=("n",))')

    def __int__(self) -> int:
        raise _unknown_elements("a Python integer", 'use x.astype("int64"), or make the argument static')

    def __float__(self) -> float:
        raise _unknown_elements("a Python number", _STORING)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise _unknown_elements("a NumPy array", _STORING)

    def __repr__(self) -> str:
        return f"TracedArray({self._value.type_text})"


def assign(target: object, result: TracedArray) -> TracedArray:
    """Write `result`, broadcast and converted, into a traced array (`out=`, or the target of an assignment).

    Raises: DTypeError when NumPy would not convert, DefinitionError when the target is no array of this function.
    """
    if not isinstance(target, TracedArray) or target.is_scalar:
        what = "a number" if isinstance(target, TracedArray) else "an array from outside the function"
        raise DefinitionError(
            f"{what} cannot be written to while tracing",
            hint="pass the array as an argument, or make it here: np.zeros_like(x, shape=...)",
            span=capture(),
        )
    if not np.can_cast(result.dtype, target.dtype, casting="same_kind"):
        raise DTypeError(
            f"cannot store {result.dtype} in an array of {target.dtype}",
            hint=f'convert it: .astype("{target.dtype}")',
            span=capture(),
        )
    return overwrite(target, result)


def overwrite(target: TracedArray, result: TracedArray) -> TracedArray:
    """Give `target` the elements of `result`, broadcast and converted to its dtype whatever they are."""
    stored = result.owner.cast(result, target.value.dtype)
    if not shapes.same_shape(stored.shape, target.shape):
        stored = stored.owner.add("broadcast", stored, shape=target.shape)
    target.value = stored.value
    return target


def is_list(x: object) -> TypeGuard[Sequence[object]]:
    """Whether `x` is a list or tuple."""
    return isinstance(x, list | tuple)


def as_tuple(x: Any) -> tuple[Any, ...]:
    """A tuple or list as a tuple, anything else as a tuple of one."""
    return tuple(x) if is_list(x) else (x,)


def holds_traced(x: object) -> bool:
    """Whether a traced array is in `x`, at any depth of lists and tuples."""
    if is_list(x):
        return any(holds_traced(e) for e in x)
    return isinstance(x, TracedArray)


_STORING = "use functions that NumPy dispatches (np.*); make arrays to be assigned to by np.zeros_like(x, shape=...)"


def _unknown_elements(wanted: str, hint: str) -> DefinitionError:
    return DefinitionError(
        f"a traced array cannot become {wanted}: its elements are not known while the function is traced",
        hint=hint,
        span=capture(),
    )
