"""Code of calls: numba's arrays checked and put into the slots of a kernel, and its status turned into an exception.

slots = { data pointers..., extents... }            no Python object is touched: fine without the GIL
for each specialisation that fits by type:
    if the arrays have its shapes:
        allocate the outputs that are not given
        status = entry(slots)
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from lpx.errors import RuntimeCheckError
from lpx.interop.numba.calls import NativeType, array_type, bind, candidates, is_array
from lpx.interop.numba.library import arrayobj, cgutils, extending, ir, types
from lpx.records import record
from lpx.runtime.native import NativeFunction
from lpx.runtime.signature import Parameter, Signature
from lpx.runtime.specialisation import OUT_OF_MEMORY, Array, Specialisation

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_UNLIKELY = {"likely": False}


@record(eq=False)
class _Given:
    """An argument: its type in numba and its value."""

    type: Any
    value: Any


def register() -> None:
    """Makes lpx's kernels and jit functions known to numba. A second time does nothing."""
    if NativeType in _registered:
        return
    _registered.add(NativeType)
    extending.register_model(NativeType)(extending.models.OpaqueModel)
    extending.typeof_impl.register(NativeFunction)(_type_of)
    extending.unbox(NativeType)(_unbox)
    extending.lower_builtin(NativeType, types.VarArg(types.Any))(_lower_call)


_registered: set[type] = set()


def _type_of(value: NativeFunction, context: Any) -> NativeType:
    del context
    return NativeType(value)


def _unbox(kind: Any, value: Any, context: Any) -> Any:
    del kind, value
    return extending.NativeValue(context.context.get_dummy_value())


