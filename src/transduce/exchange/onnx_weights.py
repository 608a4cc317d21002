"""How an ONNX graph stores weights and multiplies by them: in float32, in float16 or in int8.

Whatever the storage, inputs and outputs of the graph and of every operation here are float32, so that any runtime runs
any precision.
"""

from typing import Protocol

import numpy as np
from torch import Tensor

from transduce.exchange.int8_rows import int8_rows
from transduce.exchange.onnx_operators import GraphBuilder

__all__ = ["FloatWeights", "Int8Weights", "StoredWeights", "weights_in"]

LARGEST = 127  # magnitude of a state
ZERO = 128  # the number that stands for 0 in eight bits without a sign


class StoredWeights(Protocol):
    """A way to store weights in a graph; `name` is that of a weight in the file."""

    def rows(self, graph: GraphBuilder, name: str, table: Tensor, tokens: str) -> str:
        """Returns the rows of a table [rows features] that `tokens` select."""

    def product(self, graph: GraphBuilder, name: str, matrix: Tensor, states: str, *, is_table: bool = False) -> str:
        """Returns states · matrixᵀ for a matrix [outputs inputs].

        With `is_table` the matrix is stored as `rows` stores it, so that both can share it.
        """

    def dense(self, graph: GraphBuilder, name: str, values: Tensor) -> str:
        """Returns a weight that is not a matrix of a product: a bias, a norm, a table of positions."""


class FloatWeights:
    """Weights in float32, or in float16 with float32 arithmetic, in half the space."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def rows(self, graph: GraphBuilder, name: str, table: Tensor, tokens: str) -> str:
        """As `StoredWeights.rows`."""
        return self._as_float32(graph, graph.apply("Gather", self._stored(graph, name, table), tokens))

    def product(self, graph: GraphBuilder, name: str, matrix: Tensor, states: str, *, is_table: bool = False) -> str:
        """As `StoredWeights.product`."""
        factor = self._as_float32(graph, self._stored(graph, name, matrix if is_table else matrix.T))
        return graph.apply("MatMul", states, graph.apply("Transpose", factor, perm=[1, 0]) if is_table else factor)

    def dense(self, graph: GraphBuilder, name: str, values: Tensor) -> str:
        """As `StoredWeights.dense`."""
        return self._as_float32(graph, self._stored(graph, name, values))

    def _stored(self, graph: GraphBuilder, name: str, values: Tensor) -> str:
        """Adds a weight in the element type of the storage."""
        return graph.weight(name, values.detach().float().numpy().astype(self.dtype))

    def _as_float32(self, graph: GraphBuilder, tensor: str) -> str:
        """Returns a tensor of the storage in float32; a runtime converts constants once, when it loads the graph."""
        return tensor if self.dtype == "float32" else graph.cast(tensor, "float32")


class Int8Weights:
    """Matrices in int8 with a scale an output, the rest in float32.

    A product quantises its states by the largest magnitude of each token, so that a translation does not depend on the
    other sentences of a batch, as it does with the scale for the whole batch that DynamicQuantizeLinear computes.
    """

    def __init__(self) -> None:
        self._others = FloatWeights("float32")
        self._quantised: dict[tuple[int, str], tuple[str, str]] = {}  # states that several products share

    def rows(self, graph: GraphBuilder, name: str, table: Tensor, tokens: str) -> str:
        """As `StoredWeights.rows`."""
        numbers, scales = self._matrix(graph, name, table, transposed=False)
        rows = graph.cast(graph.apply("Gather", numbers, tokens), "float32")
        return graph.apply("Mul", rows, graph.unsqueeze(graph.apply("Gather", scales, tokens), -1))

    def product(self, graph: GraphBuilder, name: str, matrix: Tensor, states: str, *, is_table: bool = False) -> str:
        """As `StoredWeights.product`."""
        numbers, scales = self._matrix(graph, name, matrix, transposed=not is_table)
        factor = graph.apply("Transpose", numbers, perm=[1, 0]) if is_table else numbers
        quantised, of_states = self._quantise(graph, states)
        zero = graph.constant(ZERO, "uint8")
        sums = graph.cast(graph.apply("MatMulInteger", quantised, factor, zero), "float32")
        return graph.apply("Mul", graph.apply("Mul", sums, of_states), scales)

    def dense(self, graph: GraphBuilder, name: str, values: Tensor) -> str:
        """As `StoredWeights.dense`."""
        return self._others.dense(graph, name, values)

    def _matrix(self, graph: GraphBuilder, name: str, matrix: Tensor, *, transposed: bool) -> tuple[str, str]:
        """Adds a matrix [outputs inputs] as int8 numbers and scales of its outputs; returns their names."""
        numbers, scales = int8_rows(matrix.detach().float().numpy())
        stored = graph.weight(name, numbers.T if transposed else numbers)
        return stored, graph.weight(f"{name}.scale", scales)

    def _quantise(self, graph: GraphBuilder, states: str) -> tuple[str, str]:
        """Returns states as eight bits without a sign, and the scale of each token."""
        key = id(graph), states
        if key not in self._quantised:
            largest = graph.apply("ReduceMax", graph.apply("Abs", states), axes=[-1], keepdims=1)
            # onnxruntime before 1.31 does not reduce the last axis of states without tokens.
            largest = graph.apply("Reshape", largest, graph.constant([0, 0, 1]))
            tiny = graph.constant(np.finfo(np.float32).tiny * LARGEST, "float32")
            scale = graph.apply("Div", graph.apply("Max", largest, tiny), graph.constant(LARGEST, "float32"))
            rounded = graph.apply("Round", graph.apply("Div", states, scale))
            shifted = graph.apply("Add", rounded, graph.constant(ZERO, "float32"))
            self._quantised[key] = graph.cast(shifted, "uint8"), scale
        return self._quantised[key]


def weights_in(precision: str) -> StoredWeights:
    """Returns the storage of a precision: float32, float16 or int8."""
    return Int8Weights() if precision == "int8" else FloatWeights(precision)
