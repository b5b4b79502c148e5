"""`lpx.onnx.load`: a model that compiles itself for the shapes it is called with."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from lpx import dtypes
from lpx.driver.lowered import Lowered
from lpx.dtypes import DType
from lpx.errors import ArgumentError, UnsupportedError
from lpx.frontends.onnx import tensors
from lpx.frontends.onnx.context import Context, NeedsValues, Operand
from lpx.frontends.onnx.importer import Importer, OnFault
from lpx.frontends.onnx.program import ModelSource, Program, read_program
from lpx.graph.executable import Executable, compile_graph
from lpx.graph.nodes import Graph
from lpx.graph.rewrites import simplify
from lpx.records import record
from lpx.runtime import arrays as generic
from lpx.runtime.foreign import result_kind, to_numpy
from lpx.runtime.native import NativeFunction
from lpx.target import Target

Array = NDArray[Any]
VALUE_LIMIT = 64
"""An input with more elements than this is never compiled in."""


@record
class TensorType:
    """An input as the model declares it.

    A dimension is an extent, a name, or None; a shape of None is unknown.
    """

    name: str
    dtype: DType
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        dims = "..." if self.shape is None else ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.name}: {self.dtype}[{dims}]"


@record
class _Argument:
    """One input as a compilation sees it: type and shape, and its elements where they are compiled in."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    data: bytes | None = None

    def __str__(self) -> str:
        typed = f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"
        if self.data is None:
            return typed
        return f"{typed} = {np.frombuffer(self.data, self.dtype.to_numpy()).tolist()}"


_Key = tuple[_Argument, ...]


