"""Calls through the native entry point, and through the plain Python one that stands in for it: both mean the same."""

from __future__ import annotations

import gc
import importlib.util
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from lpx import dtypes
from lpx.errors import InternalError, RuntimeCheckError
from lpx.runtime import layout_check, native
from lpx.runtime.emitted.emit import Code, Unit, Value
from lpx.runtime.emitted.types import I32
from lpx.runtime.native import NativeFunction
from lpx.runtime.portable import PortableBase
from lpx.runtime.signature import Parameter, Signature
from lpx.runtime.specialisation import Specialisation
from tests.runtime import kernels

Floats = np.ndarray[Any, np.dtype[np.float32]]


def _portable_module() -> Any:
    """`lpx.runtime.native` as it is where the layouts are not those lpx knows."""
    spec = importlib.util.spec_from_file_location("portable_native", native.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout_check, "layouts_hold", lambda: False)
        spec.loader.exec_module(module)
    assert issubclass(module.NativeFunction, PortableBase)
    return module


@pytest.fixture(params=["native", "portable"], scope="module")
def function_type(request: pytest.FixtureRequest) -> type[NativeFunction]:
    return NativeFunction if request.param == "native" else _portable_module().NativeFunction


class Fallback:
    """Records the calls it gets."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        self.calls.append((args, kwargs))
        return "fallback"


def make(function_type: type[NativeFunction], *specialisations: Specialisation) -> NativeFunction:
    function = function_type(Fallback())
    for specialisation in specialisations:
        function.add(specialisation)
    return function


def operands(n: int = 16) -> tuple[Floats, Floats]:
    return np.arange(n, dtype=np.float32), np.arange(n, dtype=np.float32) * 10


def test_layouts_are_known() -> None:
    assert layout_check.layouts_hold()
    assert not issubclass(NativeFunction, PortableBase)


def test_allocates_its_output(function_type: type[NativeFunction]) -> None:
    a, b = operands()
    c = make(function_type, kernels.add())(a, b)
    assert type(c) is np.ndarray
    assert c.dtype == np.float32
    assert c.flags.owndata
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("how", ["keyword", "positional"])
def test_returns_the_given_output(function_type: type[NativeFunction], how: str) -> None:
    a, b = operands()
    c = np.empty_like(a)
    add = make(function_type, kernels.add())
    result = add(a, b, out=c) if how == "keyword" else add(a, b, c)
    assert result is c
    np.testing.assert_array_equal(c, a + b)


def test_out_none_allocates(function_type: type[NativeFunction]) -> None:
    a, b = operands()
    np.testing.assert_array_equal(make(function_type, kernels.add())(a, b, out=None), a + b)


def test_same_array_twice(function_type: type[NativeFunction]) -> None:
    a, _ = operands()
    np.testing.assert_array_equal(make(function_type, kernels.add())(a, a), a + a)


def test_dispatches_over_specialisations(function_type: type[NativeFunction]) -> None:
    add = make(function_type, *(kernels.add(n) for n in range(8, 17)))
    for n in range(8, 17):
        a, b = operands(n)
        np.testing.assert_array_equal(add(a, b), a + b)
    assert add(*operands(17)) == "fallback"
    assert [len(s.signature.parameters) for s in add.specialisations] == [3] * 9


def test_calls_alternate_between_specialisations(function_type: type[NativeFunction]) -> None:
    """Whichever ran last is tried first, and the others after it."""
    add = make(function_type, kernels.add(16), kernels.add(5), kernels.add(7))
    for n in (5, 5, 7, 16, 7, 5, 16, 16):
        a, b = operands(n)
        np.testing.assert_array_equal(add(a, b), a + b)
    assert add(*operands(6)) == "fallback"
    a, b = operands(7)
    np.testing.assert_array_equal(add(a, b), a + b)


def test_earlier_specialisations_win(function_type: type[NativeFunction]) -> None:
    """Where two fit a call, the order of adding decides, whichever ran last."""
    first = kernel_that_doubles(4)
    add = make(function_type, first, kernels.add("n"))
    for n in (5, 4, 5, 4):
        a, b = operands(n)
        expected = 2 * a if n == 4 else a + b
        np.testing.assert_array_equal(add(a, b), expected)


def kernel_that_doubles(n: int) -> Specialisation:
    """c = a + a, with the signature of an addition."""

    def body(_unit: Unit, code: Code, slots: Value) -> None:
        a, c = kernels.slot(slots, 0), kernels.slot(slots, 2)
        with code.count(code.i64(n)) as i:
            element = (a + i * 4).load(I32)
            (c + i * 4).store(code.select(element.eq(0), element, element + (1 << 23)))  # the exponent plus one

    parameters = tuple(Parameter(name, dtypes.float32, (n,), "out" if name == "c" else "in") for name in "abc")
    return kernels.kernel(Signature("double", parameters), body)


def test_positional_outputs_can_be_off(function_type: type[NativeFunction]) -> None:
    add = function_type(Fallback(), positional_outputs=False)
    add.add(kernels.add())
    a, b = operands()
    out = np.full(16, 7, np.float32)
    assert add(a, b, out) == "fallback"
    np.testing.assert_array_equal(out, 7)
    assert add(a, b, out=out) is out
    np.testing.assert_array_equal(out, a + b)


def test_symbolic_extents_bind_and_compare(function_type: type[NativeFunction]) -> None:
    add = make(function_type, kernels.add("n"))
    for n in (0, 1, 5, 100):
        a, b = operands(n)
        c = add(a, b)
        assert c.shape == (n,)
        np.testing.assert_array_equal(c, a + b)
    assert add(operands(4)[0], operands(5)[1]) == "fallback"
    assert add(*operands(4), np.empty(5, np.float32)) == "fallback"


def test_derived_extents(function_type: type[NativeFunction]) -> None:
    framed = make(function_type, kernels.framed())
    a = np.arange(3)
    np.testing.assert_array_equal(framed(a), [-1, 0, 1, 2, -1])
    out = np.zeros(5, np.int64)
    assert framed(a, out) is out
    np.testing.assert_array_equal(out, [-1, 0, 1, 2, -1])
    assert framed(a, np.zeros(4, np.int64)) == "fallback"
    shrunk = make(function_type, kernels.shrunk())
    np.testing.assert_array_equal(shrunk(np.arange(5)), [0, 1])
    assert shrunk(np.arange(2)) == "fallback"


def test_several_outputs(function_type: type[NativeFunction]) -> None:
    a, b = np.arange(6).reshape(3, 2), np.ones((3, 2), np.int64)
    call = make(function_type, kernels.sum_and_difference())
    s, d = call(a, b)
    np.testing.assert_array_equal(s, a + b)
    np.testing.assert_array_equal(d, a - b)
    outs = np.empty_like(a), np.empty_like(a)
    assert call(a, b, out=outs) is outs
    np.testing.assert_array_equal(outs[1], a - b)
    returned = call(a, b, *outs)
    assert returned[0] is outs[0]
    assert returned[1] is outs[1]
    for bad in ([*outs], outs[:1], outs[0], (outs[0], outs[0]), (outs[0], a)):
        assert call(a, b, out=bad) == "fallback"
    assert call(a, b, outs[0]) == "fallback"


def test_in_out_argument_returns_none(function_type: type[NativeFunction]) -> None:
    call = make(function_type, kernels.accumulate())
    x = np.arange(4)
    assert call(np.ones(4, np.int64), x) is None
    np.testing.assert_array_equal(x, [1, 2, 3, 4])
    assert call(x, x) == "fallback"
    x.flags.writeable = False
    assert call(np.ones(4, np.int64), x) == "fallback"


def test_bound_arrays(function_type: type[NativeFunction]) -> None:
    w = np.arange(4)
    call = make(function_type, kernels.plus_bound(w))
    np.testing.assert_array_equal(call(np.ones(4, np.int64)), w + 1)
    w += 100  # read at call time
    np.testing.assert_array_equal(call(np.ones(4, np.int64)), w + 1)
    assert call(np.ones(4, np.int64), out=w) == "fallback"
    assert call(w) is not w


def _nothing(*_: Any) -> None:
    """A kernel body that does nothing."""


class Subclass(np.ndarray[Any, Any]):
    pass


def _unaligned() -> Floats:
    return np.frombuffer(bytearray(65), np.uint8)[1:].view(np.float32)


A, B = operands()


@pytest.mark.parametrize(
    "args",
    [
        (A,),
        (A, B, np.zeros_like(A), np.zeros_like(A)),
        (A, A.tolist()),
        (A, 2.0),
        (A, None),
        (A, np.arange(32, dtype=np.float32)[::2]),
        (A, B[::-1]),
        (A, B.astype(np.float64)),
        (A, B.astype(np.int32)),
        (A, B.astype(">f4")),
        (A, B.reshape(4, 4)),
        (A, B.view(Subclass)),
        (A, _unaligned()),
        (A, B, A),
        (A, B, np.zeros(15, np.float32)),
        (A, B, np.zeros(16, np.float64)),
        (A, B, np.zeros((16, 1), np.float32)),
        (A, B, np.frombuffer(bytes(64), np.float32)),
        (A, B, 1),
    ],
    ids=str,
)
def test_anything_unusual_falls_back(function_type: type[NativeFunction], args: tuple[Any, ...]) -> None:
    add = make(function_type, kernels.add())
    assert add(*args) == "fallback"
    fallback: Any = add.fallback
    (given, keywords), *_ = fallback.calls
    assert all(x is y for x, y in zip(given, args, strict=True))
    assert not keywords


@pytest.mark.parametrize("keywords", [{"b": B}, {"x": 1}, {"out": A, "x": 1}, {"out": 3}, {"out": B}])
def test_keywords_fall_back(function_type: type[NativeFunction], keywords: dict[str, Any]) -> None:
    add = make(function_type, kernels.add())
    args = (A,) if "b" in keywords else (A, B)
    assert add(*args, **keywords) == "fallback"
    fallback: Any = add.fallback
    assert fallback.calls == [(args, keywords)]


def test_partial_overlap_falls_back_and_neighbours_do_not(function_type: type[NativeFunction]) -> None:
    add = make(function_type, kernels.add())
    memory = np.zeros(48, np.float32)
    a, b, c = memory[:16], memory[16:32], memory[32:]
    a[:], b[:] = operands()
    assert add(a, b, c) is c
    np.testing.assert_array_equal(c, a + b)
    assert add(a, b, memory[8:24]) == "fallback"
    assert add(a, b, memory[31:47]) == "fallback"


def test_empty_arrays_never_overlap(function_type: type[NativeFunction]) -> None:
    add = make(function_type, kernels.add("n"))
    memory = np.zeros(4, np.float32)
    out = memory[2:2]
    assert add(memory[1:1], memory[2:2], out) is out


def test_dtype_by_number(function_type: type[NativeFunction]) -> None:
    """Equal dtypes need not be one object."""
    a, b = operands()
    other = np.dtype("f4", metadata={"unit": "m"})
    assert other is not a.dtype
    np.testing.assert_array_equal(make(function_type, kernels.add())(a.astype(other), b), a + b)


def test_dtype_of_another_package(function_type: type[NativeFunction]) -> None:
    parameters = (Parameter("a", dtypes.bfloat16, ("n",)), Parameter("c", dtypes.bfloat16, ("n",), "out"))

    call = make(function_type, kernels.kernel(Signature("nothing", parameters, ("n",)), _nothing))
    assert call(np.zeros(3, dtypes.bfloat16.to_numpy())).dtype == dtypes.bfloat16.to_numpy()
    assert call(np.zeros(3, np.float16)) == "fallback"


@pytest.mark.parametrize("long", [False, True])
def test_status_becomes_an_exception(function_type: type[NativeFunction], *, long: bool) -> None:
    call = make(function_type, kernels.status(long=long))
    assert call(np.array(0, np.int32)).shape == (4,)
    with pytest.raises(RuntimeCheckError, match="status: index 7 is out of range"):
        call(np.array(1, np.int32))
    with pytest.raises(RuntimeCheckError, match="division by zero"):
        call(np.array(2, np.int32), np.empty(4, np.float32))
    with pytest.raises(MemoryError, match="scratch"):
        call(np.array(-2, np.int32))
    with pytest.raises(KeyboardInterrupt):
        call(np.array(-1, np.int32))
    with pytest.raises(InternalError, match="returned status 3"):
        call(np.array(3, np.int32))
    assert call(np.array(0, np.int32)).shape == (4,)


def test_status_in_other_threads(function_type: type[NativeFunction]) -> None:
    call = make(function_type, kernels.status(long=True))
    caught: list[BaseException] = []

    def work() -> None:
        for _ in range(50):
            try:
                call(np.array(1, np.int32))
            except RuntimeCheckError as error:
                caught.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caught) == 200


def test_eight_threads_call_at_once(function_type: type[NativeFunction]) -> None:
    add = make(function_type, kernels.add(), kernels.add("n"))
    wrong: list[int] = []

    def work(seed: int) -> None:
        for i in range(100):
            a, b = operands(16 + i % 3)
            a += seed
            if not np.array_equal(add(a, b), a + b):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_replacing_specialisations_while_calling(function_type: type[NativeFunction]) -> None:
    add = make(function_type, kernels.add())
    a, b = operands()
    done = threading.Event()

    def replace() -> None:
        while not done.is_set():
            add.clear()
            add.add(kernels.add("n"))
            add.add(kernels.add())
            add.replace((kernels.add(),))

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(2000):
            result = add(a, b)
            assert result == "fallback" if isinstance(result, str) else np.array_equal(result, a + b)
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("outputs_given", [False, True])
def test_reference_counts(outputs_given: bool) -> None:
    """No call keeps or loses a reference, whichever way it ends."""
    add, raising = make(NativeFunction, kernels.add()), make(NativeFunction, kernels.status())
    two = make(NativeFunction, kernels.sum_and_difference())
    nothing = make(NativeFunction, kernels.accumulate())
    a, b = operands()
    c = np.empty_like(a)
    m = np.ones((3, 2), np.int64)
    outs = np.empty_like(m), np.empty_like(m)
    bad, x, one = np.array(1, np.int32), np.ones(4, np.int64), np.ones(4, np.int64)
    watched: list[Any] = [a, b, c, m, outs, *outs, bad, x, one, None, np.ndarray, a.dtype, m.dtype, add, raising, two]
    watched += [kernels.add(), kernels.status(), kernels.sum_and_difference()]

    def work() -> None:
        for _ in range(100):
            if outputs_given:
                add(a, b, out=c)
                add(a, b, c)
                two(m, m, out=outs)
                two(m, m, *outs)
            else:
                add(a, b)
                two(m, m)
            nothing(one, x)
            add(1, 2)
            with pytest.raises(RuntimeCheckError):
                raising(bad)

    fallback: Any = add.fallback
    work()
    fallback.calls.clear()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in watched]
    work()
    fallback.calls.clear()
    gc.collect()
    after = [sys.getrefcount(thing) for thing in watched]
    assert all(abs(y - x) < 20 for x, y in zip(before, after, strict=True)), list(zip(before, after, strict=True))


def test_subclass_has_attributes_and_methods(function_type: type[NativeFunction]) -> None:
    class Kernel(function_type):  # type: ignore[misc, valid-type]
        name = "unnamed"

        def autotune(self) -> str:
            return f"tuned {self.name}"

    kernel: Any = Kernel(Fallback())
    kernel.name = "add"
    kernel.add(kernels.add())
    a, b = operands()
    np.testing.assert_array_equal(kernel(a, b), a + b)
    assert kernel.autotune() == "tuned add"
    assert kernel.__dict__["name"] == "add"
    assert weakref.ref(kernel)() is kernel


def test_subclass_that_overrides_call() -> None:
    class Traced(NativeFunction):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return ("traced", super().__call__(*args, **kwargs))

    traced = Traced(Fallback())
    assert traced(1) == ("traced", "fallback")


def test_cycle_through_the_fallback_is_collected(function_type: type[NativeFunction]) -> None:
    class Owner(function_type):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(self.generic)
            self.me = self

        def generic(self, *_: Any) -> None:
            pass

    owner: Any = Owner()
    owner.add(kernels.add())
    watch = weakref.ref(owner)
    del owner
    gc.collect()
    assert watch() is None


def test_fallback_raises_through() -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise ZeroDivisionError("in the fallback")

    with pytest.raises(ZeroDivisionError, match="in the fallback"):
        NativeFunction(refuse)(1)


def test_never_initialised() -> None:
    with pytest.raises(TypeError, match="never initialised"):
        NativeFunction.__new__(NativeFunction)(1)


def test_signature_must_bind_its_extents() -> None:
    with pytest.raises(InternalError, match="extent n of f occurs in the shape of no argument"):
        Signature("f", (Parameter("c", dtypes.float32, ("n",), "out"),), ("n",))
    with pytest.raises(InternalError, match="extent m of c"):
        Signature("f", (Parameter("a", dtypes.float32, ("n",)), Parameter("c", dtypes.float32, ("m",), "out")), ("n",))


def test_bound_arrays_must_fit() -> None:
    with pytest.raises(InternalError, match=r"binds \['w'\]"):
        kernels.kernel(Signature("f", (Parameter("w", dtypes.float32, (2,), "bound"),)), _nothing)
    with pytest.raises(InternalError, match=r"cannot be bound to int64\[3\]"):
        kernels.kernel(
            Signature("f", (Parameter("w", dtypes.float32, (2,), "bound"),)),
            _nothing,
            bound={"w": np.zeros(3, np.int64)},
        )
