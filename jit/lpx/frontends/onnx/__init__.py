"""The ONNX front end: models become graphs, one per set of input shapes."""
