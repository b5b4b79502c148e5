"""x86-64: which features lpx looks at, what they imply, and the cores LLVM knows by name.

Features are those of LLVM's X86.td. Throughputs, latencies and caches are from the vendors' optimisation manuals and
Agner Fog's instruction tables; a last-level cache is that of a common part, seen by one core.
"""

from __future__ import annotations

from lpx.target.machine import Cache, Core, VectorUnit, closure

IMPLIES: dict[str, tuple[str, ...]] = {
    "sse3": (),
    "ssse3": ("sse3",),
    "sse4.1": ("ssse3",),
    "sse4.2": ("sse4.1",),
    "avx": ("sse4.2",),
    "popcnt": (),
    "lzcnt": (),
    "movbe": (),
    "bmi": (),
    "bmi2": (),
    "tbm": (),
    "sse4a": ("sse3",),
    "fma4": ("avx", "sse4a"),
    "xop": ("fma4",),
    "gfni": (),
    "f16c": ("avx",),
    "fma": ("avx",),
    "avx2": ("avx",),
    "avxvnni": ("avx2",),
    "avxvnniint8": ("avx2",),
    "avxneconvert": ("avx2",),
    "avxifma": ("avx2",),
    "avx512f": ("avx2", "f16c", "fma"),
    "avx512cd": ("avx512f",),
    "avx512bw": ("avx512f",),
    "avx512dq": ("avx512f",),
    "avx512vl": ("avx512f",),
    "avx512ifma": ("avx512f",),
    "avx512vbmi": ("avx512bw",),
    "avx512vbmi2": ("avx512bw",),
    "avx512bitalg": ("avx512bw",),
    "avx512vpopcntdq": ("avx512f",),
    "avx512vnni": ("avx512f",),
    "avx512bf16": ("avx512bw",),
    "avx512fp16": ("avx512bw",),
    "amx-tile": (),
    "amx-int8": ("amx-tile",),
    "amx-bf16": ("amx-tile",),
    "amx-fp16": ("amx-tile",),
}

FEATURES = frozenset(
    """
    adx aes amx-avx512 amx-bf16 amx-complex amx-fp16 amx-fp8 amx-int8 amx-movrs amx-tf32 amx-tile avx avx10.1
    avx10.2 avx2 avx512bf16 avx512bitalg avx512bw avx512cd avx512dq avx512f avx512fp16 avx512ifma avx512vbmi
    avx512vbmi2 avx512vl avx512vnni avx512vp2intersect avx512vpopcntdq avxifma avxneconvert avxvnni avxvnniint16
    avxvnniint8 bmi bmi2 ccmp cf cldemote clflushopt clwb clzero cmpccxadd crc32 cx16 egpr enqcmd f16c fma fma4
    fsgsbase gfni hreset invpcid kl lwp lzcnt movbe movdir64b movdiri movrs mwaitx ndd nf pclmul pconfig pku popcnt
    ppx prefer-256-bit prefetchi prfchw ptwrite push2pop2 raoint rdpid rdpru rdrnd rdseed rtm sahf serialize sgx sha
    sha512 shstk sm3 sm4 sse3 sse4.1 sse4.2 sse4a ssse3 tbm tsxldtrk uintr usermsr vaes vpclmulqdq waitpkg wbnoinvd
    widekl xop xsave xsavec xsaveopt xsaves zu
    """.split()
)
"""Instruction sets LLVM knows that a target may add or remove: all that the calling convention does not need."""


def vector_unit(features: frozenset[str], core: Core | None) -> VectorUnit:
    """512-bit registers with AVX-512, 256 with AVX, else 128."""
    del core  # x86 fixes the widths
    if "avx512f" in features:
        return VectorUnit(512, 32, masked={"avx512bw", "avx512vl"} <= features)
    return VectorUnit(256 if "avx" in features else 128, 16)


def server_fma_bits(features: frozenset[str], fma_bits: int) -> int:
    """`fma_bits` of a host whose reported model may be wrong.

    A hypervisor may show a server core under a client's name. AMX exists on server cores only, all with two 512-bit
    ports.
    """
    return max(fma_bits, 1024) if "amx-tile" in features else fma_bits


def _set(base: frozenset[str], *more: str) -> frozenset[str]:
    return closure(base | frozenset(more), IMPLIES)


