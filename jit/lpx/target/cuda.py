"""NVIDIA GPUs by compute capability: limits of a block and of a multiprocessor, and what the tensor cores take.

Limits are those of the table "Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide; PTX
versions are those of the PTX ISA manual's release notes, as LLVM's NVPTX back end checks them.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

from lpx.records import record


@record
class MmaShape:
    """One tensor-core multiply: m x n x k on the named element types, accumulated in `accumulate`."""

    m: int
    n: int
    k: int
    operand: str
    accumulate: str


@record
class CudaMachine:
    """A GPU, by its compute capability.

    `capability` is 10 * major + minor, `variant` is "", "a" (this part only) or "f" (its family). `ptx` is the lowest
    PTX version that knows the target, 10 * major + minor. Shared memory is in bytes: `shared_static` without asking,
    `shared_per_block` at most for a block, `shared_per_sm` for a multiprocessor.
    """

    capability: int
    variant: str
    ptx: int
    shared_per_block: int
    shared_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    mma: tuple[MmaShape, ...]
    shared_static: int = 48 << 10
    shared_banks: int = 32
    registers_per_sm: int = 65536
    registers_per_block: int = 65536
    registers_per_thread: int = 255
    warp_size: int = 32
    threads_per_block: int = 1024
    block_limits: tuple[int, int, int] = (1024, 1024, 64)
    grid_limits: tuple[int, int, int] = (2**31 - 1, 65535, 65535)

    @property
    def has_async_copy(self) -> bool:
        """`cp.async` from global to shared memory."""
        return self.capability >= 80

    @property
    def has_tma(self) -> bool:
        """Bulk tensor copies (`cp.async.bulk.tensor`), transaction barriers and clusters."""
        return self.capability >= 90

    @property
    def has_ldmatrix(self) -> bool:
        """`ldmatrix`: fragments of 8x8 16-bit tiles from shared memory."""
        return self.capability >= 75

    @property
    def has_wgmma(self) -> bool:
        """`wgmma.mma_async`, which only sm_90a has."""
        return self.capability == 90 and self.variant == "a"

    @property
    def has_tcgen05(self) -> bool:
        """`tcgen05.mma` and tensor memory: data-centre Blackwell, architecture- or family-specific targets."""
        return 100 <= self.capability <= 110 and self.variant != ""


@record
class _Part:
    """One row of the table: PTX version by variant, shared memory in KiB, and residency."""

    ptx: dict[str, int]
    block_kib: int
    sm_kib: int
    threads: int
    blocks: int


_PARTS = {
    70: _Part({"": 60}, 96, 96, 2048, 32),
    72: _Part({"": 61}, 96, 96, 2048, 32),
    75: _Part({"": 63}, 64, 64, 1024, 16),
    80: _Part({"": 70}, 163, 164, 2048, 32),
    86: _Part({"": 71}, 99, 100, 1536, 16),
    87: _Part({"": 74}, 163, 164, 1536, 16),
    89: _Part({"": 78}, 99, 100, 1536, 24),
    90: _Part({"": 78, "a": 80}, 227, 228, 2048, 32),
    100: _Part({"": 86, "a": 86, "f": 88}, 227, 228, 2048, 32),
    103: _Part({"": 88, "a": 88, "f": 88}, 227, 228, 2048, 32),
    110: _Part({"": 90, "a": 90, "f": 90}, 227, 228, 1536, 24),
    120: _Part({"": 87, "a": 87, "f": 88}, 99, 100, 1536, 24),
    121: _Part({"": 88, "a": 88, "f": 88}, 99, 100, 1536, 24),
}

_TURING = (
    MmaShape(16, 8, 8, "float16", "float16"),
    MmaShape(16, 8, 8, "float16", "float32"),
    MmaShape(8, 8, 16, "int8", "int32"),
    MmaShape(8, 8, 16, "uint8", "int32"),
)
_AMPERE = (
    MmaShape(16, 8, 16, "float16", "float16"),
    MmaShape(16, 8, 16, "float16", "float32"),
    MmaShape(16, 8, 8, "bfloat16", "float32"),
    MmaShape(16, 8, 16, "bfloat16", "float32"),
    MmaShape(16, 8, 4, "tf32", "float32"),
    MmaShape(16, 8, 8, "tf32", "float32"),
    MmaShape(16, 8, 16, "int8", "int32"),
    MmaShape(16, 8, 32, "int8", "int32"),
    MmaShape(16, 8, 16, "uint8", "int32"),
    MmaShape(16, 8, 32, "uint8", "int32"),
    MmaShape(8, 8, 4, "float64", "float64"),
)
_ADA = (
    MmaShape(16, 8, 32, "float8_e4m3fn", "float32"),
    MmaShape(16, 8, 32, "float8_e5m2", "float32"),
)

NAMES = tuple(f"sm_{capability}{variant}" for capability, part in _PARTS.items() for variant in part.ptx)
"""Every GPU lpx makes code for: sm_70 is the first with independent thread scheduling and tensor cores."""


@lru_cache(maxsize=64)
def describe(name: str) -> CudaMachine:
    """The machine behind one of `NAMES`, say "sm_90a"."""
    number = name.removeprefix("sm_")
    variant = number[-1] if number[-1].isalpha() else ""
    capability = int(number.removesuffix(variant))
    part = _PARTS[capability]
    return CudaMachine(
        capability,
        variant,
        part.ptx[variant],
        part.block_kib << 10,
        part.sm_kib << 10,
        part.threads,
        part.blocks,
        _mma_shapes(capability),
    )


def _mma_shapes(capability: int) -> tuple[MmaShape, ...]:
    """Shapes of the synchronous `mma.sync` (PTX ISA, "Matrix multiply-accumulate operation using mma instruction")."""
    if capability < 75:
        return (MmaShape(8, 8, 4, "float16", "float16"), MmaShape(8, 8, 4, "float16", "float32"))
    return _TURING + (_AMPERE if capability >= 80 else ()) + (_ADA if capability >= 89 else ())


@lru_cache(maxsize=1)
def detect() -> str | None:
    """Name of the first GPU the driver shows, with the variant that has all its instructions; None without a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    if driver.cuInit(0) != 0:
        return None
    major, minor = ctypes.c_int(), ctypes.c_int()
    compute_capability_major, compute_capability_minor = 75, 76  # enum CUdevice_attribute
    device = 0
    failed = driver.cuDeviceGetAttribute(ctypes.byref(major), compute_capability_major, device)
    failed |= driver.cuDeviceGetAttribute(ctypes.byref(minor), compute_capability_minor, device)
    if failed:
        return None
    name = f"sm_{10 * major.value + minor.value}"
    return f"{name}a" if major.value in (9, 10) else name
