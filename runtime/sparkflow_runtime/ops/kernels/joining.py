"""Concatenation and stacking that a CUDA graph can capture.

cupy's `concatenate` and `stack` (14.2 looked at) copy the addresses of their arrays to the GPU,
which cannot be captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.ops.op import Array

_FEW: Final = 4
"""So many arrays are stacked sooner one by one than by `np.stack`."""


def concatenated(xp: Any, arrays: Sequence[Array], axis: int = 0) -> Array:
    """Concatenates arrays along a dimension, into a new array.

    Args:
        xp: numpy or cupy.
        arrays: At least one, of the same dtype and of the same sizes in other dimensions.
        axis: The dimension; negative ones count from the end.
    """
    if xp is np:
        return np.concatenate(arrays, axis)
    first = arrays[0]
    axis %= first.ndim
    size = sum(array.shape[axis] for array in arrays)
    out = xp.empty((*first.shape[:axis], size, *first.shape[axis + 1 :]), first.dtype)
    before = (slice(None),) * axis
    begin = 0
    for array in arrays:
        end = begin + array.shape[axis]
        out[(*before, slice(begin, end))] = array
        begin = end
    return out


def stacked(xp: Any, arrays: Sequence[Array], axis: int = 0) -> Array:
    """Stacks arrays along a new dimension, into a new array.

    Args:
        xp: numpy or cupy.
        arrays: At least one, of the same dtype and shape.
        axis: The new dimension; negative ones count from the end.
    """
    first = arrays[0]
    shape = first.shape
    if xp is np and (len(arrays) > _FEW or len({each.shape for each in arrays}) > 1):
        return np.stack(arrays, axis)
    axis %= first.ndim + 1
    out = xp.empty((*shape[:axis], len(arrays), *shape[axis:]), first.dtype)
    fill_stacked(arrays, axis, out)
    return out


def fill_stacked(arrays: Sequence[Array], axis: int, out: Array) -> None:
    """The same into a given array; `axis` is not negative."""
    before = (slice(None),) * axis
    for number, array in enumerate(arrays):
        out[(*before, number, ...)] = array
