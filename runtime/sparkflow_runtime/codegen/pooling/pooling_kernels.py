"""Pooling over two or three dimensions and its gradients in machine code, channels last.

Each function binds a body of `pooling_ir` to the sizes of one pooling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import host, native, threads as pools
from sparkflow_runtime.codegen.pooling import pooling_ir
from sparkflow_runtime.codegen.pooling.pooling_form import WRITTEN_OUT, Form, Task
from sparkflow_runtime.codegen.pooling.pooling_ir import Field
from sparkflow_runtime.codegen.tiles.convolution_geometry import Each, Window
from sparkflow_runtime.codegen.tiles.convolution_tasks import ELEMENTS
from sparkflow_runtime.codegen.tiles.tile import PARALLEL_ELEMENTS

Array = np.ndarray[Any, Any]
_RUN_VECTORS: Final = 2
"""Up to this many vectors of channels go along a row one after another; more would read memory in
strides, which costs more than registers save (8 images of 112 x 112 x 64: 1.3 times as long)."""


def bind_pooling(
    task: Task, dtype: np.dtype[Any], images: Sequence[int], windows: Sequence[Window]
) -> Callable[..., bool] | None:
    """Returns the kernel of one task over images of one shape.

    It is called with the arrays that `pooling_ir` names, and returns False, without doing anything,
    where one does not fit.

    Args:
        task: The computation.
        dtype: float32 or float64.
        images: [batch, height, width, channels], or with planes before the height.
        windows: Over height and width, or planes, height and width; without dilation.

    Returns:
        None if there is no kernel.
    """
    if not native.available() or dtype.char not in ELEMENTS or not dtype.isnative:
        return None
    if any(window.dilation != 1 for window in windows):
        return None
    if len(windows) == 3 and (windows[0].size, windows[0].stride) == (1, 1):
        images, windows = (images[0] * images[1], *images[2:]), windows[1:]
    if len(windows) == 2:
        images, windows = (images[0], 1, *images[1:]), (Each(1), *windows)
    batch, *dims, channels = images
    depth, height, width = dims
    planes, rows, columns = windows
    disjoint = all(window.stride >= window.size for window in windows)
    covered = all(
        window.stride == window.size and window.count * window.stride >= window.before + dim
        for window, dim in zip(windows, dims, strict=True)
    )
    lanes = host.host().vector_bytes // dtype.itemsize
    sizes = (planes.size, rows.size, columns.size)
    has_runs = (
        channels <= _RUN_VECTORS * lanes
        and planes.size == 1
        and math.prod(sizes) <= WRITTEN_OUT
        and columns.stride <= columns.size
    )
    step = columns.stride if has_runs else 0
    form = Form(task, ELEMENTS[dtype.char], lanes, *sizes, disjoint, step)
    # Windows of a gradient may share planes, which one part then has to add to and to clear.
    parts = planes.count if not task.is_gradient or (disjoint and covered) else 1
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
        Field.DEPTH: depth,
        Field.PLANE_STRIDE: planes.stride,
        Field.BEFORE: planes.before,
        Field.PARTS: max(parts, 1),
        Field.PART_COUNT: planes.count // max(parts, 1),
    }
    whole = math.prod(images)
    pooled = batch * planes.count * rows.count * columns.count * channels
    counts = {
        Task.MAXIMUM: (whole, pooled),
        Task.AVERAGE: (whole, pooled),
        Task.MAXIMUM_GRADIENT: (whole, pooled, pooled, whole),
        Task.AVERAGE_GRADIENT: (pooled, whole),
    }[task]
    is_large = whole >= PARALLEL_ELEMENTS
    extent = batch * parts
    threads = max(min(pools.count(), extent), 1) if is_large else 1
    body = native.written_body(pooling_ir.text, (form,), is_tidy=True)
    return body.bind([fields[field] for field in Field], counts, extent, threads, is_large)
