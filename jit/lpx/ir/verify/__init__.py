"""The verifier: the rules of each stage of the IR as a table, and what checks a function against them."""

from __future__ import annotations

from lpx.errors import VerifyError
from lpx.ir import nodes
from lpx.ir.nodes import Function, Module
from lpx.ir.printer import render_with_mark
from lpx.ir.traverse import walk
from lpx.ir.verify import scoping, structure, threads, types
from lpx.ir.verify.sites import FunctionSites, Rule, Violation

RULES: tuple[Rule, ...] = (*scoping.RULES, *structure.RULES, *types.RULES, *threads.RULES)
"""Every rule. One file per family; `Rule.stages` says where a rule holds."""

_CONTEXT = 8  # lines of the function shown around a violation


def verify(function: Function) -> None:
    """Check `function` against the rules of its stage.

    Raises: VerifyError at the first violation; it names the rule, says what is legal, and shows the marked node.
    """
    _check_stage(function)
    sites = FunctionSites(function)
    for rule in RULES:
        if function.stage not in rule.stages:
            continue
        violation = next(rule.check(sites), None)
        if violation is not None:
            raise _error(function, rule, violation)


def verify_module(module: Module) -> None:
    """Check every function of `module`, that its entry exists, and that calls fit the functions they call.

    Raises: VerifyError.
    """
    if module.entry not in module.functions:
        raise VerifyError(f"the module has no function {module.entry} to enter", hint=f"it has {_names(module)}")
    for function in module.functions.values():
        verify(function)
        for stmt in walk(function.body):
            if isinstance(stmt, nodes.CallFunction):
                why = _call_problem(stmt, module)
                if why:
                    raise _error(function, _CALLS, Violation(stmt, why))


def _call_problem(stmt: nodes.CallFunction, module: Module) -> str:
    callee = module.functions.get(stmt.function)
    if callee is None:
        return f"the module has no function {stmt.function}; it has {_names(module)}"
    if len(stmt.buffers) != len(callee.params) or len(stmt.extents) != len(callee.symbols):
        return f"{stmt.function} takes {len(callee.params)} buffer(s) and {len(callee.symbols)} extent(s)"
    for buffer, param in zip(stmt.buffers, callee.params, strict=True):
        if buffer.dtype != param.buffer.dtype:
            return f"{buffer.name} is {buffer.dtype}, {stmt.function} takes {param.buffer.dtype}"
    return ""


_CALLS = Rule("calls", "a call names a function of the module and passes what it takes", lambda sites: iter(()))


def _names(module: Module) -> str:
    return ", ".join(module.functions)


def _check_stage(function: Function) -> None:
    stage = function.attrs.get("stage", "scheduled")
    if stage not in ("scheduled", "lowered", "flat"):
        raise VerifyError(f"{function.name} has stage {stage!r}", hint="the stages are scheduled, lowered and flat")


def _error(function: Function, rule: Rule, violation: Violation) -> VerifyError:
    stmt, expr = violation.stmt, violation.expr
    shown = render_with_mark(function, stmt if expr is None else expr, _CONTEXT, within=None if expr is None else stmt)
    message = f"{function.name} breaks rule {rule.name} ({function.stage}): {violation.why}\n{shown}"
    return VerifyError(message, hint=rule.legal, span=None if stmt is None else stmt.span)
