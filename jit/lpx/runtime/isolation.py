"""One function out of a foreign LLVM module, with what it needs and nothing else, as text that tells its code apart.

Names of symbols, and of the module and its source, differ from process to process; equal code gets equal text.
"""

from __future__ import annotations

import re
from typing import Any

from lpx.records import record
from lpx.runtime.objects import llvm, parse_module, target_machine

_HEADER = re.compile(
    r"^(; ModuleID|; Function Attrs|source_filename|target triple|target datalayout).*\n", re.MULTILINE
)
_VARIABLE = re.compile(r"= [\w ]*\bglobal\b")


@record
class Isolated:
    """LLVM IR that defines one function, for itself, and those that it calls.

    `needs` names what it declares and does not define, but for intrinsics. `variables` names what it defines that is
    not constant: memory, or addresses, of the process that made it.
    """

    text: str
    needs: tuple[str, ...]
    variables: tuple[str, ...]


def isolate(text: str, symbol: str, name: str) -> Isolated:
    """The function `symbol` of a module, called `name`; what it calls or reads is called `<name>.1`, `<name>.2`, ..."""
    module = parse_module(text)
    _keep_only(module, symbol)
    module.get_function(symbol).linkage = llvm.Linkage.internal
    needs = tuple(f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm."))
    variables = tuple(g.name for g in module.global_variables if _VARIABLE.search(str(g)))
    _rename(module, symbol, name)
    return Isolated(_HEADER.sub("", str(module)).strip(), needs, variables)


def _keep_only(module: Any, symbol: str) -> None:
    for item in (*module.functions, *module.global_variables):
        if not item.is_declaration and item.name != symbol:
            item.linkage = llvm.Linkage.internal
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.add_strip_dead_prototype_pass()
    manager.run(module, llvm.create_pass_builder(target_machine(), llvm.create_pipeline_tuning_options()))


def _rename(module: Any, symbol: str, name: str) -> None:
    module.get_function(symbol).name = name
    defined = [i for i in (*module.functions, *module.global_variables) if not i.is_declaration and i.name != name]
    for number, item in enumerate(defined, 1):
        item.name = f"{name}.{number}"
