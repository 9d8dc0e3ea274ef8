"""Blocks of space moved into the batch or the channels, and back.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/shape/blocks.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "batch_to_space_nd",
    "depth_to_space",
    "space_to_batch_nd",
    "space_to_depth",
]


def space_to_depth(
    input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC"
) -> Tensor:
    """Blocks of height and width become channels: [n, h, w, c] to [n, h/b, w/b, c * b * b].

    Args:
        input: Tensor of rank 4 of any type.
        block_size: At least 2.
        name: Name of the node.
        data_format: One of `NCHW_VECT_C`, `NCHW`, `NHWC`.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "SpaceToDepth", input, block_size=block_size, data_format=data_format, name=name
    )
    return result


def depth_to_space(
    input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC"
) -> Tensor:
    """Channels become blocks of height and width: [n, h, w, c] to [n, h * b, w * b, c / b / b].

    Args:
        input: Tensor of rank 4 of any type.
        block_size: At least 2.
        name: Name of the node.
        data_format: One of `NCHW_VECT_C`, `NCHW`, `NHWC`.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "DepthToSpace", input, block_size=block_size, data_format=data_format, name=name
    )
    return result


def space_to_batch_nd(
    input: Any, block_shape: Any, paddings: Any, name: str | None = None
) -> Tensor:
    """Pads the dimensions after the first, and moves blocks of them into the batch.

    Args:
        input: [batch, space..., rest...]. Any type.
        block_shape: [m] integers, one for each dimension of space.
        paddings: [m, 2] integers, (before, after).
        name: Name of the node.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("SpaceToBatchND", input, block_shape, paddings, name=name)
    return result


def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """The inverse of `space_to_batch_nd`; `crops` [m, 2] is what to cut off.

    Args:
        input: Tensor of rank 3 or more of any type.
        block_shape: Vector of int32 or int64.
        crops: Tensor [...] of int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("BatchToSpaceND", input, block_shape, crops, name=name)
    return result
