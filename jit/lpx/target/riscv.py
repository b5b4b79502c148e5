"""RV64: which features lpx looks at, what they imply, and the cores LLVM knows by name.

Vector lengths are those LLVM gives a core (`zvlNNNb`); throughputs and caches are from the vendors' core manuals, of
the smallest usual configuration.
"""

from __future__ import annotations

from lpx.target.machine import Cache, Core, VectorUnit, closure

_LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)

IMPLIES: dict[str, tuple[str, ...]] = {
    "d": (),
    "v": ("d", "zvl128b"),
    "zfh": (),
    "zvfh": ("zfh",),
    **{f"zvl{bits}b": (f"zvl{bits // 2}b",) if bits > _LENGTHS[0] else () for bits in _LENGTHS},
}

FEATURES = frozenset(
    """
    a b c d f m v zaamo zabha zacas zalrsc zawrs zba zbb zbc zbkb zbkc zbkx zbs zca zcb zcd zcmop zcmp zcmt zfa
    zfbfmin zfh zfhmin zic64b zicbom zicbop zicboz ziccamoa ziccif zicclsm ziccrse zicntr zicond zicsr zifencei
    zihintntl zihintpause zihpm zimop zkn zknd zkne zknh zkr zks zksed zksh zkt zmmul ztso zvbb zvbc zvfbfmin
    zvfbfwma zvfh zvfhmin zvkb zvkg zvkn zvknc zvkned zvkng zvknha zvknhb zvks zvksc zvksed zvksg zvksh zvkt
    zvl1024b zvl128b zvl2048b zvl256b zvl4096b zvl512b zvl64b
    """.split()
)
"""Instruction sets LLVM knows that a target may add or remove: all that the calling convention does not need."""


def vector_unit(features: frozenset[str], core: Core | None) -> VectorUnit:
    """Vectors of the longest `zvlNNNb` with V; without it one 64-bit scalar register is all there is."""
    del core  # the features say how long the vectors are
    if "v" not in features:
        return VectorUnit(64, 32)
    return VectorUnit(max(bits for bits in _LENGTHS if f"zvl{bits}b" in features), 32, scalable=True, masked=True)


def _core(features: set[str], fma: tuple[int, int], l2_kib: int, sharing: int) -> Core:
    return Core(
        closure(frozenset(features), IMPLIES),
        *fma,
        Cache(32 << 10, 8),
        Cache(l2_kib << 10, 16, shared_by=sharing),
        None,
    )


CORES: dict[str, Core] = {
    "generic-rv64": _core(set(), (64, 5), 512, 4),
    "sifive-u74": _core({"d"}, (64, 7), 2048, 4),
    "sifive-p450": _core({"d"}, (128, 4), 512, 1),
    "sifive-p550": _core({"d"}, (128, 4), 256, 1),
    "sifive-p470": _core({"v"}, (128, 4), 512, 1),
    "sifive-p670": _core({"v"}, (256, 4), 512, 1),
    "sifive-p870": _core({"v", "zvfh"}, (256, 4), 2048, 1),
    "sifive-x280": _core({"v", "zvfh", "zvl512b"}, (256, 8), 512, 1),
    "sifive-x390": _core({"v", "zvfh", "zvl1024b"}, (1024, 8), 512, 1),
    "spacemit-x60": _core({"v", "zvfh", "zvl256b"}, (256, 6), 512, 4),
    "tt-ascalon-d8": _core({"v", "zvfh", "zvl256b"}, (512, 4), 1024, 1),
    "veyron-v1": _core({"d"}, (128, 4), 512, 1),
    "xiangshan-nanhu": _core({"d"}, (128, 5), 1024, 1),
    "xiangshan-kunminghu": _core({"v", "zvfh"}, (256, 4), 1024, 1),
}
