"""Sparse tensors in queues: stored under a handle, removed as a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import string_attr, type_attr
from sparkflow_runtime.resources.sparse_map import SparseTensorsMap
from sparkflow_runtime.shapes import Shape

_NAMES = {"container": string_attr(""), "shared_name": string_attr("")}


class _MapOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable

    def find(self, node: NodeView, context: KernelContext) -> SparseTensorsMap:
        """Returns the task's map that the attributes name."""
        name = node.attrs["shared_name"] or node.name
        return context.resources.get_or_create(
            node.attrs["container"], f"sparse map {name}", SparseTensorsMap, SparseTensorsMap
        )


class _Adds(_MapOp):
    inputs = "sparse_indices: int64, sparse_values: T, sparse_shape: int64"
    attrs = {"T": type_attr(dtypes.ALL), **_NAMES}

    def check(self, node: Inference) -> None:
        """Checks that these are the parts of a sparse tensor.

        Raises:
            InvalidArgumentError: A rank is wrong.
        """
        node.with_rank(0, 2, "sparse_indices")
        node.with_rank(1, 1, "sparse_values")
        node.with_rank(2, 1, "sparse_shape")


@register
class AddSparseToTensorsMap(_Adds):
    """Stores a sparse tensor; returns its handle."""

    outputs = "sparse_handle: int64"

    def infer(self, node: Inference) -> list[Shape]:
        """A scalar."""
        self.check(node)
        return [()]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel copies its inputs."""
        found = self.find(node, context)

        def run(indices: Array, values: Array, shape: Array) -> Array:
            return np.int64(found.add((indices.copy(), values.copy(), shape.copy())))

        return run


@register
class AddManySparseToTensorsMap(_Adds):
    """Stores each row of a sparse tensor; returns their handles."""

    outputs = "sparse_handles: int64"

    def infer(self, node: Inference) -> list[Shape]:
        """A vector."""
        self.check(node)
        return [(None,)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel splits by the first coordinate."""
        found = self.find(node, context)

        def run(indices: Array, values: Array, shape: Array) -> Array:
            numbers = []
            for row in range(int(shape[0])):
                mine = indices[:, 0] == row
                numbers.append(found.add((indices[mine, 1:], values[mine], shape[1:].copy())))
            return np.array(numbers, np.int64)

        return run


@register
class TakeManySparseFromTensorsMap(_MapOp):
    """Stacks the sparse tensors of several handles into one with a new first dimension."""

    inputs = "sparse_handles: int64"
    outputs = "sparse_indices: int64, sparse_values: dtype, sparse_shape: int64"
    attrs = {"dtype": type_attr(dtypes.ALL), **_NAMES}

    def infer(self, node: Inference) -> list[Shape]:
        """Of unknown size."""
        node.with_rank(0, 1, "sparse_handles")
        return [(None, None), (None,), (None,)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel removes each tensor from the map; sizes are the maximum along each axis."""
        found = self.find(node, context)
        dtype = node.attrs["dtype"].as_numpy_dtype

        def run(handles: Array) -> tuple[Array, Array, Array]:
            tensors = found.take([int(handle) for handle in handles])
            ranks = {tensor[2].size for tensor in tensors}
            if len(ranks) > 1:
                raise InvalidArgumentError(
                    message=f"Sparse tensors of one batch have one rank, these have {sorted(ranks)}"
                )
            rank = ranks.pop() if ranks else 0
            indices = [np.zeros((0, rank + 1), np.int64)]
            values = [np.zeros(0, dtype)]
            shape = np.zeros(rank, np.int64)
            for number, (coordinates, elements, size) in enumerate(tensors):
                column = np.full((len(coordinates), 1), number, np.int64)
                indices.append(np.concatenate([column, coordinates], axis=1))
                values.append(elements)
                shape = np.maximum(shape, size)
            whole = np.concatenate([[len(tensors)], shape]).astype(np.int64)
            return np.concatenate(indices), np.concatenate(values), whole

        return run
