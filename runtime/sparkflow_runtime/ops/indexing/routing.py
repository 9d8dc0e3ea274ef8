"""Partitioning rows into several tensors by number and merging them again.

The building blocks of lookups in tables sharded over several variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import PLAIN, int32, string
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, type_attr
from sparkflow_runtime.ops.static import STRINGS_ON_HOST, bracketed, every_gradient, shape_tensor
from sparkflow_runtime.shapes import Shape


@register
class DynamicPartition(Op):
    """Output p has the slices of `data` whose entry in `partitions` is p, in their order.

    `partitions` has the shape of the leading dimensions of `data`.
    """

    inputs = "data: T, partitions: int32"
    outputs = "outputs: num_partitions * T"
    attrs = {"num_partitions": int_attr(minimum=1), "T": type_attr()}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(unknown,) + data.shape[rank(partitions):] for each output."""
        data, partitions = node.shapes
        count = node.attrs["num_partitions"]
        if data is None or partitions is None:
            return [None] * count
        if not shapes.is_compatible(data[: len(partitions)], partitions):
            raise InvalidArgumentError(message=_prefix_text("partitions", data, partitions))
        return [(None, *data[len(partitions) :])] * count

    def compute(
        self, xp: Any, data: Array, partitions: Array, *, num_partitions: int
    ) -> tuple[Array, ...]:
        """The parts.

        Raises:
            InvalidArgumentError: A partition outside [0, num_partitions), or shapes that misfit.
        """
        if data.shape[: partitions.ndim] != partitions.shape:
            raise InvalidArgumentError(
                message=_prefix_text("partitions", data.shape, partitions.shape)
            )
        numbers = partitions.reshape(-1)
        outside = (numbers < 0) | (numbers >= num_partitions)
        if outside.any():
            at = int(xp.argmax(outside))
            place = ",".join(str(int(i)) for i in np.unravel_index(at, partitions.shape))
            raise InvalidArgumentError(
                message=f"partitions[{place}] = {int(numbers[at])} is not in [0, {num_partitions})"
            )
        rows = data.reshape(numbers.size, *data.shape[partitions.ndim :])
        return tuple(rows[numbers == number] for number in range(num_partitions))

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """The parts' gradients, stitched back together."""
        data, partitions = op.inputs
        zero, one, everything = (np.array(i, np.int32) for i in (0, 1, [-1]))
        count = g.Size(partitions)
        places = g.Reshape(g.Range(zero, count, one), shape_tensor(g, partitions))
        origins = g.DynamicPartition(places, partitions, num_partitions=op.attr("num_partitions"))
        parts = every_gradient(g, op, grads)
        rows = g.DynamicStitch([g.Reshape(each, everything) for each in origins], parts)
        return g.Reshape(rows, shape_tensor(g, data)), None


@register
class DynamicStitch(Op):
    """merged[indices[m][i, ...], ...] = data[m][i, ..., ...]; of equal indices the last one wins.

    `data[m]` has the shape of `indices[m]` followed by a shape that all share. Rows whose number is
    in no `indices` are zero, or empty strings.
    """

    inputs = "indices: N * int32, data: N * T"
    outputs = "merged: T"
    attrs = {"N": int_attr(minimum=1), "T": type_attr(PLAIN | {string})}
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(largest index + 1,) + the shape that rows share."""
        count = node.attrs["N"]
        row: Shape = None
        for indices, data in zip(node.shapes[:count], node.shapes[count:], strict=True):
            if indices is not None and data is not None:
                row = _common_row(row, indices, data)
        constants = [node.value(i) for i in range(count)]
        known = [value for value in constants if value is not None]
        size = _merged_size(known) if len(known) == count else None
        return [None if row is None else (size, *row)]

    def compute(self, xp: Any, *inputs: Array) -> Array:
        """The merged tensor.

        Raises:
            InvalidArgumentError: A negative index, or shapes that do not fit.
        """
        count = len(inputs) // 2
        indices, data = inputs[:count], inputs[count:]
        row: Shape = None
        for places, rows in zip(indices, data, strict=True):
            row = _common_row(row, places.shape, rows.shape)
        dtype = data[0].dtype
        merged = xp.zeros((_merged_size(indices), *(row or ())), dtype)
        if dtype.hasobject:
            merged.fill(b"")
        for places, rows in zip(indices, data, strict=True):
            if xp is not np or not row_kernels.scatter(row_kernels.SET, merged, places, rows):
                merged[places] = rows
        return merged

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Each slice gets the gradient of its row."""
        count = op.attr("N")
        axis = g.const(np.array(0, np.int32), int32)
        return (
            *(None for _ in range(count)),
            *(g.GatherV2(dy, indices, axis) for indices in op.inputs[:count]),
        )


@register
class ParallelDynamicStitch(DynamicStitch):
    """The same, by the name that TensorFlow's lookups in partitioned tables give it."""


def _merged_size(indices: Sequence[Array]) -> int:
    size = 0
    for places in indices:
        if places.size:
            if int(places.min()) < 0:
                raise InvalidArgumentError(
                    message=f"indices must not be negative, got {int(places.min())}"
                )
            size = max(size, int(places.max()) + 1)
    return size


def _common_row(row: Shape, indices: Shape, data: Shape) -> Shape:
    """The shape of one row, refined by one more pair."""
    assert indices is not None
    assert data is not None
    if not shapes.is_compatible(data[: len(indices)], indices):
        raise InvalidArgumentError(message=_prefix_text("indices", data, indices))
    found = data[len(indices) :]
    if not shapes.is_compatible(row, found):
        raise InvalidArgumentError(
            message=f"All data must have rows of one shape, got {bracketed(row)} "
            f"and {bracketed(found)}"
        )
    return shapes.merge(row, found)


def _prefix_text(name: str, data: Shape, prefix: Shape) -> str:
    return f"data.shape = {bracketed(data)} does not start with {name}.shape = {bracketed(prefix)}"
