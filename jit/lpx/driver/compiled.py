"""Compiled kernels: object code, how it is called, what prepares its constants, and all of that as cached bytes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from lpx import dtypes
from lpx.records import record, replace
from lpx.runtime import arrays as generic
from lpx.runtime.lasting import lasting_empty
from lpx.runtime.signature import Parameter, Signature
from lpx.runtime.specialisation import Specialisation
from lpx.runtime.support import link_kernel

Array = NDArray[Any]


@record
class Code:
    """Object code of one function, and how it is called."""

    data: bytes
    entry: str
    signature: Signature
    long: bool


@record
class Preparation:
    """What runs once when a kernel is linked: `code` makes arrays of the constants at positions `sources`.

    The kernel then takes, of the parameters of the function it is compiled from, those at positions `kept`, and the
    arrays behind them.
    """

    code: Code
    sources: tuple[int, ...]
    kept: tuple[int, ...]

    def run(self, constants: Sequence[Array]) -> tuple[Array, ...]:
        """The prepared arrays, from the constants at `sources`."""
        linked = link_kernel(self.code.data, (self.code.entry,))
        names = [p.name for p in self.code.signature.parameters if p.role == "bound"]
        bound = dict(zip(names, constants, strict=True))
        once = Specialisation(self.code.signature, linked, entry=self.code.entry, bound=bound, long=self.code.long)
        made = [_lasting(p) for p in self.code.signature.outputs]
        generic.call(once, made, {})
        return tuple(made)


def _lasting(parameter: Parameter) -> Array:
    return lasting_empty([d for d in parameter.shape if isinstance(d, int)], parameter.dtype.to_numpy())


@record
class Compiled:
    """Machine code of one function, and the seconds each phase took (all but linking 0 when cached).

    `signature` is that of the function. The kernel's own differs from it where there is a preparation.
    """

    kernel: Code
    signature: Signature
    preparation: Preparation | None
    seconds: dict[str, float]
    cached: bool

    @property
    def entry(self) -> str:
        """The name of the kernel in its object."""
        return self.kernel.entry

    def link(self, signature: Signature | None = None, bound: Mapping[str, Array] | None = None) -> Specialisation:
        """The code in memory, constants prepared. `signature` may give parameters other names, or make some `bound`."""
        begin = time.perf_counter()
        code = link_kernel(self.kernel.data, (self.entry,))
        own, arrays = self.bind(signature or self.signature, bound or {})
        made = Specialisation(own, code, entry=self.entry, bound=arrays, long=self.kernel.long)
        self.seconds["link"] = time.perf_counter() - begin
        return made

    def bind(self, signature: Signature, bound: Mapping[str, Array]) -> tuple[Signature, Mapping[str, Array]]:
        """The kernel's signature and arrays, given those of the function it is compiled from."""
        if self.preparation is None:
            return signature, bound
        names = [p.name for p in signature.parameters]
        made = self.preparation.run([bound[names[k]] for k in self.preparation.sources])
        kept = [signature.parameters[k] for k in self.preparation.kept]
        prepared = self.kernel.signature.parameters[len(kept) :]
        own = unique_names([p.name for p in (*kept, *prepared)])
        parameters = tuple(replace(p, name=n) for p, n in zip((*kept, *prepared), own, strict=True))
        arrays = {n: bound[p.name] for n, p in zip(own, kept, strict=False) if p.role == "bound"}
        arrays.update(zip(own[len(kept) :], made, strict=True))
        return replace(signature, parameters=parameters), arrays


def unique_names(names: Sequence[str]) -> list[str]:
    """The names in order, a repeated one with a number behind it."""
    seen: dict[str, int] = {}
    unique: list[str] = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        unique.append(name if not count else f"{name}_{count}")
    return unique


def encode(compiled: Compiled) -> dict[str, Any]:
    """All but the object code, as JSON."""
    preparation = compiled.preparation
    return {
        "kernel": _encode_code(compiled.kernel),
        "signature": _encode_signature(compiled.signature),
        "preparation": None
        if preparation is None
        else {
            "code": _encode_code(preparation.code),
            "sources": list(preparation.sources),
            "kept": list(preparation.kept),
        },
    }


def decode(metadata: Mapping[str, Any], kernel: bytes, preparation: bytes) -> Compiled:
    """What `encode` gave, with the object code of the kernel and of its preparation (empty where it has none)."""
    code, described = _decode_code(kernel, metadata["kernel"]), metadata["preparation"]
    prepared = None
    if described is not None:
        once = _decode_code(preparation, described["code"])
        prepared = Preparation(once, tuple(described["sources"]), tuple(described["kept"]))
    return Compiled(code, _decode_signature(metadata["signature"]), prepared, {}, cached=True)


def _encode_code(code: Code) -> dict[str, Any]:
    return {"entry": code.entry, "signature": _encode_signature(code.signature), "long": code.long}


def _decode_code(data: bytes, metadata: Mapping[str, Any]) -> Code:
    return Code(data, metadata["entry"], _decode_signature(metadata["signature"]), bool(metadata["long"]))


def _encode_signature(signature: Signature) -> dict[str, Any]:
    return {
        "name": signature.name,
        "parameters": [[p.name, p.dtype.name, list(p.shape), p.role] for p in signature.parameters],
        "extents": list(signature.extents),
        "checks": list(signature.checks),
    }


def _decode_signature(metadata: Mapping[str, Any]) -> Signature:
    parameters = tuple(
        Parameter(name, dtypes.parse(dtype), tuple(shape), role) for name, dtype, shape, role in metadata["parameters"]
    )
    return Signature(metadata["name"], parameters, tuple(metadata["extents"]), (), tuple(metadata["checks"]))
