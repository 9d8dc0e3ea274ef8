"""How gradients build graph nodes without knowing the front end.

The front end implements `GraphBuilder` over its graph. In a gradient, ops are called by their type
names with tensors first and attributes by keyword:

    def gradient(self, g, op, dy):
        a, b = op.inputs
        return g.MatMul(dy, b, transpose_b=True), g.MatMul(a, dy, transpose_a=True)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.shapes import Shape

Tensor = Any
"""The front end's symbolic tensor: has `dtype` (a `DType`), `name` and `op`."""


class OperationView(Protocol):
    """The forward operation a gradient is built for."""

    @property
    def name(self) -> str:
        """The operation's name."""

    @property
    def inputs(self) -> Sequence[Tensor]:
        """All inputs, lists flattened."""

    @property
    def outputs(self) -> Sequence[Tensor]:
        """All outputs, lists flattened."""

    def attr(self, name: str) -> Any:
        """The canonical value of an attribute."""


class GraphBuilder(Protocol):
    """Adds nodes to the graph under construction."""

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        """Returns a function that adds one node of `op_type`.

        It accepts the inputs in order (a Python list for list arguments; numbers and arrays become
        constants of the dtype the signature implies), attributes by keyword, and returns the output
        tensor, a tuple of them, or the operation if it has no outputs.
        """

    def const(self, value: Any, dtype: DType) -> Tensor:
        """A constant."""

    def shape(self, tensor: Tensor) -> Shape:
        """The static shape of a tensor."""

    def value(self, tensor: Tensor) -> Any:
        """The constant value of a tensor if the graph determines it, else None."""

    def indexed_slices(self, values: Tensor, indices: Tensor, dense_shape: Tensor) -> Any:
        """A sparse gradient: rows `values[i]` belong at `indices[i]` of the first dimension."""
