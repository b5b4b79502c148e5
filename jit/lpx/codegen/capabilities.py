"""What a processor does in one instruction, as far as the emitter chooses by it."""

from __future__ import annotations

from lpx.records import record
from lpx.target import CpuMachine


@record
class Capabilities:
    """Facts that decide how an operation is emitted; where one is False a bit-exact expansion is used instead.

    `rounds`: floor, ceil, trunc and rint. `fma`: fused multiply-add of float32 and float64. `half_casts`: correctly
    rounded conversion between float16 and float32, subnormals included. `features` are LLVM's names, for hardware
    operations.
    """

    arch: str
    features: frozenset[str]
    vector_bits: int
    rounds: bool
    fma: bool
    half_casts: bool


def of_cpu(machine: CpuMachine) -> Capabilities:
    """The capabilities of a CPU."""
    arm = machine.arch == "aarch64"
    return Capabilities(
        arch=machine.arch,
        features=machine.features,
        vector_bits=machine.vector_bits,
        rounds=arm or machine.has("sse4.1"),
        fma=machine.has_fma,
        half_casts=arm or machine.has("f16c"),
    )
