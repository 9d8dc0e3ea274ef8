"""Two-dimensional pooling and its gradients in machine code, channels last.

Each function binds a body of `pooling_ir` to the sizes of one pooling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import host, native, threads as pools
from sparkflow_runtime.codegen.tiles import pooling_ir
from sparkflow_runtime.codegen.tiles.convolution_geometry import Window
from sparkflow_runtime.codegen.tiles.convolution_tasks import ELEMENTS
from sparkflow_runtime.codegen.tiles.pooling_ir import Field, Form, Task

Array = np.ndarray[Any, Any]
PARALLEL_ELEMENTS: Final = 100_000
"""Image elements from which several threads pay off."""


def bind_pooling(
    task: Task, dtype: np.dtype[Any], images: Sequence[int], windows: Sequence[Window]
) -> Callable[..., bool] | None:
    """Returns the kernel of one task over images of one shape.

    It is called with the arrays that `pooling_ir` names, and returns False, without doing anything,
    where one does not fit.

    Args:
        task: The computation.
        dtype: float32 or float64.
        images: [batch, height, width, channels].
        windows: Over height and width, without dilation.

    Returns:
        None if there is no kernel.
    """
    if not native.available() or dtype.char not in ELEMENTS or not dtype.isnative:
        return None
    if len(windows) != 2 or any(window.dilation != 1 for window in windows):
        return None
    batch, height, width, channels = images
    rows, columns = windows
    dims = (height, width)
    disjoint = all(window.stride >= window.size for window in windows)
    covered = all(
        window.stride == window.size and window.count * window.stride >= window.before + dim
        for window, dim in zip(windows, dims, strict=True)
    )
    lanes = host.host().vector_bytes // dtype.itemsize
    form = Form(task, ELEMENTS[dtype.char], lanes, rows.size, columns.size, disjoint)
    fields = {
        Field.HEIGHT: height,
        Field.WIDTH: width,
        Field.CHANNELS: channels,
        Field.ROW_STRIDE: rows.stride,
        Field.COLUMN_STRIDE: columns.stride,
        Field.ABOVE: rows.before,
        Field.LEFT: columns.before,
        Field.ROW_COUNT: rows.count,
        Field.COLUMN_COUNT: columns.count,
        Field.CLEARS: int(not covered),
    }
    whole = math.prod(images)
    pooled = batch * rows.count * columns.count * channels
    counts = {
        Task.MAXIMUM: (whole, pooled),
        Task.AVERAGE: (whole, pooled),
        Task.MAXIMUM_GRADIENT: (whole, pooled, pooled, whole),
        Task.AVERAGE_GRADIENT: (pooled, whole),
    }[task]
    is_large = whole >= PARALLEL_ELEMENTS
    threads = max(min(pools.count(), batch), 1) if is_large else 1
    body = native.written_body(pooling_ir.text, (form,), is_tidy=True)
    return body.bind([fields[field] for field in Field], counts, batch, threads, is_large)
