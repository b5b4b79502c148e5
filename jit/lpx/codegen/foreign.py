"""Functions that another compiler made, in as many lanes as a kernel wants.

Their code has one lane. For more, LLVM's vectorizer gets the loop that people would write:

    define <n x R> @"f.xn"(<n x A> %a0)          for i in 0..n: result[i] = f(a0[i])

A function that it cannot vectorize (one with a loop, or a call) runs lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from lpx.codegen.types import memory_element_of, type_of, value_type
from lpx.dtypes import DType, parse
from lpx.expr.foreign import ForeignFunction
from lpx.records import record

_FIRST_METADATA = 1_000_000  # beyond the numbers that a definition has


@record
class Foreign:
    """A function as kernels call it, on `lanes` lanes."""

    function: ForeignFunction
    lanes: int

    @property
    def name(self) -> str:
        """Its symbol."""
        own = self.function.op.name
        return own if self.lanes == 1 else f"{own}.x{self.lanes}"


def foreign_modules(wanted: Sequence[Foreign], triple: str, attributes: str) -> tuple[str, ...]:
    """LLVM modules that define these; `attributes` are those of the kernel that they become part of."""
    functions = dict.fromkeys(f.function for f in wanted)
    return tuple(
        "\n".join(
            (
                f'target triple = "{triple}"',
                function.definition,
                *(_lanewise(f, attributes, k) for k, f in enumerate(wanted) if f.function is function and f.lanes > 1),
            )
        )
        for function in functions
    )


def _lanewise(wanted: Foreign, attributes: str, number: int) -> str:
    function, lanes = wanted.function, wanted.lanes
    result = parse(function.op.result)
    loop = _FIRST_METADATA + 2 * number
    head = f'{value_type(result, lanes).text} @"{wanted.name}"({_parameters(function, lanes)})'
    lines = [
        f"define {head} alwaysinline {attributes} {{",
        "entry:",
        f"  %results = alloca [{lanes} x {memory_element_of(result)}], align 64",
        *(line for place, dtype in enumerate(function.parameters) for line in _spill(place, dtype, lanes)),
        "  br label %lane",
        "lane:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %lane ]",
        *(line for place, dtype in enumerate(function.parameters) for line in _reload(place, dtype)),
        f'  %y = call {value_type(result).text} @"{function.op.name}"({_operands(function)})',
        *_keep(result),
        "  %next = add nuw nsw i64 %i, 1",
        f"  %more = icmp ult i64 %next, {lanes}",
        f"  br i1 %more, label %lane, label %done, !llvm.loop !{loop}",
        "done:",
        *_gather(result, lanes),
        "}",
        f"!{loop} = distinct !{{!{loop}, !{loop + 1}}}",
        f'!{loop + 1} = !{{!"llvm.loop.unroll.disable"}}',
    ]
    return "\n".join(lines)


def _parameters(function: ForeignFunction, lanes: int) -> str:
    return ", ".join(f"{value_type(d, lanes).text} %a{k}" for k, d in enumerate(function.parameters))


def _operands(function: ForeignFunction) -> str:
    return ", ".join(f"{value_type(d).text} %x{k}" for k, d in enumerate(function.parameters))


def _spill(place: int, dtype: DType, lanes: int) -> list[str]:
    """An operand in memory, where a loop can index it."""
    memory, value = type_of(memory_element_of(dtype), lanes).text, f"%a{place}"
    lines = [f"  %p{place} = alloca [{lanes} x {memory_element_of(dtype)}], align 64"]
    if dtype.is_bool:
        lines.append(f"  %b{place} = zext {value_type(dtype, lanes).text} {value} to {memory}")
        value = f"%b{place}"
    return [*lines, f"  store {memory} {value}, ptr %p{place}, align 64"]


def _reload(place: int, dtype: DType) -> list[str]:
    """One lane of an operand."""
    element = memory_element_of(dtype)
    loaded = f"%m{place}" if dtype.is_bool else f"%x{place}"
    return [
        f"  %e{place} = getelementptr inbounds {element}, ptr %p{place}, i64 %i",
        f"  {loaded} = load {element}, ptr %e{place}, align {dtype.itemsize}",
        *([f"  %x{place} = trunc {element} {loaded} to i1"] if dtype.is_bool else []),
    ]


def _keep(result: DType) -> list[str]:
    """The result of one lane, put into memory."""
    element = memory_element_of(result)
    return [
        *([f"  %w = zext i1 %y to {element}"] if result.is_bool else []),
        f"  %place = getelementptr inbounds {element}, ptr %results, i64 %i",
        f"  store {element} {'%w' if result.is_bool else '%y'}, ptr %place, align {result.itemsize}",
    ]


def _gather(result: DType, lanes: int) -> list[str]:
    """All lanes of the result."""
    memory, vector = type_of(memory_element_of(result), lanes).text, value_type(result, lanes).text
    if not result.is_bool:
        return [f"  %all = load {vector}, ptr %results, align 64", f"  ret {vector} %all"]
    return [
        f"  %bytes = load {memory}, ptr %results, align 64",
        f"  %all = trunc {memory} %bytes to {vector}",
        f"  ret {vector} %all",
    ]
