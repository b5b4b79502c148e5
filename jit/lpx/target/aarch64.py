"""AArch64: which features lpx looks at, what they imply, and the cores LLVM knows by name.

Features are those of LLVM's AArch64Processors.td. Throughputs, latencies and caches are from Arm's software
optimisation guides and the vendors' manuals; sizes that a licensee chooses are those of a common part.
"""

from __future__ import annotations

from lpx.target.machine import Cache, Core, VectorUnit, closure

IMPLIES: dict[str, tuple[str, ...]] = {
    "neon": (),
    "fullfp16": ("neon",),
    "dotprod": ("neon",),
    "bf16": ("neon",),
    "i8mm": ("neon",),
    "sve": ("fullfp16",),
    "sve2": ("sve",),
}

FEATURES = frozenset(
    """
    aes altnzcv am bf16 bti ccdp ccidx ccpp complxnum crc cssc dit dotprod f16f32dot f16f32mm f16mm f32mm f64mm
    f8f16mm f8f32mm faminmax flagm fp16fml fp8 fp8dot2 fp8dot4 fp8fma fptoint fullfp16 hbc i8mm jsconv lor ls64 lse
    lse128 lse2 lut mops mte outline-atomics pan pauth perfmon predres rand ras rcpc rcpc-immo rcpc3 rdm sb sha2
    sha3 sm4 sme sme-b16b16 sme-f16f16 sme-f64f64 sme-fa64 sme-i16i64 sme2 sme2p1 spe ssbs sve sve-aes sve-b16b16
    sve-bitperm sve-sha3 sve-sm4 sve2 sve2-aes sve2-bitperm sve2-sha3 sve2-sm4 sve2p1 wfxt
    """.split()
)
"""Instruction sets LLVM knows that a target may add or remove: all that the calling convention does not need."""


def vector_unit(features: frozenset[str], core: Core | None) -> VectorUnit:
    """Scalable vectors of the core's own length with SVE (128 bits where it is not known), else 128-bit NEON."""
    if "sve" in features:
        return VectorUnit(core.vector_bits if core and core.vector_bits else 128, 32, scalable=True, masked=True)
    return VectorUnit(128, 32)


def _set(base: frozenset[str], *more: str) -> frozenset[str]:
    return closure(base | frozenset(more), IMPLIES)


_V8 = frozenset({"neon"})
_FP16 = _set(_V8, "fullfp16")
_DOT = _set(_FP16, "dotprod")
_I8MM = _set(_DOT, "bf16", "i8mm")
_SVE = _set(_I8MM, "sve")
_SVE2 = _set(_SVE, "sve2")


def _core(
    features: frozenset[str],
    fma: tuple[int, int],
    l1d: tuple[int, int],
    l2: tuple[int, int, int],
    l3: tuple[int, int, int] | None = None,
    *,
    line: int = 64,
    vector_bits: int = 0,
) -> Core:
    """`fma`: bits per cycle, latency; `l1d`: KiB, ways; `l2`: KiB, ways, sharers; `l3`: MiB, ways, sharers."""
    return Core(
        features,
        *fma,
        Cache(l1d[0] << 10, l1d[1], line),
        Cache(l2[0] << 10, l2[1], line, l2[2]),
        Cache(l3[0] << 20, l3[1], line, l3[2]) if l3 else None,
        vector_bits,
    )


def _apple(features: frozenset[str], l2_mib: int, slc_mib: int) -> Core:
    """A performance core: four 128-bit ports, L2 shared by its cluster, the system cache as third level."""
    return _core(features, (512, 4), (128, 8), (l2_mib << 10, 12, 4), (slc_mib, 16, 8), line=128)


