"""The one table of operators. Importing this package registers every row."""

from lpx.graph.operator import lookup, names
from lpx.graph.operators import (
    activation,
    contraction,
    elementwise,
    float_bits,
    gathering,
    integers,
    movement,
    normalization,
    onnx_padding,
    onnx_pooling,
    onnx_resampling,
    onnx_scatter,
    onnx_sorting,
    pooling,
    reduction,
    reshaping,
    scan,
)

__all__ = [
    "activation",
    "contraction",
    "elementwise",
    "float_bits",
    "gathering",
    "integers",
    "lookup",
    "movement",
    "names",
    "normalization",
    "onnx_padding",
    "onnx_pooling",
    "onnx_resampling",
    "onnx_scatter",
    "onnx_sorting",
    "pooling",
    "reduction",
    "reshaping",
    "scan",
]
