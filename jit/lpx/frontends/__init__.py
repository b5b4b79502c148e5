"""Ways into the graph layer: NumPy-style Python code and ONNX models."""
