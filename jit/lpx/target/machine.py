"""Descriptions of machines: what default schedules and the code generators ask about a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from lpx.records import record

Arch = Literal["x86_64", "aarch64", "riscv64"]


@record
class Cache:
    """One level of cache: size and line in bytes, associativity, and how many cores share it."""

    bytes: int
    ways: int
    line: int = 64
    shared_by: int = 1


@record
class Core:
    """What a processor's name implies, before features are added or removed.

    `fma_bits` is the width of vector multiply-adds started per cycle, over all ports, at the widest vectors the core
    has; on a core without fused multiply-add it counts multiply and add pairs. `vector_bits` is the length of scalable
    vectors, 0 where the architecture fixes it.
    """

    features: frozenset[str]
    fma_bits: int
    fma_latency: int
    l1d: Cache
    l2: Cache
    l3: Cache | None
    vector_bits: int = 0


@record
class VectorUnit:
    """The vector registers a set of features gives: width in bits, how many, and what they can do.

    `scalable`: the instruction set leaves the width open (SVE, RVV). `masked`: any lane of a load, store or operation
    can be switched off without touching memory.
    """

    bits: int
    registers: int
    scalable: bool = False
    masked: bool = False


@record
class CpuMachine:
    """A CPU: vector registers, multiply-add throughput, caches, cores and pages.

    `vector_bits` is the width code should use, `vector_registers` their number. `fma_ports` vector multiply-adds of
    that width start per cycle and take `fma_latency` cycles, so `fma_ports * fma_latency` independent accumulators
    saturate a core. Caches are as one core sees them. `cores` counts physical cores this process may use (8 for a
    machine that is not this one); `page_bytes` and `huge_page_bytes` are those of the operating system.
    """

    arch: Arch
    features: frozenset[str]
    vector_bits: int
    vector_registers: int
    scalable: bool
    masked: bool
    fma_ports: int
    fma_latency: int
    l1d: Cache
    l2: Cache
    l3: Cache | None
    cores: int = 8
    threads_per_core: int = 1
    page_bytes: int = 4096
    huge_page_bytes: int = 2 << 20

    def has(self, feature: str) -> bool:
        """Whether the CPU has an LLVM feature such as "avx512vl", as far as lpx keeps account of it."""
        return feature in self.features

    def lanes(self, bits: int) -> int:
        """How many elements of `bits` bits one vector register holds; at least 1."""
        return max(1, self.vector_bits // bits)

    @property
    def has_fma(self) -> bool:
        """Fused multiply-add on float32 and float64 vectors."""
        return self.arch != "x86_64" or "fma" in self.features

    @property
    def has_vnni(self) -> bool:
        """Dot products of four int8 pairs into int32: VNNI on x86, dotprod on Arm."""
        return not self.features.isdisjoint({"avx512vnni", "avxvnni", "dotprod"})

    @property
    def has_avx512_bf16(self) -> bool:
        """`vdpbf16ps` and `vcvtneps2bf16` on 512-bit vectors."""
        return "avx512bf16" in self.features

    @property
    def has_bfloat16_dot(self) -> bool:
        """A dot product of bfloat16 pairs into float32: AVX512-BF16 or Arm BF16."""
        return not self.features.isdisjoint({"avx512bf16", "bf16"})

    @property
    def has_f16c(self) -> bool:
        """Hardware conversion between float16 and float32 (F16C on x86; every AArch64 core has it)."""
        return self.arch == "aarch64" or not self.features.isdisjoint({"f16c", "zvfh"})

    @property
    def has_float16(self) -> bool:
        """Vector arithmetic in float16 itself."""
        return not self.features.isdisjoint({"avx512fp16", "fullfp16", "zvfh"})

    @property
    def has_amx(self) -> bool:
        """Intel's tile registers with int8 and bfloat16 products."""
        return {"amx-tile", "amx-int8", "amx-bf16"} <= self.features


def closure(features: frozenset[str], implies: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """`features` and everything they imply."""
    found: set[str] = set()
    pending = list(features)
    while pending:
        feature = pending.pop()
        if feature not in found:
            found.add(feature)
            pending.extend(implies.get(feature, ()))
    return frozenset(found)


def without(features: frozenset[str], removed: str, implies: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """`features` less `removed` and everything that implies it."""
    return frozenset(f for f in features if removed not in closure(frozenset({f}), implies))
