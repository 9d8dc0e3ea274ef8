"""Kernels for images with the channels last, used for nodes of either data format."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.machine import scratch
from sparkflow_runtime.codegen.tiles import transposition
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.windows import has_channels_last

Fill = Callable[[Sequence[Array], Array], bool]
"""Computes from inputs into an array; returns False, leaving the array undefined, if it cannot."""


def in_data_format(
    kernel: Callable[..., bool],
    data_format: str,
    dtype: np.dtype[Any],
    inputs: Sequence[Sequence[int] | None],
    result: Sequence[int] | None,
) -> Fill:
    """Adapts a channels-last kernel to arrays in this data format.

    Args:
        kernel: A function of contiguous arrays: inputs, then the result.
        data_format: `NHWC` or `NCHW`, `NDHWC` or `NCDHW`.
        dtype: The dtype of all arrays.
        inputs: Per input its shape with channels last; None if it has no data format.
        result: The same for the result.
    """
    take = np.ascontiguousarray
    if has_channels_last(data_format):
        return lambda given, out: kernel(*map(take, given), out)
    to_last = [None if shape is None else _to_last(shape, dtype) for shape in inputs]
    from_last = None if result is None else _from_last(result, dtype)
    sizes = [0 if shape is None else math.prod(shape) for shape in (*inputs, result)]
    line = scratch.ALIGNMENT // dtype.itemsize
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size // line) * line)
    total_bytes = starts[-1] * dtype.itemsize

    def fill(given: Sequence[Array], out: Array) -> bool:
        memory = scratch.take(total_bytes, "layout")[:total_bytes].view(dtype)
        parts = [memory[start : start + size] for start, size in zip(starts, sizes, strict=False)]
        arrays = []
        for array, turn, part in zip(given, to_last, parts, strict=False):
            array = take(array)
            if turn is None:
                arrays.append(array)
            elif turn(array, part):
                arrays.append(part)
            else:
                return False
        if from_last is None:
            return kernel(*arrays, out)
        return kernel(*arrays, parts[-1]) and from_last(parts[-1], out)

    return fill


def _to_last(shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[..., bool]:
    batch, *dims, channels = shape
    return transposition.bound(dtype.itemsize, batch, channels, math.prod(dims))


def _from_last(shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[..., bool]:
    batch, *dims, channels = shape
    return transposition.bound(dtype.itemsize, batch, math.prod(dims), channels)
