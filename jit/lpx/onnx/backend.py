"""lpx as an ONNX backend (`onnx.backend.base`), so that ONNX's own backend tests run on it.

import lpx.onnx.backend as backend
(y,) = backend.prepare(onnx.load("model.onnx")).run([x])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import onnx
from onnx.backend import base

from lpx.errors import UnsupportedError
from lpx.frontends.onnx.model import Model, load


class LpxRep(base.BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, given the inputs in order."""
        del kwargs
        given = cast("Sequence[Any]", inputs) if isinstance(inputs, list | tuple) else [inputs]
        names = [t.name for t in (*self.model.inputs, *self.model.optional_inputs)]
        results = self.model.run(dict(zip(names, given, strict=False)))
        return tuple(results.values())


class LpxBackend(base.Backend):
    """Runs models on the CPU."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> LpxRep:
        """`model`, to be compiled when it is first run. Raises: UnsupportedError for another device than the CPU."""
        del kwargs
        if not cls.supports_device(device):
            raise UnsupportedError(f"device {device}", hint="the ONNX backend runs on the CPU")
        return LpxRep(load(model))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compile and run once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Compile and run one node on arrays."""
        del outputs_info
        arrays = [a for a in inputs if a is not None]
        names = [name for name in node.input if name]
        types = [onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for a in arrays]
        declared = [
            onnx.helper.make_tensor_value_info(name, code, a.shape)
            for name, code, a in zip(names, types, arrays, strict=True)
        ]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", declared, results)
        opset = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
        return cls.run_model(model, arrays, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run on `device`."""
        return device.partition(":")[0] == "CPU"


prepare = LpxBackend.prepare
run_model = LpxBackend.run_model
run_node = LpxBackend.run_node
supports_device = LpxBackend.supports_device
