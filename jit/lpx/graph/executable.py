"""Compiling graphs: groups of nodes to kernels, kernels to one callable."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from lpx import dtypes, rules, te
from lpx.codegen.program import Parameter as ProgramParameter
from lpx.codegen.program import Step, Workspace
from lpx.driver.compile import compile_function
from lpx.driver.compiled import Compiled, unique_names
from lpx.driver.flags import with_flags
from lpx.driver.lowered import Lowered, LoweredKernel
from lpx.driver.program import link_program
from lpx.errors import UnsupportedError
from lpx.expr.nodes import Expr, Var
from lpx.graph import aliases, memory
from lpx.graph.builder import define_graph
from lpx.graph.flattening import flatten_products
from lpx.graph.grouping import separate_groups
from lpx.graph.nodes import Graph, Value, print_graph
from lpx.graph.partition import Group, partition
from lpx.graph.permutations import merge_permuted_axes
from lpx.graph.winograd import use_winograd
from lpx.ir.nodes import Function
from lpx.records import record, replace
from lpx.runtime.signature import Dimension, Parameter, Role, Signature
from lpx.runtime.specialisation import Specialisation
from lpx.target import Target


@record
class Executable:
    """A compiled graph. Arguments are the graph's inputs, results its outputs."""

    graph: Graph
    target: Target
    specialisation: Specialisation
    seconds: Mapping[str, float]
    kernels: int
    fastmath: tuple[str, ...] = ()
    strict: bool = False

    def lowered(self) -> Lowered:
        """Every form of the graph, made anew for people to read."""
        kernels: list[LoweredKernel] = []
        subgraphs, inner = _kernel_graphs(self.graph, self.target, self.strict)
        for subgraph in subgraphs:
            function = _function_of(subgraph, inner.constants, self.fastmath)
            make = partial(rules.default_schedule, function, self.target)
            kernels.append(LoweredKernel(subgraph.name, function, self.target, make))
        return Lowered(print_graph(self.graph), kernels, self.seconds)


def compile_graph(graph: Graph, target: Target, *, fastmath: Sequence[str] = (), strict: bool = False) -> Executable:
    """Machine code for a graph.

    A graph with symbolic extents becomes one kernel; any other is cut into kernels that equal groups share. `strict`
    keeps to the products and sums that the graph says.

    Raises: TargetError when the target is not of this machine; what compiling a kernel raises.
    """
    begin = time.perf_counter()
    subgraphs, inner = _kernel_graphs(graph, target, strict)
    constants = inner.constants if graph.inputs else ()  # without inputs, all of it runs once
    compiled = [_compile(g, constants, target, tuple(fastmath)) for g in subgraphs]
    if len(subgraphs) == 1:
        signature = _signature(graph, inner.constants, compiled[0].signature)
        specialisation = compiled[0].link(signature, _bound(inner, signature))
    else:
        specialisation = _link(graph, inner, subgraphs, compiled, target)
    seconds = _total([c.seconds for c in compiled])
    seconds["all"] = time.perf_counter() - begin
    return Executable(graph, target, specialisation, seconds, len(subgraphs), tuple(fastmath), strict)


def _kernel_graphs(graph: Graph, target: Target, strict: bool) -> tuple[list[Graph], Graph]:
    """The graph of each kernel in running order, and `graph` in the shapes that they use.

    A graph of one kernel keeps its inputs, used or not.
    """
    inner = merge_permuted_axes(separate_groups(flatten_products(graph)))
    inner = aliases.without_outer_reshapes(inner)
    if not strict:
        inner = use_winograd(inner, inner.constants, target.cpu)
    symbolic = any(isinstance(d, Var) for v in graph.inputs for d in v.shape)
    groups = () if symbolic else partition(inner)
    if len(groups) <= 1:
        everything = (*inner.inputs, *inner.constants)
        return [replace(inner, name=_kernel_name(inner.nodes), inputs=everything, constants={})], inner
    return [_subgraph(group) for group in groups], _with_alias_constants(inner, groups)


def _with_alias_constants(graph: Graph, groups: Sequence[Group]) -> Graph:
    """`graph` with a constant for each reshape of a constant that a group reads."""
    makers, arrays = graph.producers(), dict(graph.constants)
    for value in (v for group in groups for v in group.inputs):
        source = aliases.root(value, makers, graph.constants)
        if source in graph.constants:
            arrays[value] = aliases.reshaped(graph.constants[source], value)
    return replace(graph, constants=arrays)


def _subgraph(group: Group) -> Graph:
    return Graph(_kernel_name(group.nodes), group.inputs, group.nodes, group.outputs)


def _kernel_name(nodes: Sequence[Any]) -> str:
    return "_".join(dict.fromkeys(n.operator.name for n in nodes if n.inputs))[:48] or "constant"


def _compile(graph: Graph, constants: Collection[Value], target: Target, fastmath: tuple[str, ...]) -> Compiled:
    known = [k for k, v in enumerate(graph.inputs) if v in constants]
    program = f"{print_graph(graph)}constants={known} fastmath={fastmath}"

    def scheduled() -> Function:
        return rules.default_schedule(_function_of(graph, constants, fastmath), target).schedule.function

    return compile_function(program, scheduled, target)


