"""Elements moved, repeated and sent to parts by number; masks of sequences; shapes of several."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.indexing.reordering import *  # noqa: F403
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape, to_shape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.dispatch import or_ragged
from sparkflow.ops.elementwise.elementwise import cast, maximum
from sparkflow.ops.reduction import reduction
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays
from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import as_dtype, bool_, int64
from sparkflow_runtime.errors import InvalidArgumentError


@export("reverse_sequence")
def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """Reverses the first `seq_lengths[i]` elements along `seq_axis` of entry i of the batch.

    Args:
        input: Any tensor.
        seq_lengths: [batch] integers.
        seq_axis: The dimension of time.
        batch_axis: The dimension of the batch; 0 when None.
        name: Name of the node.
        seq_dim: Old name of `seq_axis`.
        batch_dim: Old name of `batch_axis`.
    """
    along = either("seq_axis", seq_axis, "seq_dim", seq_dim)
    batch = either("batch_axis", batch_axis, "batch_dim", batch_dim)
    return output_of(
        "ReverseSequence", input, seq_lengths, seq_dim=along, batch_dim=batch or 0, name=name
    )


@export("sequence_mask")
def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = bool_, name: str | None = None
) -> Tensor:
    """Whether each position lies within the sequence: [..., maxlen].

    Args:
        lengths: Integers of any shape.
        maxlen: A scalar; the largest length when None.
        dtype: Of the result.
        name: Name of the scope.

    Raises:
        ValueError: `maxlen` is not a scalar.
    """
    graph = graph_of((lengths, maxlen))
    with graph.as_default(), graph.name_scope(name or "SequenceMask"):
        sizes = convert_to_tensor(lengths)
        if maxlen is None:
            longest = reduction.reduce_max(sizes, None)
            longest = maximum(convert_to_tensor(0, longest.dtype), longest)
        else:
            longest = convert_to_tensor(maxlen)
        if longest.shape.ndims not in (0, None):
            raise ValueError("maxlen must be scalar for sequence_mask")
        zero, one = (convert_to_tensor(i, longest.dtype.base) for i in (0, 1))
        places = apply_op("Range", zero, longest, one)
        ends = cast(arrays.expand_dims(sizes, -1), longest.dtype.base)
        result = apply_op("Less", places, ends)
        kind = as_dtype(dtype)
        return result if kind.base is bool_ else cast(result, kind)


@export("repeat")
def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Each element along `axis` `repeats` times in a row.

    Args:
        input: Any tensor.
        repeats: A number, or one for each element along `axis`.
        axis: The dimension; None flattens the input first.
        name: Name of the scope.
    """
    graph = graph_of((input, repeats))
    with graph.as_default(), graph.name_scope(name or "Repeat"):
        data = convert_to_tensor(input, name="input")
        if axis is None:
            data, axis = arrays.reshape(data, [-1]), 0
        rank = data.shape.ndims
        if rank is None:
            raise ValueError("tf.repeat needs a tensor of known rank")
        axis = axis % rank
        times = cast(convert_to_tensor(repeats, name="repeats"), int64)
        size = cast(arrays.shape(data)[axis], int64)
        times = arrays.broadcast_to(arrays.reshape(times, [-1]), arrays.expand_dims(size, 0))
        ends = reduction.cumsum(times)
        total = reduction.reduce_sum(times)
        zero, one = (convert_to_tensor(i, int64) for i in (0, 1))
        places = apply_op("Range", zero, total, one)
        source = apply_op("UpperBound", arrays.expand_dims(ends, 0), arrays.expand_dims(places, 0))
        static = data.shape.as_list()
        known = constant_value(convert_to_tensor(repeats))
        result = arrays.gather(data, arrays.squeeze(source, [0]), axis=axis)
        if known is not None and static[axis] is not None:
            static[axis] = int(np.broadcast_to(known.reshape(-1), (static[axis] or 0,)).sum())
        else:
            static[axis] = None
        result.set_shape(static)
        return result


@export("parallel_stack")
def parallel_stack(values: Any, name: str = "parallel_stack") -> Tensor:
    """Tensors of one known shape joined along a new first dimension."""
    graph = graph_of((values,))
    with graph.as_default(), graph.name_scope(name) as scope:
        tensors = [convert_to_tensor(each) for each in values]
        shape = TensorShape([len(tensors)]).concatenate(tensors[0].shape)
        rows = [arrays.expand_dims(each, 0) for each in tensors]
        result: Tensor = graph.apply("ParallelConcat", (rows,), {"shape": to_shape(shape)}, scope)
        return result


@export("broadcast_static_shape")
def broadcast_static_shape(shape_x: TensorShape, shape_y: TensorShape) -> TensorShape:
    """The static shape of two tensors broadcast against each other.

    Raises:
        ValueError: They cannot be.
    """
    try:
        return TensorShape(shapes.broadcast(to_shape(shape_x), to_shape(shape_y)))
    except InvalidArgumentError as error:
        raise ValueError(
            f"Incompatible shapes for broadcasting: {shape_x} and {shape_y}"
        ) from error


@export("broadcast_dynamic_shape")
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape, as a tensor, of two tensors of these shapes broadcast against each other."""
    return output_of("BroadcastArgs", shape_x, shape_y)


@export("batch_gather")
@or_ragged
def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """The slices along the last dimension of `indices`; the dimensions before are shared."""
    graph = graph_of((params, indices))
    with graph.as_default(), graph.name_scope(name or "BatchGather"):
        where = convert_to_tensor(indices, name="indices")
        rank = where.shape.ndims
        if rank is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        return arrays.gather(params, where, axis=rank - 1, batch_dims=rank - 1)
