"""Arguments on which kernels are tested: around the edges of the machine's vectors and register tiles.

The first case of a kernel runs in every dtype of the kernel, so it has a part that fills no vector.
"""

from __future__ import annotations

from lpx.target import Target
from lpx_kernels import Case, Draw, case

MACHINE = Target.parse("cpu").cpu
LANES = MACHINE.lanes(32)
ROWS = (MACHINE.vector_registers - 4) // 2
"""Rows of the largest register tile of a product, two vectors wide."""

BYTES = {"low": -128.0, "high": 128.0}


def _int8(*shape: int) -> Draw:
    return Draw(shape, "int8", **BYTES)


def _integers(*shape: int, below: int, low: int = 0) -> Draw:
    return Draw(shape, "int64", low, below)


def _elementwise() -> list[Case]:
    return [case((3, LANES + 1)), case((0,)), case(()), case((LANES - 1,)), case((2 * LANES,)), case((1, 1))]


def _pools(*options: dict[str, object]) -> list[Case]:
    return [case((2, 3, 7, LANES + 1), 2), *(case((1, 2, 9, 11), **o) for o in options)]


CASES: dict[str, list[Case]] = {
    **{name: _elementwise() for name in ("relu", "gelu", "silu", "sigmoid", "tanh")},
    "attention": [
        case((2, 3, 5, 8), (2, 3, LANES + 1, 8), (2, 3, LANES + 1, 7)),
        case((1, 5, 8), (1, 5, 8), (1, 5, 8), causal=True),
        case((LANES, 4), (3, 4), (3, 5), scale=0.3),
        case((2, 4, 3, 8), (2, 2, 7, 8), (2, 2, 7, 8), mask=Draw((2, 1, 3, 7))),
        case((1, 2, 1, 8), (1, 2, 1, 8), (1, 2, 1, 8)),
        case((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)),
        case((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6), causal=True),
        case((3, 4, 1, 8), (3, 2, 37, 8), (3, 2, 37, 8), lengths=_integers(3, low=1, below=38)),
        case((2, 2, 3, 8), (2, 2, 9, 8), (2, 2, 9, 8), causal=True, lengths=_integers(2, low=3, below=10)),
    ],
    "rotary_embedding": [
        case((2, 3, 5, 2 * LANES + 2), (5, LANES + 1), (5, LANES + 1)),
        case((7, 6), (7, 3), (7, 3), interleaved=True),
        case((1, 2), (1, 1), (1, 1)),
    ],
    "conv1d": [
        case((2, 3, LANES + 4), (5, 3, 3), bias=Draw((5,)), activation="relu"),
        case((1, 4, 13), (6, 2, 4), stride=3, padding=2, dilation=2, groups=2),
        case((1, 1, 1), (1, 1, 1)),
    ],
    "conv2d": [
        case((2, 3, 7, LANES + 1), (LANES + 1, 3, 3, 3), bias=Draw((LANES + 1,)), padding=1, activation="relu"),
        case((1, 8, 9, 9), (2 * LANES + 1, 8, 3, 3), stride=2, padding=1),
        case((1, 4, 9, 8), (6, 2, 3, 2), stride=(2, 1), padding=(0, 1), dilation=(1, 2), groups=2),
        case((1, LANES + 1, 7, 7), (LANES + 1, 1, 3, 3), padding=1, groups=LANES + 1),
        case((1, 5, ROWS + 1, ROWS), (7, 5, 1, 1), activation="gelu"),
        case((1, 1, 1, 1), (1, 1, 3, 3), padding=1),
        case((0, 2, 5, 5), (3, 2, 3, 3)),
    ],
    "conv3d": [
        case((1, 2, 4, 5, LANES + 1), (3, 2, 2, 3, 3), bias=Draw((3,)), padding=(0, 1, 1)),
        case((1, 2, 3, 3, 3), (2, 1, 3, 3, 3), groups=2),
    ],
    "conv_transpose2d": [
        case((2, 3, 5, LANES + 1), (3, 4, 3, 3), bias=Draw((4,)), stride=2, padding=1, output_padding=1),
        case((1, 4, 4, 5), (4, 3, 2, 3), stride=(3, 2), dilation=2, groups=2),
        case((1, 1, 1, 1), (1, 2, 4, 4), activation="relu"),
    ],
    "matmul": [
        case((ROWS + 1, 13), (13, 2 * LANES + 1)),
        case((1, 1), (1, 1)),
        case((3, 0), (0, 5)),
        case((0, 4), (4, 3)),
        case((LANES - 1, LANES + 1), (LANES + 1, LANES), bias=Draw((LANES,)), activation="silu"),
        case((2 * ROWS, 31), (31, 2 * LANES), bias=Draw((2 * LANES,)), residual=Draw((2 * ROWS, 2 * LANES))),
        case((37, 53), (53, 71), residual=Draw((37, 71)), activation="relu"),
        case((2, 1, 5, 7), (3, 7, LANES)),
        case((67, 131), (131,)),
        case((131,), (131, 67)),
        case((257,), (257,)),
        case((1, 129), (129, 3)),
    ],
    "linear": [case((2, ROWS - 1, 19), (LANES + 1, 19), Draw((LANES + 1,)), "gelu"), case((19,), (3, 19))],
    "matmul_int8": [
        case((ROWS + 1, 13), _int8(13, 2 * LANES + 1)),
        case((5, 64), _int8(64, LANES), bias=Draw((LANES,), "int32")),
        case((5, 67), _int8(67, 17), scale=Draw((17,), "float32", 0.0, 0.01), zero_point=3, dtype="uint8"),
        case((1, 4), _int8(4, 1), scale=Draw((), "float32", 0.0, 1.0)),
        case((2, 3, 8), _int8(2, 8, 5), bias=Draw((5,), "int32"), scale=Draw((), "float32", 0.0, 0.1)),
    ],
    "einsum": [
        case("ij,jk->ik", (ROWS + 1, 13), (13, LANES + 1)),
        case("bhqd,bhkd->bhqk", (2, 3, 5, 8), (2, 3, LANES + 1, 8)),
        case("ii->i", (7, 7)),
        case("ij,jk,kl->li", (3, 4), (4, 5), (5, 6)),
        case("i,j->ij", (5,), (LANES + 1,)),
        case("...i->...", (3, 4, 5)),
    ],
    "resize": [
        case((1, 2, 5, LANES + 1), size=(7, 2 * LANES + 3), mode="linear"),
        case((2, 1, 4, 4), size=8, mode="nearest"),
        case((1, 1, 9, 7), size=(4, 3), mode="cubic"),
        case((1, 2, 5, 6), size=(9, 1), mode="linear", align_corners=True),
    ],
    "transpose": [
        case((LANES + 1, 2 * LANES + 3)),
        case((2, 3, 5, 7), axes=(0, 2, 3, 1)),
        case((3, 4, 5), axes=(1, 0, 2)),
        case((0, 3)),
        case((1,)),
    ],
    "concat": [case((3, LANES + 1), (2, LANES + 1)), case((3, 5), (3, 1), (3, 0), (3, 4), axis=1), case((7,))],
    "pad": [
        case((3, LANES + 1), widths=((1, 2), (0, 3))),
        case((2, 0), widths=((0, 0), (2, 1)), value=7),
        case((5,), widths=((0, 0),)),
    ],
    "gather": [
        case((37, LANES + 1), _integers(11, low=-37, below=37)),
        case((3, 37), _integers(4, 5, below=37), axis=1),
        case((37,), _integers(below=37)),
        case((37, 3), _integers(0, below=1)),
    ],
    "five_point": [case((5, LANES + 4), (), ()), case((3, 3), (), ()), case((2, 7), (), ())],
    "softmax": [
        case((3, 2 * LANES + 1)),
        case((5, LANES - 1), axis=0),
        case((2, 3, LANES, 4), axis=1),
        case((4, 1)),
        case((0, 3)),
        case((LANES,)),
        case((2, 1031)),
    ],
    "log_softmax": [case((3, 2 * LANES + 1)), case((5, LANES), axis=0), case((1, 1))],
    "layer_norm": [
        case((3, 2 * LANES + 1), (2 * LANES + 1,), (2 * LANES + 1,)),
        case((2, 3, LANES), axis=(1, 2)),
        case((5, 3), eps=1e-2),
        case((0, 3)),
    ],
    "rms_norm": [case((3, 2 * LANES + 1), (2 * LANES + 1,)), case((4, 5, 3), axis=0), case((1, LANES))],
    "group_norm": [
        case((2, 6, 5, 7), 3, Draw((6,)), Draw((6,))),
        case((1, 4, LANES + 1), 1),
        case((3, 4), 2),
    ],
    "instance_norm": [case((2, 3, 5, LANES), Draw((3,)), Draw((3,))), case((1, 1, 7))],
    "batch_norm": [
        case((2, 3, 5, LANES + 1), Draw((3,)), Draw((3,), "", 0.5, 2), Draw((3,)), Draw((3,))),
        case((5, 3), Draw((3,)), Draw((3,), "", 0.5, 2)),
    ],
    "max_pool": _pools({"kernel": 3, "stride": 2, "padding": 1}, {"kernel": (2, 3), "stride": 1, "dilation": (2, 1)}),
    "avg_pool": _pools(
        {"kernel": 3, "stride": 2, "padding": 1}, {"kernel": (3, 2), "padding": 1, "count_padding": False}
    ),
    "global_max_pool": [case((2, 3, 7, LANES + 1)), case((1, 2, 1, 1))],
    "global_avg_pool": [case((2, 3, 7, LANES + 1)), case((1, 2, 1, 1))],
    "lstm": [
        case((3, 2, 5), (4 * LANES + 4, 5), (4 * LANES + 4, LANES + 1), bias=Draw((4 * LANES + 4,))),
        case((2, 1, 3), (12, 3), (12, 3), hidden=Draw((1, 3)), cell=Draw((1, 3))),
    ],
    "gru": [
        case((3, 2, 5), (3 * LANES + 3, 5), (3 * LANES + 3, LANES + 1), bias=Draw((3 * LANES + 3,))),
        case((2, 1, 3), (9, 3), (9, 3), hidden=Draw((1, 3)), hidden_bias=Draw((3,))),
    ],
    **{
        name: [
            case((3, 2 * LANES + 1), axis=1),
            case((5, LANES + 1), axis=0, keepdims=True),
            case((3, 7, 5)),
            case((2, 3, LANES, 5), axis=(0, 2)),
            case((LANES - 1, 1), axis=-1),
        ]
        for name in ("sum", "mean", "max", "min")
    },
    "argmax": [
        case((3, 2 * LANES + 1), axis=1),
        case((5, LANES + 1), axis=0, keepdims=True),
        case((3, 7, 5)),
        case((1, 1), axis=1),
    ],
    "cumsum": [case((3, 2 * LANES + 1), axis=1), case((5, LANES), axis=0), case((3, 4)), case((0,))],
    "sort": [case((3, LANES + 1)), case((7, 3), axis=0, descending=True), case((1,)), case((0,))],
    "top_k": [case((3, LANES + 1), 4), case((7, 3), 2, axis=0, largest=False), case((5,), 0), case((5,), 5)],
}
CASES["sum"] += [case((0, 3), axis=0), case((2, 0))]
