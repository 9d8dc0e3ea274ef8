"""`IndexedSlices`: some rows of a tensor, as sparse gradients are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value_as_shape
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import DType


@export("IndexedSlices")
class IndexedSlices(Symbolic):
    """Rows `values[i]` that belong at `indices[i]` of the first dimension; repeated rows add up.

    Attributes:
        values: [n, ...] the rows.
        indices: [n] integers, not necessarily different.
        dense_shape: The shape of the whole, None where not known.
    """

    __slots__ = ("dense_shape", "indices", "values")

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self.values = values
        self.indices = indices
        self.dense_shape = dense_shape

    @property
    def name(self) -> str:
        """The name of `values`."""
        return self.values.name

    @property
    def op(self) -> Operation:
        """The operation that makes `values`."""
        return self.values.op

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.values.dtype

    @property
    def device(self) -> str:
        """The device of `values`."""
        return self.values.device

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self.values.graph

    @property
    def shape(self) -> TensorShape:
        """The static shape of the whole, as far as it is known."""
        if self.dense_shape is None:
            return TensorShape(None)
        return TensorShape(constant_value_as_shape(self.dense_shape))

    def consumers(self) -> list[Operation]:
        """The operations that read `values`."""
        return self.values.consumers()

    def _to_tensor(self, as_ref: bool = False) -> Tensor:
        if self.dense_shape is None:
            raise ValueError(
                f"Tensor conversion requested for IndexedSlices without dense_shape: {self}"
            )
        graph = self.graph
        rows = graph.apply(
            "StridedSlice",
            (self.dense_shape, [0], [1], [1]),
            {"shrink_axis_mask": 1},
        )
        dense: Tensor = graph.apply("UnsortedSegmentSum", (self.values, self.indices, rows), {})
        dense.set_shape(self.shape)
        return dense

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __str__(self) -> str:
        shape = "" if self.dense_shape is None else f", dense_shape={self.dense_shape}"
        return f"IndexedSlices(indices={self.indices}, values={self.values}{shape})"


@export("IndexedSlicesValue")
class IndexedSlicesValue(NamedTuple):
    """The result of fetching `IndexedSlices`."""

    values: np.ndarray[Any, Any]
    indices: np.ndarray[Any, Any]
    dense_shape: np.ndarray[Any, Any] | None
