"""Builds an ONNX graph node by node: operators, constants, inputs and outputs, each with a readable name."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = ["GraphBuilder"]

OPSET, IR_VERSION = 17, 8
"""The first operator set with LayerNormalization; onnxruntime 1.12 and later read it."""

ELEMENT_TYPES = {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT}


class GraphBuilder:
    """Collects the nodes, constants, inputs and outputs of one graph; a tensor is known by its name."""

    def __init__(self, name: str) -> None:
        self.name, self.scope = name, name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._small_constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def apply(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one output; returns the name of the output."""
        return self.apply_split(operator, 1, *inputs, **attributes)[0]

    def apply_split(self, operator: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Adds a node with `count` outputs; returns their names."""
        name = f"{self.scope}/{operator}_{len(self._nodes)}"
        outputs = [name] if count == 1 else [f"{name}:{number}" for number in range(count)]
        self._nodes.append(helper.make_node(operator, inputs, outputs, name, **attributes))
        return outputs

    def weight(self, name: str, values: NDArray[Any]) -> str:
        """Adds a weight, once for each name; returns its name."""
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name

    def constant(self, values: Any, dtype: str = "int64") -> str:
        """Adds a small constant, once for each value; returns its name."""
        array = np.asarray(values, dtype)
        key = dtype, array.tobytes(), array.shape
        if key not in self._small_constants:
            self._small_constants[key] = self.weight(f"constant_{len(self._small_constants)}", array)
        return self._small_constants[key]

    def cast(self, tensor: str, dtype: str) -> str:
        """Returns the tensor in another element type, named as NumPy names it."""
        return self.apply("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def size(self, tensor: str, axis: int) -> str:
        """Returns the size of one axis, as a vector of one number."""
        return self.apply("Shape", tensor, start=axis, end=axis + 1)

    def range(self, first: str, stop: str) -> str:
        """Returns the whole numbers from `first` to `stop − 1`; both are vectors of one number."""
        axis = self.constant([0])
        scalars = [self.apply("Squeeze", bound, axis) for bound in (first, stop)]
        return self.apply("Range", *scalars, self.constant(1))

    def unsqueeze(self, tensor: str, *axes: int) -> str:
        """Returns the tensor with new axes of size 1."""
        return self.apply("Unsqueeze", tensor, self.constant(axes))

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> str:
        """Adds an input of the graph; returns its name."""
        self._inputs.append(helper.make_tensor_value_info(name, ELEMENT_TYPES[dtype], shape))
        return name

    def output(self, name: str, tensor: str, shape: Sequence[int | str], *, first: bool = False) -> None:
        """Adds an output of the graph in float32, which `tensor` is, behind the others or before them."""
        self._nodes.append(helper.make_node("Identity", [tensor], [name], f"output/{name}"))
        described = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        self._outputs.insert(0 if first else len(self._outputs), described)

    def serialised(self, producer: str) -> bytes:
        """Returns the graph as the content of a file; raises ValueError where the format cannot hold its size."""
        constants = list(self._constants.values())
        size = sum(len(constant.raw_data) for constant in constants)
        if size > 2**31 - 2**24:
            raise ValueError(
                f"the {self.name} has weights of {size / 1e9:.1f} GB, and an ONNX file holds less than 2 GB: export "
                "with `--precision float16` or `--precision int8`"
            )
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, constants)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name=producer)
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())
