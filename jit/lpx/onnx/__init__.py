"""ONNX models: `lpx.onnx.load("model.onnx")(x)`."""

from lpx.frontends.onnx.check import Fault, Report, check
from lpx.frontends.onnx.model import Model, TensorType, load
from lpx.frontends.onnx.samples import sample_inputs

__all__ = ["Fault", "Model", "Report", "TensorType", "check", "load", "sample_inputs"]
