"""ONNX models: `lpx.onnx.load("model.onnx")(x)`."""

from lpx.frontends.onnx.model import Model, TensorType, load

__all__ = ["Model", "TensorType", "load"]
