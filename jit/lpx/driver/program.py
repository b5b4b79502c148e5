"""Linking kernels into a program: one entry that runs them in order on planned memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from lpx.codegen.program import Step, emit_program
from lpx.driver import fingerprint
from lpx.driver.compile import machine_of
from lpx.driver.compiled import Compiled
from lpx.runtime import objects
from lpx.runtime.cache import default_cache
from lpx.runtime.signature import Signature
from lpx.runtime.specialisation import Specialisation
from lpx.runtime.support import link_kernel, support_library
from lpx.target import Target


def link_program(
    signature: Signature,
    kernels: Mapping[str, Compiled],
    steps: Sequence[Step],
    workspace: int,
    bound: Mapping[str, NDArray[Any]],
    target: Target,
) -> Specialisation:
    """The program of `steps` over the parameters of `signature`.

    `kernels` are by their entry names; `bound` has an array for each parameter of role `bound`.
    """
    name = "lpx_program"
    text = emit_program(name, len(signature.parameters), workspace, steps)
    linked = objects.link_object(
        _object_of(text, target),
        (name,),
        libraries=(support_library().library,),
        callees=[link_kernel(compiled.kernel.data, (entry,)) for entry, compiled in kernels.items()],
    )
    return Specialisation(signature, linked, entry=name, bound=bound, long=True)


def _object_of(text: str, target: Target) -> bytes:
    key = fingerprint.key_of("program", text, target)
    entry = default_cache().load(key)
    if entry is not None:
        return entry.data
    data = objects.compile_module(text, machine_of(target))
    default_cache().store(key, data)
    return data
