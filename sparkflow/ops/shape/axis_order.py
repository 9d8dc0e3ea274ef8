"""Orders of axes for functions whose op works along the last axis only."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.comparison import equal, where
from sparkflow.ops.shape import arrays, constants


def exchanged_with_last(tensor: Tensor, axis: int) -> Any:
    """The order of axes in which `axis` and the last one have changed places: [rank] int32.

    An array, or a tensor where the rank of `tensor` is not known.
    """
    if tensor.shape.ndims is not None:
        order = np.arange(tensor.shape.ndims, dtype=np.int32)
        order[[axis, -1]] = order[[-1, axis]]
        return order
    rank = arrays.rank(tensor)
    axes = constants.range(rank)
    last = rank - 1
    moved = constants.fill([rank], axis if axis >= 0 else axis + rank)
    swapped = where(equal(axes, last), moved, axes)
    return where(equal(axes, moved), constants.fill([rank], last), swapped)