def _lower_call(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
    kind: NativeType = sig.args[0]
    given = [_Given(t, v) for t, v in zip(sig.args[1:], args[1:], strict=True)]
    count = len(given) - len(kind.keywords)
    positional, keywords = given[:count], dict(zip(kind.keywords, given[count:], strict=True))
    found = candidates(kind.function, [g.type for g in positional], {n: g.type for n, g in keywords.items()})
    call = _Call(context, builder, kind.function, positional, keywords, sig.return_type)
    return call.lower(found)


class _Call:
    """One call, while it is lowered."""

    def __init__(
        self,
        context: Any,
        builder: Any,
        function: NativeFunction,
        positional: Sequence[_Given],
        keywords: dict[str, _Given],
        result_type: Any,
    ) -> None:
        self.context, self.builder = context, builder
        self.function = function
        self.positional = positional
        self.keywords = {n: self._spread(g) for n, g in keywords.items() if not isinstance(g.type, types.NoneType)}
        self.result_type = result_type

    def lower(self, found: Sequence[Specialisation]) -> Any:
        """The call's result, from the first of these whose shapes fit; an exception where none's do."""
        result = cgutils.alloca_once(self.builder, self.context.get_value_type(self.result_type))
        done = self.builder.append_basic_block("lpx.done")
        for specialisation in found:
            following = self.builder.append_basic_block("lpx.next")
            value = _Launch(self, specialisation, following).emit()
            self.builder.store(value, result)
            self.builder.branch(done)
            self.builder.position_at_end(following)
        self.fail(ValueError, _wrong_shapes(found))
        self.builder.position_at_end(done)
        return self.builder.load(result)

    def bound(self, signature: Signature) -> list[tuple[Parameter, Any]]:
        """Each parameter of a call with what is given for it: inputs, then outputs."""
        inputs, outputs = bind(self.function, signature, self.positional, self.keywords)
        return [*zip((*signature.inputs, *signature.outputs), (*inputs, *outputs), strict=True)]

    def fail(self, kind: type[BaseException], message: str) -> None:
        """Leave numba's function with an exception."""
        self.context.call_conv.return_user_exc(self.builder, kind, (message,))

    @contextmanager
    def unlikely(self, condition: Any) -> Generator[None]:
        """Code for where `condition` holds."""
        with self.builder.if_then(condition, **_UNLIKELY):
            yield

    def _spread(self, given: _Given) -> Any:
        if not isinstance(given.type, types.BaseTuple):
            return given
        parts = cgutils.unpack_tuple(self.builder, given.value, len(given.type))
        return tuple(_Given(t, v) for t, v in zip(given.type, parts, strict=True))


class _Launch:
    """The part of a call that is for one specialisation; `otherwise` is the block for other shapes."""

    def __init__(self, call: _Call, specialisation: Specialisation, otherwise: Any) -> None:
        self.call = call
        self.context, self.builder = call.context, call.builder
        self.specialisation = specialisation
        self.signature = specialisation.signature
        self.otherwise = otherwise
        self.given = call.bound(self.signature)
        self.arrays: dict[str, Any] = {}
        self.extents: dict[str, Any] = {}
        self.slots = cgutils.alloca_once(self.builder, _I64, size=specialisation.slots)

    def emit(self) -> Any:
        """The call's result."""
        for parameter, given in self.given:
            if given is not None:
                self._take(parameter, given)
        for place, name in enumerate(self.signature.extents):
            self._fill(len(self.signature.parameters) + place, self.extents[name])
        self._derive()
        for name, array in self.specialisation.bound.items():
            self._fill(self._slot(name), _I64(_start(array)))
        self._check_apart()
        results = [self._output(parameter, given) for parameter, given in self.given[len(self.signature.inputs) :]]
        self._run()
        return self._result(results)

    def _take(self, parameter: Parameter, given: _Given) -> None:
        if not is_array(given.type):
            self._take_number(parameter, given)
            return
        array = self.context.make_array(given.type)(self.context, self.builder, given.value)
        self.arrays[parameter.name] = array
        self._fill(self._slot(parameter.name), self.builder.ptrtoint(array.data, _I64))
        extents = cgutils.unpack_tuple(self.builder, array.shape, len(parameter.shape))
        for wanted, extent in zip(parameter.shape, extents, strict=True):
            if isinstance(wanted, str) and wanted not in self.extents and wanted not in self.signature.derived:
                self.extents[wanted] = extent
                continue
            if isinstance(wanted, str) and wanted not in self.extents:
                continue  # derived, compared when it is known
            self._require(extent, _I64(wanted) if isinstance(wanted, int) else self.extents[wanted])

    def _take_number(self, parameter: Parameter, given: _Given) -> None:
        element = array_type(parameter).dtype
        value = self.context.cast(self.builder, given.value, given.type, element)
        stored = self.context.get_value_as_data(self.builder, element, value)
        place = cgutils.alloca_once_value(self.builder, stored)
        self._fill(self._slot(parameter.name), self.builder.ptrtoint(place, _I64))

    def _require(self, extent: Any, wanted: Any) -> None:
        fits = self.builder.append_basic_block("lpx.fits")
        self.builder.cbranch(self.builder.icmp_signed("==", extent, wanted), fits, self.otherwise)
        self.builder.position_at_end(fits)

    def _derive(self) -> None:
        """Extents that the kernel computes from those of the arguments."""
        if not self.specialisation.derive:
            return
        first = self.builder.gep(self.slots, [_I64(len(self.signature.parameters))])
        self._call_address(self.specialisation.derive, ir.VoidType(), first)
        for place, name in enumerate(self.signature.derived):
            self.extents[name] = self.builder.load(self.builder.gep(first, [_I64(len(self.signature.extents) + place)]))
        for parameter, given in self.given:
            if given is not None and is_array(given.type):
                shape = cgutils.unpack_tuple(self.builder, self.arrays[parameter.name].shape, len(parameter.shape))
                for wanted, extent in zip(parameter.shape, shape, strict=True):
                    if wanted in self.signature.derived:
                        self._require(extent, self.extents[str(wanted)])

    def _check_apart(self) -> None:
        """Arrays that are written share no memory with any other."""
        spans = {name: self._span(array) for name, array in self.arrays.items()}
        for name, array in self.specialisation.bound.items():
            spans[name] = _I64(_start(array)), _I64(_start(array) + array.nbytes)
        written = [p.name for p, given in self.given if p.role != "in" and given is not None]
        for k, name in enumerate(written):
            for other, span in spans.items():
                if other not in written[: k + 1]:
                    with self.call.unlikely(self._overlap(spans[name], span)):
                        self.call.fail(
                            ValueError,
                            f"{self.signature.name} writes {name}, which shares memory with {other}: "
                            "pass a copy of one",
                        )

    def _span(self, array: Any) -> tuple[Any, Any]:
        start = self.builder.ptrtoint(array.data, _I64)
        return start, self.builder.add(start, self.builder.mul(array.nitems, array.itemsize))

    def _overlap(self, one: tuple[Any, Any], other: tuple[Any, Any]) -> Any:
        before = self.builder.icmp_unsigned("<", one[0], other[1])
        return self.builder.and_(before, self.builder.icmp_unsigned("<", other[0], one[1]))

    def _output(self, parameter: Parameter, given: _Given | None) -> Any:
        """The value of an output, with a reference of its own."""
        if given is not None:
            self.context.nrt.incref(self.builder, given.type, given.value)
            return given.value
        extents = [self.extents[d] if isinstance(d, str) else _I64(d) for d in parameter.shape]
        array = arrayobj._empty_nd_impl(self.context, self.builder, array_type(parameter), extents)
        self._fill(self._slot(parameter.name), self.builder.ptrtoint(array.data, _I64))
        return array._getvalue()

    def _run(self) -> None:
        """Calls the kernel, and leaves with an exception if it fails.

        The code that numba makes keeps the kernel's alive: libraries of callers hold those of their callees.
        """
        library = self.context.active_code_library
        cast("dict[str, list[Specialisation]]", vars(library)).setdefault("lpx_kernels", []).append(self.specialisation)
        status = self._call_address(self.specialisation.entry, _I32, self.slots)
        with self.call.unlikely(self.builder.icmp_signed("!=", status, _I32(0))):
            for code, kind, message in self._failures():
                with self.call.unlikely(self.builder.icmp_signed("==", status, _I32(code))):
                    self.call.fail(kind, message)
            self.call.fail(KeyboardInterrupt, f"{self.signature.name} was interrupted")

    def _failures(self) -> Iterator[tuple[int, type[BaseException], str]]:
        name = self.signature.name
        yield OUT_OF_MEMORY, MemoryError, f"{name}: no memory for scratch buffers"
        for number, check in enumerate(self.signature.checks):
            yield number + 1, RuntimeCheckError, f"{name}: {check}"

    def _call_address(self, address: int, result: Any, argument: Any) -> Any:
        """A call of machine code at an address, which makes numba refuse to cache the function, with a warning."""
        pointer = self.context.add_dynamic_addr(self.builder, address, info=str(self.signature))
        function = ir.FunctionType(result, [argument.type])
        return self.builder.call(self.builder.bitcast(pointer, function.as_pointer()), [argument])

    def _result(self, results: Sequence[Any]) -> Any:
        if not results:
            return self.context.get_dummy_value()
        if len(results) == 1:
            return results[0]
        return self.context.make_tuple(self.builder, self.call.result_type, results)

    def _slot(self, name: str) -> int:
        return [p.name for p in self.signature.parameters].index(name)

    def _fill(self, slot: int, value: Any) -> None:
        self.builder.store(value, self.builder.gep(self.slots, [_I64(slot)]))


def _start(array: Array) -> int:
    """The address of its first element."""
    address: int = array.__array_interface__["data"][0]
    return address


def _wrong_shapes(found: Sequence[Specialisation]) -> str:
    if len(found) == 1:
        return f"the arrays do not have the shapes of {found[0].signature}"
    known = "; ".join(str(s.signature) for s in found)
    return f"the arrays have the shapes of none of {known}"
