"""Sorting, searching in sorted rows, sets of numbers, coordinates.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/indexing/sorting.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "unravel_index",
]


def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """The coordinates of flat indices in a tensor of shape `dims`: [rank, ...].

    Args:
        indices: Tensor [...] of int32 or int64.
        dims: Vector of the dtype of `indices`.
        name: Name of the node.

    Returns:
        A tensor of the dtype of `indices`.

    Raises:
        TypeError: A dtype is not one of those above, or the dtypes differ.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("UnravelIndex", indices, dims, name=name)
    return result
