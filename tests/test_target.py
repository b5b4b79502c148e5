"""Targets: parsing and printing, the machines behind them, and the description of this one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpx.errors import TargetError
from lpx.target import Cache, Target, cpu, host

EXAMPLES = [
    "cpu",
    "cpu:avx2",
    "cpu:avx512",
    "cpu:neon",
    "cpu:sve",
    "cpu:rvv",
    "cpu:znver4",
    "cpu:haswell,+avx512vl,-bmi2",
    "cpu:aarch64-unknown-linux-gnu/neoverse-n1,+sve2",
    "cpu:arm64-apple-darwin/apple-m1",
    "cpu:riscv64-unknown-linux-gnu/generic-rv64,+v,+zvl256b",
    "cuda",
    "cuda:sm_80",
    "cuda:sm_90a",
    "cuda:sm_100a",
    "cuda:sm_120",
    "cuda-sim",
    "cuda-sim:sm_90a",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_text_round_trips(text: str) -> None:
    target = Target.parse(text)
    assert Target.parse(str(target)) == target
    assert Target.parse(target) is target
    assert str(Target.parse(str(target))) == str(target)


@given(st.data())
def test_any_features_round_trip_and_stay_closed(data: st.DataObject) -> None:
    arch = data.draw(st.sampled_from(sorted(cpu.FAMILIES)))
    family = cpu.FAMILIES[arch]
    name = data.draw(st.sampled_from(sorted(family.cores)))
    signed = data.draw(st.lists(st.tuples(st.sampled_from("+-"), st.sampled_from(sorted(family.legal))), max_size=6))
    target = Target.parse(f"cpu:{family.triple}/" + ",".join([name, *(sign + feature for sign, feature in signed)]))
    assert Target.parse(str(target)) == target
    features = target.cpu.features
    assert all(implied in features for feature in features for implied in family.implies[feature])
    for sign, feature in signed[-1:]:
        if feature in family.implies:
            assert (feature in features) == (sign == "+")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("gpu", "unknown target 'gpu'", "targets are cpu"),
        ("cpu:", "names nothing after the colon", "targets are cpu"),
        ("cuda:sm90", "unknown GPU architecture 'sm90'", "sm_90"),
        ("cuda:sm_60", "unknown GPU architecture 'sm_60'", "did you mean sm_"),
        ("cuda-sim:sm_999", "unknown GPU architecture 'sm_999'", "did you mean sm_"),
        ("cpu:znver9", "unknown processor 'znver9'", "znver5"),
        ("cpu:i386", "unknown processor 'i386'", "known are"),
        ("cpu:x86_64-unknown-linux-gnu/hasswell", "unknown x86_64 processor 'hasswell'", "did you mean haswell"),
        ("cpu:aarch64-unknown-linux-gnu/haswell", "unknown aarch64 processor 'haswell'", ""),
        ("cpu:sparc-sun-solaris/ultra", "'sparc-sun-solaris' is not a triple", ""),
        ("cpu:x86_64-linux/haswell", "'x86_64-linux' is not a triple", "x86_64-unknown-linux-gnu"),
        ("cpu:haswell,+avx513", "unknown x86_64 feature 'avx513'", "avx512f"),
        ("cpu:haswell,-sse2", "unknown x86_64 feature 'sse2'", "did you mean"),
        ("cpu:haswell,avx2", "feature 'avx2' has no sign", "write +avx2 or -avx2"),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(text: str, message: str, hint: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target.parse(text)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "bits", "registers", "ports", "masked"),
    [
        ("cpu:sse2", 128, 16, 1, False),
        ("cpu:avx2", 256, 16, 2, False),
        ("cpu:avx512", 512, 32, 2, True),
        ("cpu:neon", 128, 32, 2, False),
        ("cpu:sve", 256, 32, 2, True),
        ("cpu:rvv", 128, 32, 2, True),
        ("cpu:sandybridge", 256, 16, 1, False),
        ("cpu:icelake-client", 512, 32, 1, True),
        ("cpu:icelake-client,-avx512f", 256, 16, 2, False),
        ("cpu:sapphirerapids", 512, 32, 2, True),
        ("cpu:znver1", 256, 16, 1, False),
        ("cpu:znver4", 512, 32, 1, True),
        ("cpu:znver4,-avx512f", 256, 16, 2, False),
        ("cpu:znver5", 512, 32, 2, True),
        ("cpu:a64fx", 512, 32, 2, True),
        ("cpu:a64fx,-sve", 128, 32, 8, False),
        ("cpu:neoverse-v2", 128, 32, 4, True),
        ("cpu:spacemit-x60", 256, 32, 1, True),
        ("cpu:sifive-u74", 64, 32, 1, False),
    ],
)
def test_vector_unit(text: str, bits: int, registers: int, ports: int, masked: bool) -> None:
    machine = Target.parse(text).cpu
    assert (machine.vector_bits, machine.vector_registers) == (bits, registers)
    assert (machine.fma_ports, machine.masked) == (ports, masked)
    assert machine.lanes(32) == bits // 32


def test_capabilities() -> None:
    assert not Target.parse("cpu:sandybridge").cpu.has_fma
    assert Target.parse("cpu:haswell").cpu.has_fma
    assert Target.parse("cpu:haswell").cpu.has_f16c
    assert Target.parse("cpu:sapphirerapids").cpu.has_amx
    assert not Target.parse("cpu:sapphirerapids,-amx-tile").cpu.has_amx
    assert Target.parse("cpu:znver4").cpu.has_avx512_bf16
    assert not Target.parse("cpu:znver4").cpu.has_float16
    assert Target.parse("cpu:alderlake").cpu.has_vnni
    assert Target.parse("cpu:neoverse-n1").cpu.has_vnni
    assert not Target.parse("cpu:neoverse-n1").cpu.has_bfloat16_dot
    assert Target.parse("cpu:neoverse-v1").cpu.has_bfloat16_dot
    assert Target.parse("cpu:neon").cpu.has_f16c
    assert not Target.parse("cpu:neon").cpu.has_float16


def test_removing_a_feature_removes_what_builds_on_it() -> None:
    features = Target.parse("cpu:sapphirerapids,-avx2").cpu.features
    assert "avx" in features
    assert not any(name.startswith("avx512") for name in features)


def test_redundant_features_vanish_from_the_text() -> None:
    assert Target.parse("cpu:haswell,+avx2,+fma") == Target.parse("cpu:haswell")
    assert Target.parse("cpu:haswell,-avx2,+avx2,-adx,+adx").features == ("+adx",)


def test_host_is_found_quickly_and_described_by_the_system() -> None:
    host.processor()  # llvmlite's own import is not counted
    for cached in (host.topology, host.data_caches, cpu.describe_host):
        cached.cache_clear()
    start = time.perf_counter()
    machine = Target.parse("cpu").cpu
    assert time.perf_counter() - start < 0.05  # 2 ms here; a shared machine may stall
    assert machine.arch == Target.parse("cpu").arch
    assert machine.cores >= 1
    assert machine.l1d.bytes < machine.l2.bytes
    assert machine.page_bytes % 4096 == 0
    assert machine.huge_page_bytes > machine.page_bytes


def test_host_is_the_same_machine_by_its_long_name() -> None:
    target = Target.parse("cpu")
    assert target.is_host
    assert target.runs_here
    assert Target.parse(str(target)).cpu is target.cpu
    assert not Target.parse("cuda:sm_80").is_host
    assert not Target.parse("cuda-sim").runs_here


def test_runs_here_asks_for_every_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    arch = Target.parse("cpu").arch
    foreign = "cpu:neon" if arch == "x86_64" else "cpu:avx2"
    assert not Target.parse(foreign).runs_here
    bare = {"x86_64": "cpu:sse2", "aarch64": "cpu:neon", "riscv64": "cpu:generic-rv64"}[arch]
    assert Target.parse(bare).runs_here
    lacking = host.processor()._replace(features=frozenset())
    monkeypatch.setattr(host, "processor", lambda: lacking)
    if arch == "x86_64":
        assert not Target.parse("cpu:sse2,+gfni,+sha512").runs_here


def test_cache_and_core_lists_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "cpu0/topology/thread_siblings_list": "0,2",
        "cpu2/topology/thread_siblings_list": "0,2",
        "cpu1/topology/thread_siblings_list": "1,3",
        "cpu3/topology/thread_siblings_list": "1,3",
    }
    for index, (level, kind, size) in enumerate([(1, "Data", "48K"), (1, "Instruction", "32K"), (3, "Unified", "2M")]):
        folder = f"cpu0/cache/index{index}"
        files |= {f"{folder}/level": str(level), f"{folder}/type": kind, f"{folder}/size": size}
        files |= {f"{folder}/coherency_line_size": "64", f"{folder}/ways_of_associativity": "12"}
        files |= {f"{folder}/shared_cpu_list": "0-3" if level == 3 else "0,2"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    monkeypatch.setattr(host, "_CPUS", tmp_path)
    monkeypatch.setattr(host, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(host, "_allowed_cpus", lambda: frozenset(range(4)))
    for cached in (host.topology, host.data_caches):
        cached.cache_clear()
    try:
        assert host.topology() == (2, 2)
        assert host.data_caches() == {1: Cache(48 << 10, 12), 3: Cache(2 << 20, 12, shared_by=2)}
        (tmp_path / "cpu.max").write_text("50000 100000\n")
        host.topology.cache_clear()
        assert host.topology().cores == 1
    finally:
        for cached in (host.topology, host.data_caches):
            cached.cache_clear()


def test_gpu_limits() -> None:
    hopper, ada = Target.parse("cuda:sm_90a").gpu, Target.parse("cuda:sm_89").gpu
    assert (hopper.capability, hopper.variant, hopper.ptx) == (90, "a", 80)
    assert (hopper.shared_per_block, ada.shared_per_block) == (227 << 10, 99 << 10)
    assert (hopper.threads_per_sm, ada.threads_per_sm) == (2048, 1536)
    assert hopper.has_wgmma
    assert not Target.parse("cuda:sm_90").gpu.has_wgmma
    assert Target.parse("cuda:sm_100a").gpu.has_tcgen05
    assert not Target.parse("cuda:sm_120").gpu.has_tcgen05
    assert Target.parse("cuda-sim:sm_80").gpu is Target.parse("cuda:sm_80").gpu
    assert not Target.parse("cuda:sm_75").gpu.has_async_copy
    assert any(shape.operand == "bfloat16" for shape in hopper.mma)
    assert not any(shape.operand == "bfloat16" for shape in Target.parse("cuda:sm_75").gpu.mma)


def test_a_target_has_one_kind_of_machine() -> None:
    with pytest.raises(TargetError, match="is not a CPU"):
        _ = Target.parse("cuda:sm_80").cpu
    with pytest.raises(TargetError, match="is not a GPU"):
        _ = Target.parse("cpu:haswell").gpu
