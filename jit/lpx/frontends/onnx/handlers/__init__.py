"""One handler per ONNX operator, in files by family. Importing this package fills the table."""

from lpx.frontends.onnx.handlers import elementwise, indexing, nn, normalisation, reduction, shape
from lpx.frontends.onnx.handlers.registry import HANDLERS

__all__ = ["HANDLERS", "elementwise", "indexing", "nn", "normalisation", "reduction", "shape"]
