"""What is known before a step runs: integer inputs as Python ints, static shapes as constants.

Ops read shapes, axes and paddings from tensors. Inference sees them if they are constants, kernels
see them as small arrays; both use the functions below. Gradients use the last few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import PLAIN, DType, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.shapes import Dim, Shape

STRINGS_ON_HOST: Final[Mapping[str, frozenset[DType] | None]] = {"CPU": None, "GPU": PLAIN}
"""The kernels of ops that support every dtype: there are no strings on a GPU."""


def ints(array: Array) -> tuple[int, ...]:
    """The elements of a vector (or of a scalar, as one) as Python ints."""
    values = array.tolist()
    return tuple(values) if isinstance(values, list) else (values,)


def vector(array: Array, name: str) -> tuple[int, ...]:
    """The elements of a kernel's input that must be a vector.

    Raises:
        InvalidArgumentError: It is not of rank 1.
    """
    if array.ndim != 1:
        raise InvalidArgumentError(
            message=f"{name} must be a vector, got shape {bracketed(array.shape)}"
        )
    return tuple(array.tolist())


def scalar(array: Array, name: str) -> int:
    """The value of a kernel's input that must be a scalar.

    Raises:
        InvalidArgumentError: It is not of rank 0.
    """
    if array.ndim != 0:
        raise InvalidArgumentError(
            message=f"{name} must be a scalar, got shape {bracketed(array.shape)}"
        )
    return int(array)


def constant_vector(node: Inference, index: int, name: str) -> tuple[int, ...] | None:
    """The elements of a vector input if the graph determines them, else None.

    Raises:
        InvalidArgumentError: The static rank is known and not 1.
    """
    node.with_rank(index, 1, name)
    value = node.value(index)
    return None if value is None else tuple(value.tolist())


def known_sizes(node: Inference, index: int, name: str) -> tuple[Dim, ...] | None:
    """The elements of a vector input, None for unknown ones.

    Returns:
        None if not even their number is known.

    Raises:
        InvalidArgumentError: The static rank is known and not 1.
    """
    (length,) = node.with_rank(index, 1, name)
    found = node.known(index)
    if found is not None:
        return found.elements()
    return None if length is None else (None,) * length


def constant_scalar(node: Inference, index: int, name: str) -> Any:
    """The value of a scalar input if the graph determines it, else None.

    Raises:
        InvalidArgumentError: The static rank is known and not 0.
    """
    node.with_rank(index, 0, name)
    value = node.value(index)
    return None if value is None else value.item()


def vector_length(node: Inference, index: int) -> int | None:
    """The number of elements of a vector input, None when unknown."""
    shape = node.shapes[index]
    return None if shape is None else shape[0]


def checked_dims(dims: Sequence[int], name: str) -> tuple[int, ...]:
    """Sizes given by a tensor.

    Raises:
        InvalidArgumentError: One is negative.
    """
    _check_sizes(dims, name)
    return tuple(dims)


def _check_sizes(dims: Sequence[Dim], name: str) -> None:
    for dim in dims:
        if dim is not None and dim < 0:
            raise InvalidArgumentError(
                message=f"{name} must have no negative size, got {bracketed(dims)}"
            )


def constant_shape(node: Inference, index: int, name: str) -> Shape:
    """The shape in a vector input, as far as the graph determines it."""
    dims = known_sizes(node, index, name)
    if dims is not None:
        _check_sizes(dims, name)
    return dims


def check_indices(xp: Any, indices: Array, bound: int) -> None:
    """Checks that every index is in [0, bound).

    Raises:
        InvalidArgumentError: One is not; the message has the first one, its position and the range.
    """
    if not indices.size or (int(indices.min()) >= 0 and int(indices.max()) < bound):
        return
    at = int(xp.argmax(((indices < 0) | (indices >= bound)).reshape(-1)))
    place = ",".join(str(int(i)) for i in np.unravel_index(at, indices.shape))
    raise InvalidArgumentError(
        message=f"indices[{place}] = {int(indices.reshape(-1)[at])} is not in [0, {bound})"
        if place
        else f"indices = {int(indices)} is not in [0, {bound})"
    )


bracketed = shapes.bracketed


def static_rank(g: GraphBuilder, tensor: Tensor) -> int | None:
    """The static rank of a tensor, None when unknown."""
    shape = g.shape(tensor)
    return None if shape is None else len(shape)


def shape_tensor(g: GraphBuilder, tensor: Tensor, dtype: DType = int32) -> Tensor:
    """The shape of a tensor as a tensor: a constant if the static shape is fully defined."""
    shape = g.shape(tensor)
    if shape is not None and None not in shape:
        return g.const(np.array(shape, dtype.as_numpy_dtype), dtype)
    return g.Shape(tensor, out_type=dtype)


def reshape_like(g: GraphBuilder, tensor: Tensor, like: Tensor) -> Tensor:
    """`tensor` in the shape of `like`."""
    return g.Reshape(tensor, shape_tensor(g, like))


def every_gradient(
    g: GraphBuilder, op: OperationView, grads: Sequence[Tensor | None]
) -> list[Tensor]:
    """The gradients of all outputs, zeros for those that have none."""
    return [
        g.ZerosLike(output) if grad is None else grad
        for grad, output in zip(grads, op.outputs, strict=True)
    ]


def all_axes(g: GraphBuilder, tensor: Tensor) -> Tensor:
    """Every axis of a tensor, for a reduction to a scalar."""
    rank = static_rank(g, tensor)
    if rank is not None:
        return g.const(np.arange(rank, dtype=np.int32), int32)
    return g.Range(g.const(0, int32), g.Rank(tensor), g.const(1, int32))