_V1: frozenset[str] = frozenset()
_SSSE3 = _set(_V1, "ssse3")
_V2 = _set(_V1, "sse4.2", "popcnt")
_AVX = _set(_V2, "avx")
_V3 = _set(_AVX, "f16c", "fma", "avx2", "lzcnt", "movbe", "bmi", "bmi2")
_ATOM = _set(_V2, "movbe")
_V4 = _set(_V3, "avx512cd", "avx512bw", "avx512dq", "avx512vl")
_CANNON_LAKE = _set(_V4, "avx512vbmi", "avx512ifma")
_CASCADE_LAKE = _set(_V4, "avx512vnni")
_ICE_LAKE = _set(_CANNON_LAKE, "avx512vnni", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq", "gfni")
_SAPPHIRE_RAPIDS = _set(_ICE_LAKE, "avx512bf16", "avx512fp16", "avxvnni", "amx-int8", "amx-bf16")
_GRANITE_RAPIDS = _set(_SAPPHIRE_RAPIDS, "amx-fp16")
_ALDER_LAKE = _set(_V3, "avxvnni", "gfni")
_ARROW_LAKE = _set(_ALDER_LAKE, "avxvnniint8", "avxneconvert", "avxifma")
_K10 = _set(_V1, "sse4a", "lzcnt", "popcnt")
_BULLDOZER = _set(_AVX, "xop", "lzcnt")
_PILEDRIVER = _set(_BULLDOZER, "f16c", "fma", "bmi", "tbm")
_ZEN = _set(_V3, "sse4a")
_ZEN4 = _set(_ICE_LAKE, "avx512bf16", "sse4a")


def _core(
    features: frozenset[str],
    fma: tuple[int, int],
    l1d: tuple[int, int],
    l2: tuple[int, int, int],
    l3: tuple[int, int, int] | None = None,
) -> Core:
    """`fma`: bits per cycle, latency; `l1d`: KiB, ways; `l2`: KiB, ways, sharers; `l3`: MiB, ways, sharers."""
    return Core(
        features,
        *fma,
        Cache(l1d[0] << 10, l1d[1]),
        Cache(l2[0] << 10, l2[1], shared_by=l2[2]),
        Cache(l3[0] << 20, l3[1], shared_by=l3[2]) if l3 else None,
    )


CORES: dict[str, Core] = {
    # levels of the psABI: a name for instructions, with the caches of a modest machine
    "x86-64": _core(_V1, (128, 8), (32, 8), (256, 8, 1), (8, 16, 4)),
    "x86-64-v2": _core(_V2, (128, 8), (32, 8), (256, 8, 1), (8, 16, 4)),
    "x86-64-v3": _core(_V3, (512, 5), (32, 8), (256, 8, 1), (8, 16, 4)),
    "x86-64-v4": _core(_V4, (1024, 4), (32, 8), (1024, 16, 1), (16, 16, 8)),
    # Intel
    "nocona": _core(_set(_V1, "sse3"), (64, 9), (16, 8), (1024, 8, 1)),
    "core2": _core(_SSSE3, (128, 7), (32, 8), (4096, 16, 2)),
    "penryn": _core(_set(_V1, "sse4.1"), (128, 7), (32, 8), (6144, 24, 2)),
    "nehalem": _core(_V2, (128, 7), (32, 8), (256, 8, 1), (8, 16, 4)),
    "westmere": _core(_V2, (128, 7), (32, 8), (256, 8, 1), (12, 16, 6)),
    "sandybridge": _core(_AVX, (256, 8), (32, 8), (256, 8, 1), (8, 16, 4)),
    "ivybridge": _core(_set(_AVX, "f16c"), (256, 8), (32, 8), (256, 8, 1), (8, 16, 4)),
    "haswell": _core(_V3, (512, 5), (32, 8), (256, 8, 1), (8, 16, 4)),
    "broadwell": _core(_V3, (512, 5), (32, 8), (256, 8, 1), (8, 16, 4)),
    "skylake": _core(_V3, (512, 4), (32, 8), (256, 4, 1), (8, 16, 4)),
    "skylake-avx512": _core(_V4, (1024, 4), (32, 8), (1024, 16, 1), (24, 11, 18)),
    "cascadelake": _core(_CASCADE_LAKE, (1024, 4), (32, 8), (1024, 16, 1), (32, 11, 24)),
    "cooperlake": _core(_set(_CASCADE_LAKE, "avx512bf16"), (1024, 4), (32, 8), (1024, 16, 1), (32, 11, 24)),
    "cannonlake": _core(_CANNON_LAKE, (512, 4), (32, 8), (256, 4, 1), (4, 16, 2)),
    "icelake-client": _core(_ICE_LAKE, (512, 4), (48, 12), (512, 8, 1), (8, 16, 4)),
    "rocketlake": _core(_ICE_LAKE, (512, 4), (48, 12), (512, 8, 1), (16, 16, 8)),
    "tigerlake": _core(_ICE_LAKE, (512, 4), (48, 12), (1280, 20, 1), (12, 12, 4)),
    "icelake-server": _core(_ICE_LAKE, (1024, 4), (48, 12), (1280, 20, 1), (48, 12, 32)),
    "sapphirerapids": _core(_SAPPHIRE_RAPIDS, (1024, 4), (48, 12), (2048, 16, 1), (105, 15, 56)),
    "emeraldrapids": _core(_SAPPHIRE_RAPIDS, (1024, 4), (48, 12), (2048, 16, 1), (320, 20, 64)),
    "graniterapids": _core(_GRANITE_RAPIDS, (1024, 4), (48, 12), (2048, 16, 1), (480, 16, 120)),
    "graniterapids-d": _core(_GRANITE_RAPIDS, (1024, 4), (48, 12), (2048, 16, 1), (144, 16, 36)),
    "alderlake": _core(_ALDER_LAKE, (512, 4), (48, 12), (1280, 10, 1), (30, 12, 8)),
    "raptorlake": _core(_ALDER_LAKE, (512, 4), (48, 12), (2048, 16, 1), (36, 12, 8)),
    "meteorlake": _core(_ALDER_LAKE, (512, 4), (48, 12), (2048, 16, 1), (24, 12, 6)),
    "arrowlake": _core(_ARROW_LAKE, (512, 4), (48, 12), (3072, 12, 1), (36, 12, 8)),
    "arrowlake-s": _core(_ARROW_LAKE, (512, 4), (48, 12), (3072, 12, 1), (36, 12, 8)),
    "lunarlake": _core(_ARROW_LAKE, (512, 4), (48, 12), (2560, 10, 1), (12, 12, 4)),
    "pantherlake": _core(_ARROW_LAKE, (512, 4), (48, 12), (3072, 12, 1), (18, 12, 8)),
    "gracemont": _core(_ALDER_LAKE, (256, 6), (32, 8), (2048, 16, 4), (30, 12, 8)),
    "sierraforest": _core(_ARROW_LAKE, (256, 6), (32, 8), (4096, 16, 4), (108, 12, 144)),
    "grandridge": _core(_ARROW_LAKE, (256, 6), (32, 8), (4096, 16, 4)),
    "clearwaterforest": _core(_ARROW_LAKE, (512, 4), (32, 8), (4096, 16, 4), (108, 12, 144)),
    "bonnell": _core(_set(_SSSE3, "movbe"), (64, 9), (24, 6), (512, 8, 1)),
    "silvermont": _core(_ATOM, (64, 8), (24, 6), (1024, 16, 2)),
    "goldmont": _core(_ATOM, (128, 7), (24, 6), (1024, 16, 2)),
    "goldmont-plus": _core(_ATOM, (128, 7), (24, 6), (4096, 16, 4)),
    "tremont": _core(_set(_ATOM, "gfni"), (128, 7), (32, 8), (4096, 16, 4)),
    # AMD
    "k8": _core(_V1, (64, 8), (64, 2), (1024, 16, 1)),
    "k8-sse3": _core(_set(_V1, "sse3"), (64, 8), (64, 2), (1024, 16, 1)),
    "amdfam10": _core(_K10, (128, 8), (64, 2), (512, 16, 1), (6, 48, 4)),
    "btver1": _core(_set(_K10, "ssse3"), (64, 5), (32, 8), (512, 16, 1)),
    "btver2": _core(_set(_AVX | _K10, "f16c", "bmi", "movbe"), (128, 5), (32, 8), (2048, 16, 4)),
    "bdver1": _core(_BULLDOZER, (256, 6), (16, 4), (2048, 16, 2), (8, 64, 8)),
    "bdver2": _core(_PILEDRIVER, (256, 6), (16, 4), (2048, 16, 2), (8, 64, 8)),
    "bdver3": _core(_PILEDRIVER, (256, 6), (16, 4), (2048, 16, 2)),
    "bdver4": _core(_PILEDRIVER | _V3, (256, 6), (32, 8), (1024, 16, 2)),
    "znver1": _core(_ZEN, (256, 5), (32, 8), (512, 8, 1), (8, 16, 4)),
    "znver2": _core(_ZEN, (512, 5), (32, 8), (512, 8, 1), (16, 16, 4)),
    "znver3": _core(_ZEN, (512, 4), (32, 8), (512, 8, 1), (32, 16, 8)),
    "znver4": _core(_ZEN4, (512, 4), (32, 8), (1024, 8, 1), (32, 16, 8)),
    "znver5": _core(_set(_ZEN4, "avxvnni"), (1024, 4), (48, 12), (1024, 16, 1), (32, 16, 8)),
}
