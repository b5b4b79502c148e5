"""One handler per ONNX operator, in files by family. Importing this package fills the table."""

from lpx.frontends.onnx.handlers import (
    control,
    einsum,
    elementwise,
    indexing,
    nn,
    normalisation,
    padding,
    quantisation,
    recurrent,
    reduction,
    resize,
    shape,
)
from lpx.frontends.onnx.handlers.registry import HANDLERS

__all__ = [
    "HANDLERS",
    "control",
    "einsum",
    "elementwise",
    "indexing",
    "nn",
    "normalisation",
    "padding",
    "quantisation",
    "recurrent",
    "reduction",
    "resize",
    "shape",
]
