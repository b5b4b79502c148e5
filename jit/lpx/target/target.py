"""`Target`: parsed from a string, printed back to it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from lpx.errors import TargetError
from lpx.records import record
from lpx.target import cpu, cuda, host
from lpx.target.cuda import CudaMachine
from lpx.target.machine import Arch, CpuMachine

Kind = Literal["cpu", "cuda", "cuda-sim"]

_FORMS = (
    "targets are cpu, cpu:PROCESSOR[,+feature,-feature], cpu:TRIPLE/PROCESSOR[,...], cuda[:sm_NN], cuda-sim[:sm_NN]"
)

_GPU_TRIPLE = "nvptx64-nvidia-cuda"
_BASELINE_GPU = "sm_80"

_SHORTCUTS: dict[str, tuple[Arch, str]] = {  # instruction sets that stand for a processor
    "sse2": ("x86_64", "x86-64"),
    "avx2": ("x86_64", "x86-64-v3"),
    "avx512": ("x86_64", "x86-64-v4"),
    "neon": ("aarch64", "generic"),
    "sve": ("aarch64", "neoverse-v1"),  # vectors of 256 bits, so that nobody takes the length for granted
    "rvv": ("riscv64", "sifive-p670"),
}


@record
class Target:
    """What code is made for. Make one with `Target.parse`, which checks every name.

    `triple` and `processor` are LLVM's; `features` are "+name" or "-name" relative to what the processor's name
    implies, sorted and as short as can be, so that equal targets compare equal. For a GPU the processor is "sm_90a" and
    the like.
    """

    kind: Kind
    triple: str
    processor: str
    features: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str | Target) -> Target:
        """The target that `text` names (see `lpx.target`); a `Target` is returned as it is.

        Raises `TargetError` with the nearest known name where kind, triple, processor or feature is unknown: LLVM would
        only warn and make code for something else.
        """
        return text if isinstance(text, Target) else _parse(text.strip())

    def __str__(self) -> str:
        if self.kind != "cpu":
            return f"{self.kind}:{self.processor}"
        return ",".join([f"cpu:{self.triple}/{self.processor}", *self.features])

    @property
    def arch(self) -> Arch | Literal["nvptx64"]:
        """Instruction-set architecture."""
        return cpu.arch_of(self.triple) or "nvptx64"

    @property
    def cpu(self) -> CpuMachine:
        """The CPU behind a `cpu` target; `TargetError` for another kind."""
        arch = cpu.arch_of(self.triple)
        if arch is None:
            raise TargetError(f"{self} is not a CPU", hint="Target.gpu describes it")
        describe = cpu.describe_host if self.is_host else cpu.describe
        return describe(arch, self.processor, self.features)

    @property
    def gpu(self) -> CudaMachine:
        """The GPU behind a `cuda` or `cuda-sim` target; `TargetError` for another kind."""
        if self.kind == "cpu":
            raise TargetError(f"{self} is not a GPU", hint="Target.cpu describes it")
        return cuda.describe(self.processor)

    @property
    def is_host(self) -> bool:
        """Whether this is exactly the machine the process runs on."""
        return self.kind == "cpu" and self == _host()

    @property
    def runs_here(self) -> bool:
        """Whether this process can call code made for this CPU: same system, and no feature the host lacks."""
        if self.kind != "cpu" or self.triple != host.processor().triple:
            return False
        if self.is_host:
            return True
        asked = {text[1:] for text in self.features if text[0] == "+"} | self.cpu.features
        return asked <= host.processor().features | _host().cpu.features

    @property
    def llvm_features(self) -> str:
        """The feature string LLVM's target machine wants next to `processor`.

        Complete for the host, where a hypervisor may hide what the processor's name implies; the lowest PTX version for
        a GPU.
        """
        if self.kind != "cpu":
            return f"+ptx{self.gpu.ptx}"
        return host.processor().feature_string if self.is_host else ",".join(self.features)


@lru_cache(maxsize=256)
def _parse(text: str) -> Target:
    kind, colon, rest = text.partition(":")
    if colon and not rest:
        raise TargetError(f"target {text!r} names nothing after the colon", hint=_FORMS)
    match kind:
        case "cpu":
            return _parse_cpu(rest) if rest else _host()
        case "cuda":
            return _gpu("cuda", rest or cuda.detect() or _BASELINE_GPU)
        case "cuda-sim":
            return _gpu("cuda-sim", rest or _BASELINE_GPU)
        case _:
            raise TargetError(f"unknown target {text!r}", hint=_FORMS)


def _gpu(kind: Literal["cuda", "cuda-sim"], name: str) -> Target:
    if name not in cuda.NAMES:
        raise TargetError(f"unknown GPU architecture {name!r}", hint=_nearest(name, cuda.NAMES))
    return Target(kind, _GPU_TRIPLE, name)


def _parse_cpu(text: str) -> Target:
    place, *signed = (part.strip() for part in text.split(","))
    triple, slash, name = place.rpartition("/")
    if not slash:
        arch, name = _find_processor(name)
        return _cpu(_default_triple(arch), arch, name, signed)
    known = cpu.arch_of(triple)
    if known is None or triple.count("-") < 2:
        triples = [family.triple for family in cpu.FAMILIES.values()]
        raise TargetError(f"{triple!r} is not a triple that lpx knows", hint=_nearest(triple, triples))
    return _cpu(triple, known, name, signed)


def _find_processor(name: str) -> tuple[Arch, str]:
    """Architecture and LLVM name of a shortcut, or of a processor only one architecture has."""
    if name in _SHORTCUTS:
        return _SHORTCUTS[name]
    for arch, family in cpu.FAMILIES.items():
        if name in family.cores:
            return arch, name
    here = _host()
    if name == here.processor and here.arch != "nvptx64":
        return here.arch, name
    names = [*_SHORTCUTS, *(core for family in cpu.FAMILIES.values() for core in family.cores)]
    raise TargetError(f"unknown processor {name!r}", hint=_nearest(name, names))


def _cpu(triple: str, arch: Arch, name: str, signed: Iterable[str]) -> Target:
    family = cpu.FAMILIES[arch]
    if name not in family.cores and not (arch == _host_arch() and name == host.processor().name):
        raise TargetError(f"unknown {arch} processor {name!r}", hint=_nearest(name, family.cores))
    signed = tuple(signed)
    for text in signed:
        if text[:1] not in ("+", "-"):
            raise TargetError(f"feature {text!r} has no sign", hint=f"write +{text} or -{text}")
        if text[1:] not in family.legal:
            raise TargetError(f"unknown {arch} feature {text[1:]!r}", hint=_nearest(text[1:], family.legal))
    return Target("cpu", triple, name, cpu.canonical_features(arch, name, signed))


def _default_triple(arch: Arch) -> str:
    """This machine's own triple for its own architecture, Linux for another."""
    return host.processor().triple if arch == _host_arch() else cpu.FAMILIES[arch].triple


def _host_arch() -> Arch | None:
    return cpu.arch_of(host.processor().triple)


@lru_cache(maxsize=1)
def _host() -> Target:
    found = host.processor()
    arch = cpu.arch_of(found.triple)
    if arch is None:
        raise TargetError(
            f"lpx makes no code for this machine ({found.triple})", hint=f"it knows {', '.join(cpu.FAMILIES)}"
        )
    signed = [
        ("+" if feature in found.features else "-") + feature
        for feature in cpu.FAMILIES[arch].implies
        if feature in cpu.FAMILIES[arch].legal
    ]
    return Target("cpu", found.triple, found.name, cpu.canonical_features(arch, found.name, signed))


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(names)}"
