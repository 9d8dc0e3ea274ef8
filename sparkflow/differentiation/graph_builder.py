"""The runtime's `GraphBuilder` over the front end's graph: how gradients of ops add nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.constants import constant_array
from sparkflow.graph.conversion import constant
from sparkflow.graph.graph import Graph
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops import registry
from sparkflow_runtime.shapes import Shape


class FrontEndBuilder:
    """Adds nodes to `graph` in its open scopes; implements the runtime's `GraphBuilder`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        graph = self._graph

        def build(*inputs: Any, **attrs: Any) -> Any:
            if not all(isinstance(each, Tensor) for each in inputs):
                # A number has the dtype of a tensor, also of one that comes after it.
                for arg, each in zip(
                    registry.lookup(op_type).signature.inputs, inputs, strict=False
                ):
                    if arg.type_attr is not None and isinstance(each, Tensor):
                        attrs.setdefault(arg.type_attr, each.dtype.base)
            return graph.apply(op_type, inputs, attrs)

        return build

    def const(self, value: Any, dtype: DType) -> Tensor:
        """A constant; arrays are cast to `dtype`."""
        return constant(self._graph, constant_array(value, dtype), "Const")

    def shape(self, tensor: Tensor) -> Shape:
        """The static shape of a tensor."""
        return tensor._shape

    def value(self, tensor: Tensor) -> Any:
        """The constant value of a tensor where the graph tells it, else None."""
        return constant_value(tensor)

    def indexed_slices(self, values: Tensor, indices: Tensor, dense_shape: Tensor) -> IndexedSlices:
        """A sparse gradient."""
        return IndexedSlices(values, indices, dense_shape)
