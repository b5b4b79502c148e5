"""CPU targets: names and features checked against what LLVM knows, and the machine they describe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import get_args

from lpx.records import record, replace
from lpx.target import aarch64, host, riscv, x86
from lpx.target.machine import Arch, Core, CpuMachine, VectorUnit, closure, without


@record
class Family:
    """An instruction-set architecture: its cores, its features, and the vector registers those give.

    `legal` features may be added or removed; `implies` covers the ones lpx keeps account of; `generic` is the core that
    has the bare minimum.
    """

    cores: Mapping[str, Core]
    legal: frozenset[str]
    implies: Mapping[str, tuple[str, ...]]
    vector_unit: Callable[[frozenset[str], Core | None], VectorUnit]
    generic: str
    triple: str


FAMILIES: dict[Arch, Family] = {
    "x86_64": Family(x86.CORES, x86.FEATURES, x86.IMPLIES, x86.vector_unit, "x86-64", "x86_64-unknown-linux-gnu"),
    "aarch64": Family(
        aarch64.CORES, aarch64.FEATURES, aarch64.IMPLIES, aarch64.vector_unit, "generic", "aarch64-unknown-linux-gnu"
    ),
    "riscv64": Family(
        riscv.CORES, riscv.FEATURES, riscv.IMPLIES, riscv.vector_unit, "generic-rv64", "riscv64-unknown-linux-gnu"
    ),
}

_ARCH_ALIASES: dict[str, Arch] = {"amd64": "x86_64", "arm64": "aarch64"}


def arch_of(triple: str) -> Arch | None:
    """The architecture a triple starts with, None for one lpx makes no code for."""
    first = triple.partition("-")[0]
    known = {name: name for name in get_args(Arch)} | _ARCH_ALIASES
    return known.get(first)


def core_features(arch: Arch, name: str) -> frozenset[str]:
    """Features that the processor's name implies; those of the bare architecture for a host newer than the table."""
    family = FAMILIES[arch]
    return family.cores.get(name, family.cores[family.generic]).features


def apply(arch: Arch, base: frozenset[str], signed: Iterable[str]) -> frozenset[str]:
    """`base` with "+name" and "-name" applied in order, implications included, as LLVM does it."""
    implies = FAMILIES[arch].implies
    for text in signed:
        sign, name = text[0], text[1:]
        if name in implies:
            base = closure(base | {name}, implies) if sign == "+" else without(base, name, implies)
    return base


def canonical_features(arch: Arch, name: str, signed: Iterable[str]) -> tuple[str, ...]:
    """The shortest sorted list of signed features that says the same of processor `name`."""
    signed = tuple(signed)
    base = core_features(arch, name)
    wanted = apply(arch, base, signed)
    others = {text[1:]: text for text in signed if text[1:] not in FAMILIES[arch].implies}
    return tuple(sorted([f"+{f}" for f in wanted - base] + [f"-{f}" for f in base - wanted] + list(others.values())))


@lru_cache(maxsize=64)
def describe(arch: Arch, name: str, signed: tuple[str, ...]) -> CpuMachine:
    """The machine behind a processor's name and signed features, with caches as in the table."""
    family = FAMILIES[arch]
    core = family.cores.get(name, family.cores[family.generic])
    features = apply(arch, core.features, signed)
    unit = family.vector_unit(features, core)
    return CpuMachine(
        arch=arch,
        features=features,
        vector_bits=unit.bits,
        vector_registers=unit.registers,
        scalable=unit.scalable,
        masked=unit.masked,
        fma_ports=_ports(arch, features, core, unit),
        fma_latency=core.fma_latency,
        l1d=core.l1d,
        l2=core.l2,
        l3=core.l3,
    )


@lru_cache(maxsize=1)
def describe_host(arch: Arch, name: str, signed: tuple[str, ...]) -> CpuMachine:
    """The machine this process runs on: as the table has it, with caches, cores and pages as the system tells them."""
    named = describe(arch, name, signed)
    caches, cores = host.data_caches(), host.topology()
    return replace(
        named,
        l1d=caches.get(1, named.l1d),
        l2=caches.get(2, named.l2),
        l3=caches.get(3, None if caches else named.l3),
        cores=cores.cores,
        threads_per_core=cores.threads_per_core,
        page_bytes=host.page_bytes(),
        huge_page_bytes=host.huge_page_bytes(),
    )


def _ports(arch: Arch, features: frozenset[str], core: Core, unit: VectorUnit) -> int:
    """Multiply-adds of the unit's width per cycle; narrower vectors than the core's own gain no third x86 port."""
    bits = x86.server_fma_bits(features, core.fma_bits) if arch == "x86_64" else core.fma_bits
    ports = max(1, bits // unit.bits)
    return min(2, ports) if arch == "x86_64" else ports