def _function_of(graph: Graph, constants: Collection[Value], fastmath: tuple[str, ...]) -> Function:
    """The function of a kernel's graph, some of whose inputs are constants."""
    tensors = define_graph(graph)
    inputs = [tensors[v] for v in graph.inputs]
    outputs = [_copy(t) if any(t is x for x in inputs) else t for t in (tensors[v] for v in graph.outputs)]
    function = te.lower(outputs, inputs, name=graph.name)
    known = {tensors[v].buffer for v in graph.inputs if v in constants}
    params = tuple(replace(p, role="constant") if p.buffer in known else p for p in function.params)
    return with_flags(replace(function, params=params), fastmath)


def _copy(x: te.Tensor) -> te.Tensor:
    """What an operator gave back as it was, such as a pad by nothing, where it is wanted in other memory."""

    def at(*i: Expr) -> Expr:
        return x[i]

    return te.compute(x.shape, at, name="copy")


def _signature(graph: Graph, constants: Iterable[Value], compiled: Signature | None = None) -> Signature:
    """The signature of a graph: inputs, then outputs; `constants` are `bound`, where the kernels have them."""
    groups: tuple[tuple[Iterable[Value], Role], ...] = (
        (graph.inputs, "in"),
        (constants, "bound"),
        (graph.outputs, "out"),
    )
    defaults = {"in": "x", "bound": "constant", "out": "out"}
    values: list[tuple[Value, Role]] = []
    for group, role in groups:
        values.extend((v, role) for v in group)
    names = unique_names([v.name or defaults[role] for v, role in values])
    parameters = tuple(
        Parameter(name, v.dtype, tuple(_dimension(d) for d in v.shape), role)
        for name, (v, role) in zip(names, values, strict=True)
    )
    extents = () if compiled is None else compiled.extents
    checks = () if compiled is None else compiled.checks
    return Signature(graph.name, parameters, extents, (), checks)


def _dimension(extent: object) -> Dimension:
    if isinstance(extent, int):
        return extent
    if isinstance(extent, Var):
        return extent.name
    raise UnsupportedError(
        "an output has an extent that is computed from symbolic ones",
        hint="make that dimension static, or keep it whole",
    )


def _bound(graph: Graph, signature: Signature) -> dict[str, NDArray[Any]]:
    names = [p.name for p in signature.parameters if p.role == "bound"]
    return dict(zip(names, graph.constants.values(), strict=True))


def _link(
    declared: Graph, graph: Graph, subgraphs: Sequence[Graph], compiled: Sequence[Compiled], target: Target
) -> Specialisation:
    graph, operands = _prepared(graph, subgraphs, compiled)
    order = (*graph.inputs, *graph.constants, *graph.outputs)
    places: dict[Value, ProgramParameter | Workspace] = {v: ProgramParameter(k) for k, v in enumerate(order)}
    makers = graph.producers()
    made = {**dict.fromkeys(order), **dict.fromkeys(v for g in subgraphs for v in g.outputs)}
    roots = {v: aliases.root(v, makers, made) for values in operands for v in values}
    groups = [Group(g.nodes, tuple(roots[v] for v in g.inputs if v in roots), g.outputs) for g in subgraphs]
    plan = memory.plan(groups, set(graph.outputs))
    places.update({value: Workspace(offset) for value, offset in plan.offsets.items()})
    steps: list[Step] = []
    checks: list[str] = []
    for values, kernel in zip(operands, compiled, strict=True):
        steps.append(Step(kernel.entry, tuple(places[roots[v]] for v in values), len(checks)))
        checks.extend(kernel.signature.checks)
    signature = replace(_signature(declared, graph.constants), checks=tuple(checks))
    kernels = {c.entry: c for c in compiled}
    return link_program(signature, kernels, steps, plan.size, _bound(graph, signature), target)


def _prepared(
    graph: Graph, subgraphs: Sequence[Graph], compiled: Sequence[Compiled]
) -> tuple[Graph, list[tuple[Value, ...]]]:
    """`graph` with the constants that its kernels take, prepared where they ask for it, and the operands of each."""
    arrays = dict(graph.constants)
    operands: list[tuple[Value, ...]] = []
    for subgraph, kernel in zip(subgraphs, compiled, strict=True):
        values: tuple[Value, ...] = (*subgraph.inputs, *subgraph.outputs)
        if kernel.preparation is not None:
            made = kernel.preparation.run([arrays[values[k]] for k in kernel.preparation.sources])
            prepared = {Value(dtypes.parse(a.dtype), a.shape): a for a in made}
            arrays.update(prepared)
            values = (*(values[k] for k in kernel.preparation.kept), *prepared)
        operands.append(values)
    used = {v for values in operands for v in values}
    return replace(graph, constants={v: a for v, a in arrays.items() if v in used}), operands


def _total(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for phase, seconds in part.items():
            total[phase] = total.get(phase, 0.0) + seconds
    return total