CORES: dict[str, Core] = {
    "generic": _core(_V8, (256, 4), (32, 4), (512, 8, 1), (4, 16, 4)),
    # Arm, for phones and boards
    "cortex-a35": _core(_V8, (64, 8), (32, 4), (512, 8, 4)),
    "cortex-a53": _core(_V8, (128, 8), (32, 4), (512, 16, 4)),
    "cortex-a55": _core(_DOT, (128, 4), (32, 4), (128, 4, 1), (2, 16, 8)),
    "cortex-a57": _core(_V8, (128, 9), (32, 2), (2048, 16, 4)),
    "cortex-a72": _core(_V8, (128, 7), (32, 2), (1024, 16, 4)),
    "cortex-a73": _core(_V8, (128, 7), (64, 16), (1024, 16, 4)),
    "cortex-a75": _core(_DOT, (256, 5), (64, 16), (512, 8, 1), (2, 16, 8)),
    "cortex-a76": _core(_DOT, (256, 4), (64, 4), (512, 8, 1), (4, 16, 8)),
    "cortex-a77": _core(_DOT, (256, 4), (64, 4), (512, 8, 1), (4, 16, 8)),
    "cortex-a78": _core(_DOT, (256, 4), (64, 4), (512, 8, 1), (4, 16, 8)),
    "cortex-a78ae": _core(_DOT, (256, 4), (64, 4), (256, 8, 1), (2, 16, 4)),
    "cortex-a510": _core(_SVE2, (128, 4), (32, 4), (256, 8, 2), (8, 16, 8), vector_bits=128),
    "cortex-a520": _core(_SVE2, (128, 4), (32, 4), (256, 8, 2), (8, 16, 8), vector_bits=128),
    "cortex-a710": _core(_SVE2, (256, 4), (64, 4), (512, 8, 1), (8, 16, 8), vector_bits=128),
    "cortex-a715": _core(_SVE2, (256, 4), (64, 4), (512, 8, 1), (8, 16, 8), vector_bits=128),
    "cortex-a720": _core(_SVE2, (256, 4), (64, 4), (512, 8, 1), (8, 16, 8), vector_bits=128),
    "cortex-a725": _core(_SVE2, (256, 4), (64, 4), (1024, 8, 1), (8, 16, 8), vector_bits=128),
    "cortex-x1": _core(_DOT, (512, 4), (64, 4), (1024, 8, 1), (8, 16, 8)),
    "cortex-x2": _core(_SVE2, (512, 4), (64, 4), (1024, 8, 1), (8, 16, 8), vector_bits=128),
    "cortex-x3": _core(_SVE2, (512, 4), (64, 4), (1024, 8, 1), (8, 16, 8), vector_bits=128),
    "cortex-x4": _core(_SVE2, (512, 4), (64, 4), (2048, 8, 1), (8, 16, 8), vector_bits=128),
    "cortex-x925": _core(_SVE2, (768, 4), (64, 4), (2048, 8, 1), (12, 16, 8), vector_bits=128),
    # Arm, for servers
    "neoverse-e1": _core(_DOT, (128, 4), (32, 4), (256, 8, 1), (4, 16, 8)),
    "neoverse-n1": _core(_DOT, (256, 4), (64, 4), (1024, 8, 1), (32, 16, 64)),
    "neoverse-n2": _core(_SVE2, (256, 4), (64, 4), (1024, 8, 1), (64, 16, 64), vector_bits=128),
    "neoverse-n3": _core(_SVE2, (256, 4), (64, 4), (2048, 8, 1), (64, 16, 64), vector_bits=128),
    "neoverse-v1": _core(_SVE, (512, 4), (64, 4), (1024, 8, 1), (32, 16, 64), vector_bits=256),
    "neoverse-v2": _core(_SVE2, (512, 4), (64, 4), (2048, 8, 1), (36, 16, 96), vector_bits=128),
    "neoverse-v3": _core(_SVE2, (512, 4), (64, 4), (2048, 8, 1), (36, 16, 96), vector_bits=128),
    "grace": _core(_SVE2, (512, 4), (64, 4), (1024, 8, 1), (114, 12, 72), vector_bits=128),
    "cobalt-100": _core(_SVE2, (256, 4), (64, 4), (1024, 8, 1), (128, 16, 128), vector_bits=128),
    # others
    "a64fx": _core(_set(_FP16, "sve"), (1024, 9), (64, 4), (8192, 16, 12), line=256, vector_bits=512),
    "ampere1": _core(_I8MM, (256, 4), (64, 4), (2048, 8, 1), (64, 16, 192)),
    "ampere1a": _core(_I8MM, (256, 4), (64, 4), (2048, 8, 1), (64, 16, 192)),
    "ampere1b": _core(_I8MM, (256, 4), (64, 4), (2048, 8, 1), (64, 16, 192)),
    "carmel": _core(_FP16, (256, 5), (64, 4), (2048, 16, 2), (4, 16, 8)),
    "oryon-1": _core(_I8MM, (512, 4), (96, 6), (12288, 12, 4)),
    "thunderx2t99": _core(_V8, (256, 6), (32, 8), (256, 8, 1), (32, 16, 32)),
    "tsv110": _core(_DOT, (256, 5), (64, 4), (512, 8, 1), (64, 16, 64)),
    "apple-a13": _apple(_DOT, 8, 16),
    "apple-a14": _apple(_DOT, 8, 16),
    "apple-a15": _apple(_I8MM, 12, 32),
    "apple-a16": _apple(_I8MM, 16, 24),
    "apple-a17": _apple(_I8MM, 16, 24),
    "apple-m1": _apple(_DOT, 12, 8),
    "apple-m2": _apple(_I8MM, 16, 8),
    "apple-m3": _apple(_I8MM, 16, 8),
    "apple-m4": _apple(_I8MM, 16, 8),
}
