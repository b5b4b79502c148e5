"""Targets: what code is made for, and the machine behind each.

    Target.parse("cpu")                       # this machine
    Target.parse("cpu:znver4,-avx512bf16")    # an LLVM processor name, features added or removed
    Target.parse("cpu:aarch64-unknown-linux-gnu/neoverse-v1")
    Target.parse("cpu:avx2")                  # also sse2, avx512, neon, sve, rvv
    Target.parse("cuda:sm_90a")               # "cuda": the GPU at hand, else sm_80
    Target.parse("cuda-sim:sm_80")            # GPU code run on the host

`target.cpu` and `target.gpu` describe the machine; `str(target)` parses back to an equal target.
"""

from lpx.target.cuda import CudaMachine as CudaMachine
from lpx.target.cuda import MmaShape as MmaShape
from lpx.target.machine import Arch as Arch
from lpx.target.machine import Cache as Cache
from lpx.target.machine import CpuMachine as CpuMachine
from lpx.target.target import Target as Target
