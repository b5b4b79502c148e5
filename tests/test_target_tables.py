"""The tables of processors and features against LLVM itself, in child processes: LLVM aborts where it disagrees."""

from __future__ import annotations

import json

import pytest

from lpx.target import Arch, cpu, cuda
from tests.support import Child

ARCHITECTURES: tuple[Arch, ...] = ("x86_64", "aarch64", "riscv64")

HELP = """
    import os, sys
    from llvmlite import binding
    os.dup2(1, 2)  # LLVM lists its names on stderr
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    binding.Target.from_triple({triple!r}).create_target_machine(cpu="help")
"""


EMIT_PTX = """
    from llvmlite import binding
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("nvptx64-nvidia-cuda")
    for name, version in {gpus!r}.items():
        machine = target.create_target_machine(cpu=name, features=f"+ptx{{version}}")
        print(machine.emit_assembly(binding.parse_assembly("define ptx_kernel void @f() {{ ret void }}")))
"""


def _llvm_names(child: Child, triple: str) -> tuple[set[str], set[str]]:
    """Every processor and every feature LLVM knows for `triple`."""
    processors, _, features = child(HELP.format(triple=triple)).partition("Available features")
    return _listed(processors), _listed(features)


def _listed(text: str) -> set[str]:
    return {line.split()[0] for line in text.splitlines() if " - " in line}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_processor_and_feature_is_one_llvm_knows(child: Child, arch: Arch) -> None:
    family = cpu.FAMILIES[arch]
    processors, features = _llvm_names(child, family.triple)
    assert set(family.cores) <= processors
    assert family.legal <= features
    assert set(family.implies) - family.cores[family.generic].features <= family.legal


def test_every_gpu_is_one_llvm_knows(child: Child) -> None:
    processors, features = _llvm_names(child, "nvptx64-nvidia-cuda")
    assert set(cuda.NAMES) <= processors
    assert {f"ptx{cuda.describe(name).ptx}" for name in cuda.NAMES} <= features


def test_llvm_takes_each_gpu_with_its_ptx_version(child: Child) -> None:
    gpus = {name: cuda.describe(name).ptx for name in cuda.NAMES}
    assembly = child(EMIT_PTX.format(gpus=gpus))
    for name, version in gpus.items():
        assert f".version {version // 10}.{version % 10}\n.target {name}\n" in assembly


# LLVM does not tell what a processor's name implies, but its code shows it: each call becomes the instruction beside it
# where the processor has the feature, and something else where it has not.
X86_PROBES = {
    "ssse3": ("<16 x i8> @llvm.abs.v16i8(<16 x i8> %a, i1 false)", r"pabsb\t"),
    "sse4.1": ("<4 x float> @llvm.floor.v4f32(<4 x float> %a)", r"roundps\t"),
    "sse4.2": ("<2 x i64> @llvm.smax.v2i64(<2 x i64> %a, <2 x i64> zeroinitializer)", r"(cmpgt|pcomgt|pmaxs)q\t"),
    "popcnt": ("i32 @llvm.ctpop.i32(i32 %a)", r"popcntl\t"),
    "lzcnt": ("i32 @llvm.ctlz.i32(i32 %a, i1 false)", r"lzcntl\t"),
    "bmi": ("i32 @llvm.cttz.i32(i32 %a, i1 false)", r"tzcntl\t"),
    "bmi2": ("i64 @llvm.fshl.i64(i64 %a, i64 %a, i64 7)", r"rorxq\t"),
    "gfni": ("<16 x i8> @llvm.bitreverse.v16i8(<16 x i8> %a)", r"gf2p8affineqb\t"),
    "fma4": ("<4 x float> @llvm.fma.v4f32(<4 x float> %a, <4 x float> %a, <4 x float> %a)", r"vfmaddps\t"),
    "xop": ("<4 x i32> @llvm.fshl.v4i32(<4 x i32> %a, <4 x i32> %a, <4 x i32> %a)", r"vprotd\t"),
    "avx": ("<8 x float> @llvm.sqrt.v8f32(<8 x float> %a)", r"vsqrtps\t%ymm"),
    "avx2": ("<8 x i32> @llvm.abs.v8i32(<8 x i32> %a, i1 false)", r"vpabsd\t%ymm"),
    "avx512f": ("<16 x float> @llvm.sqrt.v16f32(<16 x float> %a)", r"vsqrtps\t%zmm"),
    "avx512vl": ("<4 x i32> @llvm.fshl.v4i32(<4 x i32> %a, <4 x i32> %a, <4 x i32> %a)", r"vprolvd\t.*%xmm"),
    "avx512bw": ("<64 x i8> @llvm.abs.v64i8(<64 x i8> %a, i1 false)", r"vpabsb\t%zmm"),
    "avx512cd": ("<16 x i32> @llvm.ctlz.v16i32(<16 x i32> %a, i1 false)", r"vplzcntd\t"),
    "avx512vpopcntdq": ("<16 x i32> @llvm.ctpop.v16i32(<16 x i32> %a)", r"vpopcntd\t"),
    "avx512bitalg": ("<64 x i8> @llvm.ctpop.v64i8(<64 x i8> %a)", r"vpopcntb\t"),
    "avx512vbmi2": ("<32 x i16> @llvm.fshl.v32i16(<32 x i16> %a, <32 x i16> %a, <32 x i16> %a)", r"vpshldvw\t"),
    "avx512fp16": ("<32 x half> @llvm.sqrt.v32f16(<32 x half> %a)", r"vsqrtph\t"),
}
AARCH64_PROBES = {"fullfp16": ("<8 x half> @llvm.sqrt.v8f16(<8 x half> %a)", r"fsqrt\tv0\.8h")}
RISCV64_PROBES = {
    "d": ("double @llvm.sqrt.f64(double %a)", r"fsqrt\.d\t"),
    "zfh": ("half @llvm.sqrt.f16(half %a)", r"fsqrt\.h\t"),
}

PROBE = """
    import json, re
    from llvmlite import binding
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple({triple!r})
    modules = {{feature: (binding.parse_assembly(text), shown) for feature, (text, shown) in {modules!r}.items()}}
    found = {{}}
    for processor in {processors!r}:
        machine = target.create_target_machine(cpu=processor)
        found[processor] = [
            feature for feature, (module, shown) in modules.items() if re.search(shown, machine.emit_assembly(module))
        ]
    print(json.dumps(found))
"""


def _module(triple: str, call: str) -> str:
    """IR of a function that makes `call`, "TYPE @intrinsic(TYPE %a, ...)", on its one argument."""
    result = call.partition(" @")[0]
    return f'target triple = "{triple}"\ndefine {result} @f({result} %a) {{\n%r = call {call}\nret {result} %r\n}}\n'


@pytest.mark.parametrize(
    ("arch", "probes"), [("x86_64", X86_PROBES), ("aarch64", AARCH64_PROBES), ("riscv64", RISCV64_PROBES)]
)
def test_processors_imply_the_features_llvm_gives_them(
    child: Child, arch: Arch, probes: dict[str, tuple[str, str]]
) -> None:
    family = cpu.FAMILIES[arch]
    modules = {feature: (_module(family.triple, call), shown) for feature, (call, shown) in probes.items()}
    processors = sorted(family.cores)
    found = json.loads(child(PROBE.format(triple=family.triple, modules=modules, processors=processors)))
    for name, core in family.cores.items():
        assert set(found[name]) == core.features & probes.keys(), name
