"""Convolution, pooling, products, normalisation, resizing, quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontends.onnx.support import Case, assert_same, case, check, floats, integers, onnxruntime, run_case

IMAGE = floats(2, 4, 7, 9)
KERNEL = floats(6, 4, 3, 3, seed=1)

CONVOLUTIONS = [
    case("Conv", IMAGE, KERNEL, floats(6, seed=2), pads=[1, 1, 1, 1]),
    case("Conv", IMAGE, floats(6, 2, 3, 2, seed=1), group=2, strides=[2, 1], dilations=[1, 2], pads=[0, 1, 2, 0]),
    case("Conv", IMAGE, floats(4, 1, 3, 3, seed=1), group=4, auto_pad="SAME_UPPER", strides=[2, 2]),
    case("Conv", IMAGE, KERNEL, auto_pad="SAME_LOWER", strides=[2, 2]),
    case("Conv", IMAGE, KERNEL, auto_pad="VALID", kernel_shape=[3, 3]),
    case("Conv", floats(1, 2, 8), floats(3, 2, 4, seed=1), strides=[3]),
    case("Conv", floats(2, 4, 9, 1), floats(6, 2, 3, 1, seed=1), group=2, strides=[2, 3], pads=[1, 0, 1, 0]),
    case("Conv", floats(2, 4, 1, 1), floats(6, 4, 1, 1, seed=1), floats(6, seed=2)),
    case("Conv", floats(1, 2, 4, 5, 4), floats(3, 2, 2, 3, 2, seed=1), pads=[1, 0, 0, 0, 1, 1]),
    case("ConvTranspose", floats(1, 2, 3, 4), floats(2, 3, 3, 3, seed=1), floats(3, seed=2), strides=[2, 2]),
    case(
        "ConvTranspose",
        floats(1, 2, 3, 4),
        floats(2, 3, 3, 3, seed=1),
        pads=[1, 1, 1, 1],
        output_padding=[1, 0],
        strides=[2, 2],
    ),
    case("ConvTranspose", floats(1, 1, 3, 3), floats(1, 2, 3, 3, seed=1), strides=[3, 2], output_shape=[10, 8]),
]
POOLS = [
    case("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], dilations=[2, 3], outputs=2),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("AveragePool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], count_include_pad=1),
    case("AveragePool", IMAGE, kernel_shape=[3, 2], auto_pad="SAME_UPPER"),
    case("LpPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2], p=3),
    case("GlobalAveragePool", IMAGE),
    case("GlobalMaxPool", IMAGE),
]
PRODUCTS = [
    case("MatMul", floats(2, 3, 4), floats(4, 5, seed=1)),
    case("MatMul", floats(4), floats(2, 4, 3, seed=1)),
    case("Gemm", floats(4, 3), floats(5, 4, seed=1), floats(5, seed=2), alpha=0.5, beta=2.0, transA=1, transB=1),
    case("Gemm", floats(3, 4), floats(4, 5, seed=1)),
    case("Einsum", floats(2, 3, 4), floats(2, 4, 5, seed=1), equation="bij,bjk->bik"),
    case("Einsum", floats(3, 3), equation="ii->i"),
    case("Einsum", floats(3, 4), floats(4, 2, seed=1), equation="ij , jk"),
    case("Einsum", floats(2, 1, 3, 4), floats(5, 4, 2, seed=1), equation="...ij,...jk->...ik"),
    case(
        "MatMulInteger",
        integers(3, 4, low=0, high=99, dtype="uint8"),
        integers(4, 2, dtype="int8"),
        np.array(7, np.uint8),
    ),
    case(
        "ConvInteger",
        integers(1, 2, 5, 5, low=0, high=99, dtype="uint8"),
        integers(3, 2, 3, 3, low=0, dtype="uint8"),
        np.array(3, np.uint8),
        np.array(2, np.uint8),
        pads=[1, 1, 1, 1],
    ),
]
NORMALISATIONS = [
    case("BatchNormalization", IMAGE, *(np.abs(floats(4, seed=s)) + 0.5 for s in range(4)), epsilon=1e-3),
    case("LayerNormalization", floats(3, 4, 5), floats(5, seed=1), floats(5, seed=2)),
    case("LayerNormalization", floats(3, 4, 5), floats(4, 5, seed=1), axis=1, outputs=3),
    case("InstanceNormalization", IMAGE, floats(4, seed=1), floats(4, seed=2)),
    case("GroupNormalization", IMAGE, floats(4, seed=1), floats(4, seed=2), num_groups=2),
    case("RMSNormalization", floats(3, 4, 5), floats(5, seed=1), opset=23),
    case("MeanVarianceNormalization", IMAGE),
]


@pytest.mark.parametrize("c", CONVOLUTIONS + POOLS, ids=str)
def test_windows(c: Case) -> None:
    check(c, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "c",
    [
        case("ConvTranspose", floats(1, 4, 5), floats(4, 2, 3, seed=1), group=2, dilations=[2]),
        case("GlobalLpPool", IMAGE, p=2),
        case("LRN", IMAGE, size=3, alpha=0.1, beta=0.6, bias=1.5),
    ],
    ids=str,
)
def test_what_the_reference_lacks(c: Case) -> None:
    check(c, rtol=1e-4, atol=1e-5, oracle=onnxruntime)


@pytest.mark.parametrize("c", PRODUCTS, ids=str)
def test_products(c: Case) -> None:
    check(c, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("c", NORMALISATIONS, ids=str)
def test_normalisation(c: Case) -> None:
    check(c, rtol=1e-4, atol=1e-5)


SMALL = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


def _resize(
    scales: list[float] | None = None, sizes: list[int] | None = None, roi: list[float] | None = None, **attrs: Any
) -> Case:
    operands = [
        SMALL,
        None if roi is None else np.array(roi, np.float32),
        None if scales is None else np.array(scales, np.float32),
        None if sizes is None else np.array(sizes, np.int64),
    ]
    return case("Resize", *operands[: 4 if sizes is not None else 3], **attrs)


RESIZES = [
    _resize([1, 1, 2, 3]),
    _resize([1, 1, 2, 2], mode="linear"),
    _resize([1, 1, 0.6, 0.6], mode="linear", coordinate_transformation_mode="align_corners"),
    _resize([1, 1, 1.5, 0.75], mode="cubic", exclude_outside=1),
    _resize([1, 1, 0.6, 0.6], mode="cubic", antialias=1),
    _resize([1, 1, 0.6, 0.6], mode="linear", antialias=1),
    _resize(None, [1, 1, 3, 7], mode="nearest", nearest_mode="ceil", coordinate_transformation_mode="asymmetric"),
    _resize(None, [1, 1, 3, 5], mode="linear", coordinate_transformation_mode="half_pixel_symmetric"),
    _resize(None, [1, 1, 1, 3], mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
    _resize(None, [3, 7], axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    _resize(
        None,
        [1, 1, 3, 3],
        [0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=10.0,
    ),
]


@pytest.mark.parametrize("c", RESIZES, ids=str)
def test_resize(c: Case) -> None:
    check(c, rtol=1e-5, atol=1e-4)


QUANTISED = [
    case("QuantizeLinear", floats(2, 3, 4) * 50, np.array(0.5, np.float32), np.array(7, np.uint8)),
    case(
        "QuantizeLinear", floats(2, 3, 4), np.array([0.1, 0.2, 0.3], np.float32), np.array([0, 1, -1], np.int8), axis=1
    ),
    case(
        "QuantizeLinear", floats(2, 6), np.abs(floats(2, 3, seed=1)), integers(2, 3, dtype="int8"), axis=1, block_size=2
    ),
    case(
        "DequantizeLinear",
        integers(2, 3, dtype="int8"),
        np.array([0.5, 2], np.float32),
        np.array([1, 0], np.int8),
        axis=0,
    ),
    case("DequantizeLinear", integers(3, dtype="int32"), np.array(0.25, np.float32)),
    case("DynamicQuantizeLinear", floats(3, 4), outputs=3),
    case(
        "QLinearMatMul",
        integers(2, 4, low=0, high=200, dtype="uint8"),
        np.array(0.0066, np.float32),
        np.array(113, np.uint8),
        integers(4, 3, low=0, high=200, dtype="uint8"),
        np.array(0.0071, np.float32),
        np.array(114, np.uint8),
        np.array(0.0107, np.float32),
        np.array(118, np.uint8),
    ),
]


@pytest.mark.parametrize("c", QUANTISED, ids=str)
def test_quantised(c: Case) -> None:
    check(c)


def test_qlinear_conv() -> None:
    """The result of the convolution in exact integers, rescaled in float32."""
    x = integers(1, 2, 5, 5, low=0, high=255, dtype="uint8")
    w = integers(3, 2, 3, 3, low=0, high=255, dtype="uint8", seed=1)
    bias = integers(3, low=-500, high=500, dtype="int32")
    scales = [np.array(s, np.float32) for s in (0.02, 0.01, 0.5)]
    zeros = [np.array(z, np.uint8) for z in (120, 130, 7)]
    operands = [x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2], bias]
    (got,) = run_case(case("QLinearConv", *operands, pads=[1, 1, 1, 1]))
    exact = run_case(case("ConvInteger", x, w, zeros[0], zeros[1], pads=[1, 1, 1, 1]))[0] + bias[:, None, None]
    want = np.clip(np.rint(exact.astype(np.float32) * (scales[0] * scales[1] / scales[2])) + 7, 0, 255).astype(np.uint8)
    assert_same(got, want)