class Model(NativeFunction):
    """A model, compiled once for each set of input dtypes and shapes it is called with.

    `model(x, y)` and `model(x=..., y=...)` give the output, or a tuple of them when there are several; `run` takes and
    gives them by name. Inputs whose elements decide shapes or branches are compiled in, at most 64 elements each.
    """

    def __init__(self, program: Program, target: Target, fastmath: Sequence[str], strict: bool) -> None:
        super().__init__(self._call, positional_outputs=False)
        self.program = program
        self.target = target
        self._fastmath, self._strict = tuple(fastmath), strict
        self._compiled: dict[_Key, Executable] = {}
        self._values: set[str] = set()
        self._compile_lock = threading.RLock()
        defaults = {t.name for t in program.graph.initializer}
        declared = [_declared(info) for info in program.graph.input]
        self.inputs = tuple(t for t in declared if t.name not in defaults)
        self.optional_inputs = tuple(t for t in declared if t.name in defaults)
        self.outputs = tuple(info.name for info in program.graph.output)

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.program.graph.name

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, given the inputs by name.

        Raises: ArgumentError for missing, unknown or unfit arrays; what importing and compiling raise.
        """
        results = self._run(inputs)
        return dict(zip(self.outputs, results, strict=True))

    def compile(self, inputs: Mapping[str, Any]) -> Executable:
        """The machine code for arrays like these, by name."""
        return self._compile(self._checked(inputs))[1]

    def graph(self, inputs: Mapping[str, Any]) -> Graph:
        """The graph for arrays like these, as imported and rewritten."""
        arrays = self._checked(inputs)
        return self._import(self._key(arrays), arrays)

    def lower(self, inputs: Mapping[str, Any]) -> Lowered:
        """Every form the model goes through for arrays like these."""
        return self.compile(inputs).lowered()

    @property
    def stats(self) -> dict[str, dict[str, float]]:
        """Seconds spent per phase, for each compiled set of inputs."""
        return {", ".join(map(str, key)): dict(executable.seconds) for key, executable in self._compiled.items()}

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        named = {t.name for t in (*self.inputs, *self.optional_inputs)}
        out = kwargs.pop("out", None) if "out" not in named else None
        results = self._run(self._bind(args, kwargs), out)
        return results[0] if len(results) == 1 else results

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.inputs):
            raise ArgumentError(f"the model takes {len(self.inputs)} input(s), not {len(args)}", hint=self._hint())
        bound = {t.name: value for t, value in zip(self.inputs, args, strict=False)}
        twice = sorted(bound.keys() & kwargs.keys())
        if twice:
            raise ArgumentError(f"input {twice[0]!r} was given twice", hint=self._hint())
        return {**bound, **kwargs}

    def _run(self, inputs: Mapping[str, Any], out: Any = None) -> tuple[Any, ...]:
        arrays = self._checked(inputs)
        key, executable = self._compile(arrays)
        given = [arrays[a.name] for a in key if a.data is None]
        made: Any = generic.call(executable.specialisation, given, {} if out is None else {"out": out})
        results: tuple[Any, ...] = (made,) if len(self.outputs) == 1 else made
        if out is not None:
            return results
        wrap = result_kind(list(inputs.values()))
        return tuple(wrap(array) for array in results)

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """The arguments as arrays of the declared types, in declared order."""
        declared = {t.name: t for t in (*self.inputs, *self.optional_inputs)}
        unknown = sorted(inputs.keys() - declared.keys())
        if unknown:
            raise ArgumentError(f"the model has no input {unknown[0]!r}", hint=self._hint())
        missing = [t.name for t in self.inputs if t.name not in inputs]
        if missing:
            raise ArgumentError(f"the call lacks input {missing[0]!r}", hint=self._hint())
        return {name: _fit(inputs[name], t) for name, t in declared.items() if name in inputs}

    def _hint(self) -> str:
        return f"its inputs are {', '.join(map(str, (*self.inputs, *self.optional_inputs)))}"

    def _key(self, arrays: Mapping[str, Array]) -> _Key:
        return tuple(
            _Argument(name, dtypes.parse(a.dtype), a.shape, a.tobytes() if name in self._values else None)
            for name, a in arrays.items()
        )

    def _compile(self, arrays: Mapping[str, Array]) -> tuple[_Key, Executable]:
        key = self._key(arrays)
        if key in self._compiled:
            return key, self._compiled[key]
        with self._compile_lock:
            graph = self._import(key, arrays)
            key = self._key(arrays)  # the import may have asked for values
            if key not in self._compiled:
                executable = compile_graph(graph, self.target, fastmath=self._fastmath, strict=self._strict)
                self._compiled[key] = executable
                if not self._values and not any(t.name in arrays for t in self.optional_inputs):
                    self.add(executable.specialisation)
            return key, self._compiled[key]

    def _import(self, key: _Key, arrays: Mapping[str, Array]) -> Graph:
        """The graph for arguments like these; remembers which elements it had to know."""
        while True:
            try:
                return import_graph(self.program, self.target, {a.name: _operand_source(a, arrays) for a in key})
            except NeedsValues as need:
                self._values |= self._allowed(need, arrays)
                key = self._key(arrays)

    def _allowed(self, need: NeedsValues, arrays: Mapping[str, Array]) -> frozenset[str]:
        large = sorted(name for name in need.inputs if arrays[name].size > VALUE_LIMIT)
        if large:
            raise UnsupportedError(
                f"{need.why} depends on the elements of input {large[0]!r}",
                hint=f"shapes and branches may depend on inputs of up to {VALUE_LIMIT} elements",
            )
        return need.inputs


_Source = Array | tuple[DType, tuple[int, ...]]


def _operand_source(argument: _Argument, arrays: Mapping[str, Array]) -> _Source:
    return (argument.dtype, argument.shape) if argument.data is None else arrays[argument.name].copy()


def import_graph(
    program: Program, target: Target, inputs: Mapping[str, _Source], on_fault: OnFault | None = None
) -> Graph:
    """The rewritten graph of a program for inputs of these types; an input given as an array is a constant.

    Raises: NeedsValues; ModelError, UnsupportedError naming the node.
    """
    context = Context(_identifier(program.graph.name) or "model", target)
    operands: dict[str, Operand] = {}
    for name, source in inputs.items():
        if isinstance(source, tuple):
            dtype, shape = source
            operands[name] = context.input(dtype, shape, name)
        else:
            operands[name] = context.constant(source)
    outputs = Importer(program, context, on_fault).run(operands)
    return simplify(context.finish([x for x in outputs if x is not None]), target)


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")


def _declared(info: onnx.ValueInfoProto) -> TensorType:
    what = f"{info.name!r}"
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise UnsupportedError(
            f"{what} is a {kind or 'value without a type'}", hint="inputs and outputs must be tensors"
        )
    tensor = info.type.tensor_type
    dtype = tensors.dtype_of(tensor.elem_type, what)
    if not tensor.HasField("shape"):
        return TensorType(info.name, dtype, None)
    return TensorType(info.name, dtype, tuple(_dimension(d) for d in tensor.shape.dim))


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.WhichOneof("value") == "dim_param":
        return dim.dim_param or None
    return dim.dim_value if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0 else None


def _fit(value: Any, declared: TensorType) -> Array:
    """An argument as a plain array.

    Raises: ArgumentError when its dtype, rank or a fixed extent is not what the model declares.
    """
    array = to_numpy(value, declared.name)
    wanted = declared.dtype.to_numpy()
    if not array.ndim and declared.shape == () and np.can_cast(array.dtype, wanted, "same_kind"):
        array = array.astype(wanted)
    expected = f"{array.dtype}[{', '.join(map(str, array.shape))}] was given, {declared} is expected"
    if array.dtype.newbyteorder("=") != wanted:
        raise ArgumentError(f"input {declared.name} has another dtype: {expected}", hint=f"use astype({str(wanted)!r})")
    fixed = declared.shape
    if fixed is not None and len(fixed) != array.ndim:
        raise ArgumentError(f"input {declared.name} has another rank: {expected}")
    if fixed is not None and any(isinstance(d, int) and d != e for d, e in zip(fixed, array.shape, strict=True)):
        raise ArgumentError(f"input {declared.name} has another shape: {expected}")
    return np.asarray(array, wanted)


def load(
    source: ModelSource, target: str | Target = "cpu", *, fastmath: Sequence[str] = (), strict: bool = False
) -> Model:
    """A model from an ONNX file (or its bytes, or a ModelProto), to be compiled when it is called.

        model = lpx.onnx.load("model.onnx")
        y = model(x)

    External data are read from the file's own folder. `fastmath` lists LLVM fast-math flags to allow.
    `strict` keeps to the products and sums that the model says: see `lpx.jit`.

    Raises: ModelError when the file is malformed or unsafe; UnsupportedError for what lpx cannot run.
    """
    return Model(read_program(source), Target.parse(target), fastmath, strict)
