"""Elements moved, repeated and sent to parts by number; masks of sequences; shapes of several.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/indexing/reordering.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.shapes.tensor_shape import to_shape
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import as_dtype
from sparkflow_runtime.dtypes import int32

__all__ = [
    "cross",
    "dynamic_partition",
    "dynamic_stitch",
    "ensure_shape",
    "guarantee_const",
    "identity_n",
    "invert_permutation",
    "roll",
    "shape_n",
]


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Moves elements by `shift` along `axis` (numbers, or lists of them), around the end.

    Args:
        input: Tensor of rank 1 or more of any type.
        shift: Tensor [...] of int32 or int64.
        axis: Tensor [...] of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Roll", input, shift, axis, name=name)
    return result


def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """The cross products of vectors of length 3 in the last dimension.

    Args:
        a: Tensor of any real number.
        b: Tensor of the dtype of `a`.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `a`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("Cross", a, b, name=name)
    return result


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """The permutation y with y[x[i]] = i.

    Args:
        x: Vector of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `x`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("InvertPermutation", x, name=name)
    return result


def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """`num_partitions` tensors, each with the slices of `data` that `partitions` sends there.

    Args:
        data: Tensor [...] of any type.
        partitions: Tensor [...] of int32.
        num_partitions: At least 1.
        name: Name of the node.

    Returns:
        A list of tensors.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: list[Tensor] = apply_op(
        "DynamicPartition", data, partitions, num_partitions=num_partitions, name=name
    )
    return result


def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """One tensor whose row `indices[m][i, ...]` is `data[m][i, ...]`; the last one wins.

    Args:
        indices: A list of tensors of int32.
        data: A list of tensors of any number, bool or string.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `data`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("DynamicStitch", list(indices), list(data), name=name)
    return result


def identity_n(input: Any, name: str | None = None) -> list[Tensor]:
    """The same tensors as outputs of one node.

    Args:
        input: A list of tensors of any type each.
        name: Name of the node.

    Returns:
        A list of tensors.
    """
    result: list[Tensor] = apply_op("IdentityN", list(input), name=name)
    return result


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """The tensor, with a static shape that is checked when it runs.

    Args:
        x: Tensor of any type.
        shape: The static shape, sizes None where unknown.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `x`.

    Raises:
        ValueError: Its static shape contradicts `shape`.
    """
    result: Tensor = apply_op("EnsureShape", x, shape=to_shape(shape), name=name)
    return result


def guarantee_const(input: Any, name: str | None = None) -> Tensor:
    """The tensor, promised to be the same in every run.

    Args:
        input: Tensor [...] of any type.
        name: Name of the node.

    Returns:
        A tensor with the shape and dtype of `input`.
    """
    result: Tensor = apply_op("GuaranteeConst", input, name=name)
    return result


def shape_n(input: Any, out_type: Any = int32, name: str | None = None) -> list[Tensor]:
    """The shapes of several tensors of one dtype.

    Args:
        input: A list of tensors of any type.
        out_type: The dtype: int32 or int64.
        name: Name of the node.

    Returns:
        A list of tensors.
    """
    result: list[Tensor] = apply_op("ShapeN", list(input), out_type=as_dtype(out_type), name=name)
    return result
