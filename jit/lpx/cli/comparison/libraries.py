"""The libraries that lpx is compared with, at their best settings and on the same number of threads.

All of them read the same memory where they can; what they need of their own (tensors, buffers for results, sessions,
compiled code) is made before anything is timed. Where a setting is best for some programs only, both are tried.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from lpx.cli.comparison.program import Array, Function, Program, aligned_like, bind_constants, in_words_of, takes_out
from lpx.cli.comparison.timing import Candidate, fastest
from lpx.errors import ArgumentError
from lpx.frontends.numpy.jit import jit
from lpx.records import record
from lpx.runtime.pool import get_num_threads

NAMES = ("numpy", "numba", "onnxruntime", "torch", "jax")


def installed(name: str) -> bool:
    """Whether a library is there to compare with."""
    return find_spec(name) is not None


def describe(names: Sequence[str] = NAMES) -> str:
    """Each library with its version, or that it is missing."""
    return ", ".join(f"{n} {importlib.metadata.version(n)}" if installed(n) else f"{n} is not installed" for n in names)


@contextmanager
def on_the_same_threads(names: Sequence[str] = NAMES) -> Generator[Libraries]:
    """Those libraries of `names` that are installed, in the block on as many threads as lpx has.

    JAX takes the number of threads once in a process, when it is first used.
    """
    count = get_num_threads()
    modules = {name: import_module(name) for name in names if installed(name)}
    with ExitStack() as stack:
        if "torch" in modules:
            stack.enter_context(_torch_on(modules["torch"], count))
        if "jax" in modules:
            _set_up_jax(modules["jax"], count)
        if "numba" in modules:
            _set_up_numba(modules["numba"], count)
        if installed("threadpoolctl"):
            stack.enter_context(import_module("threadpoolctl").threadpool_limits(limits=count))
        yield Libraries(modules, count)


@contextmanager
def _torch_on(torch: Any, count: int) -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with torch.inference_mode(), import_module("torch._inductor.config").patch(freezing=True):
            yield
    finally:
        torch.set_num_threads(before)


def _set_up_numba(numba: Any, count: int) -> None:
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    numba.config.DISABLE_PERFORMANCE_WARNINGS = 1  # of loops that it cannot share among threads


def _set_up_jax(jax: Any, count: int) -> None:
    os.putenv("NPROC", str(count))  # what XLA's client makes its pool of
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", val=True)
    jax.config.update("jax_cpu_enable_async_dispatch", val=False)


@record
class Libraries:
    """Modules by name, and their number of threads."""

    modules: Mapping[str, Any]
    threads: int

    def candidates(self, program: Program, failures: dict[str, str] | None = None) -> dict[str, Candidate]:
        """A call of `program` by each library that has words for it, lpx last.

        A library that fails is left out if `failures` are given, which then say why.
        """
        mine, result = _lpx(program)
        makers: dict[str, Callable[[Program, Array], dict[str, Candidate]]] = {
            "numpy": _numpy,
            "numba": self._numba,
            "onnxruntime": self._onnxruntime,
            "torch": self._torch,
            "jax": self._jax,
        }
        found: dict[str, Candidate] = {}
        for name in self.modules:
            try:
                made = makers[name](program, result)
                for run in made.values():
                    run()  # some compile when they are first called
            except Exception as error:  # of whatever class: it comes from another library
                if failures is None:
                    raise
                failures[name] = next(iter(str(error).strip().splitlines()), type(error).__name__)
            else:
                found |= made
        return {**found, "lpx": mine}

    def _numba(self, program: Program, result: Array) -> dict[str, Candidate]:
        if program.numba is None:
            return {}
        compiled = self.modules["numba"].njit(fastmath=True, parallel=self.threads > 1)(program.numba)
        return {"numba": _call(program.numba, compiled, program, result)}

    def _onnxruntime(self, program: Program, result: Array) -> dict[str, Candidate]:
        if not program.nodes:
            return {}
        session = _session(self.modules["onnxruntime"], program, result.dtype, self.threads)
        output = program.nodes[-1][2]
        feed = dict(program.arguments)
        binding = session.io_binding()
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        binding.bind_output(output)

        def run() -> Any:
            return session.run([output], feed)[0]

        def run_bound() -> Any:
            session.run_with_iobinding(binding)
            return binding.get_outputs()[0]

        return {"onnxruntime": fastest([run, run_bound])}

    def _torch(self, program: Program, _result: Array) -> dict[str, Candidate]:
        torch = self.modules["torch"]
        said = in_words_of(torch, program.torch or program.function)
        if said is None:
            return {}
        import_module("torch._dynamo").reset()  # it counts how often code is compiled, and gives up
        inputs = {name: _tensor(torch, array) for name, array in program.inputs.items()}
        plain, arrays = _without_out(said), list(inputs.values())
        eager: list[Candidate] = [lambda: plain(*arrays)]
        if takes_out(said):
            out = torch.empty_like(plain(*arrays))
            eager.append(lambda: said(*arrays, out=out))
        return {"torch": fastest(eager), "torch_compile": fastest(_compiled_by_torch(torch, program, plain, inputs))}

    def _jax(self, program: Program, _result: Array) -> dict[str, Candidate]:
        jax = self.modules["jax"]
        said = in_words_of(jax, program.jax) or in_words_of(jax.numpy, program.function)
        if said is None:
            return {}
        compiled = jax.jit(said)
        inputs = [jax.device_put(array) for array in program.inputs.values()]
        return {"jax": lambda: compiled(*inputs).block_until_ready()}


def _lpx(program: Program) -> tuple[Candidate, Array]:
    """A call that writes to an array, and that array."""
    compiled, inputs = program.built, list(program.arguments.values())
    if compiled is None:
        said = program.lpx or in_words_of(np, program.function)
        if said is None:
            raise ArgumentError(f"nothing says how lpx computes {program.name}", hint="give it `lpx` or `function`")
        constants = {name: _read_only(program.inputs[name]) for name in program.constants}
        compiled = jit(bind_constants(program, said, constants))
    result = compiled(*inputs)
    if isinstance(result, tuple):
        raise ArgumentError(f"{program.name} gives several results", hint="compare what gives one array")
    out = aligned_like(np.asarray(result))
    return lambda: compiled(*inputs, out=out), out


def _read_only(array: Array) -> Array:
    """The same memory as a constant of compiled functions."""
    constant = array.view()
    constant.flags.writeable = False
    return constant


def _numpy(program: Program, result: Array) -> dict[str, Candidate]:
    said = program.numpy or in_words_of(np, program.function)
    return {} if said is None else {"numpy": _call(said, said, program, result)}


def _call(said: Function, compiled: Function, program: Program, result: Array) -> Candidate:
    """A call of `compiled`, with an array of its own to write to where `said`, its source, takes one."""
    inputs = list(program.inputs.values())
    if not takes_out(said):
        return lambda: compiled(*inputs)
    out = aligned_like(result)

    def run() -> Array:
        compiled(*inputs, out)
        return out

    return run


def _session(onnxruntime: Any, program: Program, dtype: np.dtype[Any], threads: int) -> Any:
    """An inference session over the program's nodes, which holds its constants and may lay them out as it likes."""
    onnx: Any = import_module("onnx")
    helper = onnx.helper
    nodes = [helper.make_node(op, list(names), [out], **attributes) for op, names, out, attributes in program.nodes]
    arguments = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in program.arguments.items()
    ]
    constants = {name: program.inputs[name] for name in program.constants} | dict(program.attributes or {})
    held = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    result = helper.make_tensor_value_info(program.nodes[-1][2], helper.np_dtype_to_tensor_dtype(dtype), None)
    graph = helper.make_graph(nodes, "program", arguments, [result], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _tensor(torch: Any, array: Array) -> Any:
    """The same memory as a tensor."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _without_out(said: Function) -> Function:
    return (lambda *inputs: said(*inputs, out=None)) if takes_out(said) else said


def _compiled_by_torch(torch: Any, program: Program, plain: Function, inputs: Mapping[str, Any]) -> list[Candidate]:
    """Calls of what torch.compile makes of a function, among which the fastest is to be found.

    Constants are parameters of a module, which freezing lets the compiler lay out otherwise; it then may measure which
    kernel is best for products by them. Else the result goes to new memory, or to a given tensor, which pays for large
    ones.
    """
    arguments = [tensor for name, tensor in inputs.items() if name not in program.constants]
    if program.constants:
        modules = [_module(torch, program, plain, inputs) for _ in TORCH_MODES]
        compiled = [torch.compile(m, mode=w, dynamic=False) for m, w in zip(modules, TORCH_MODES, strict=True)]
        return [partial(function, *arguments) for function in compiled]
    out = torch.empty_like(plain(*arguments))

    def into(*arguments: Any) -> Any:
        return out.copy_(plain(*arguments))

    return [partial(torch.compile(way, dynamic=False, fullgraph=True), *arguments) for way in (plain, into)]


TORCH_MODES = ("default", "max-autotune-no-cudagraphs")


def _module(torch: Any, program: Program, plain: Function, inputs: Mapping[str, Any]) -> Any:
    """A module whose parameters are the program's constants, called with its arguments."""
    order = sorted(program.constants)
    arguments = list(program.arguments)
    places = [(n in program.constants, (order if n in program.constants else arguments).index(n)) for n in inputs]

    def forward(self: Any, *given: Any) -> Any:
        return plain(*[self.held[i] if constant else given[i] for constant, i in places])

    module = type("WithConstants", (torch.nn.Module,), {"forward": forward})()
    module.held = torch.nn.ParameterList(torch.nn.Parameter(inputs[n], requires_grad=False) for n in order)
    return module
