"""Two-dimensional convolutions and their gradients in machine code, channels last.

Each function here binds a body of `contraction_ir` to the sizes of one convolution; the result is
called with the arrays. A convolution sums over the elements of each window. So does the input
gradient, over zero-padded dy and mirrored filters, with one such convolution per phase of the
stride. The filter gradient sums over windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.machine import native, scratch
from sparkflow_runtime.codegen.tiles.convolution_geometry import (
    Array,
    Axis,
    Images,
    Packing,
    Places,
    Window,
    phases,
)
from sparkflow_runtime.codegen.tiles.convolution_tasks import (
    ELEMENTS,
    Task,
    by_filter_task,
    by_image_task,
)

Kernel = Callable[[Array, Array, Array], bool]
"""A function of two inputs and the output; False, doing nothing, if an array does not fit."""


def forward(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
    depthwise: bool = False,
) -> Kernel | None:
    """Returns the kernel of a convolution, called with images, filters and the result.

    Args:
        dtype: float32 or float64.
        images: [batch, height, width, channels].
        filters: [rows, columns, channels, outputs]; [rows, columns, channels, 1] where depthwise.
        windows: Over height and width.
        depthwise: Every channel has a filter of its own.

    Returns:
        None if there is no kernel.
    """
    if not _has_kernel(dtype, filters, windows, depthwise):
        return None
    batch, height, width, channels = images
    axes = Images(Axis.of(windows[0], height), Axis.of(windows[1], width), channels, channels)
    columns = channels if depthwise else filters[3]
    line = axes.columns.count * columns
    out = Places((axes.windows * columns, line, columns), 0)
    task = by_image_task(dtype, batch, axes, columns, out, depthwise)
    pack = None if depthwise else Packing(filters, task.form.panel)
    return _bound(dtype, [(task, pack)], images, filters, (batch, axes.windows * columns))


def input_gradient(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
    depthwise: bool = False,
) -> Kernel | None:
    """Returns the kernel of the input gradient, called with dy, filters and the result.

    Args:
        dtype: float32 or float64.
        images: [batch, height, width, channels], the result's shape.
        filters: As in `forward`.
        windows: The convolution's windows.
        depthwise: As in `forward`.

    Returns:
        None if there is no kernel.
    """
    mixed = any(window.stride > 1 and window.dilation > 1 for window in windows)
    if mixed or not _has_kernel(dtype, filters, windows, depthwise):
        return None
    batch, height, width, channels = images
    outputs = channels if depthwise else filters[3]
    tasks: list[tuple[Task, Packing | None]] = []
    column_phases = list(phases(windows[1], width))
    for rows in phases(windows[0], height):
        for columns in column_phases:
            axes = Images(rows.axis, columns.axis, outputs, outputs)
            out = Places(
                (
                    height * width * channels,
                    windows[0].stride * width * channels,
                    windows[1].stride * channels,
                ),
                rows.first * width * channels + columns.first * channels,
            )
            task = by_image_task(dtype, batch, axes, channels, out, depthwise)
            picked = (rows.taken(), columns.taken())
            panel = 0 if depthwise else task.form.panel
            tasks.append((task, Packing(filters, panel, picked, transposed=not depthwise)))
    dy = (batch, windows[0].count * windows[1].count * outputs)
    return _bound(dtype, tasks, dy, filters, images)


def filter_gradient(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
    depthwise: bool = False,
) -> Kernel | None:
    """Returns the kernel of the filter gradient, called with images, dy and the result.

    Args:
        dtype: float32 or float64.
        images: [batch, height, width, channels].
        filters: As in `forward`, the result's shape.
        windows: Over height and width.
        depthwise: As in `forward`.

    Returns:
        None if there is no kernel.
    """
    if not _has_kernel(dtype, filters, windows, depthwise):
        return None
    batch, height, width, channels = images
    # Pixels a power of two apart would compete for the same few cache sets.
    is_even = not depthwise and channels * dtype.itemsize % (4 * scratch.ALIGNMENT) == 0
    pitch = channels + (scratch.ALIGNMENT // dtype.itemsize if is_even else 0)
    axes = Images(Axis.of(windows[0], height), Axis.of(windows[1], width), channels, pitch)
    columns = channels if depthwise else filters[3]
    task = by_filter_task(dtype, batch, axes, columns, depthwise)
    dy = (batch, axes.windows * columns)
    total, threads = math.prod(filters), task.threads
    run, size = task.bind((math.prod(images), math.prod(dy), total * threads))
    size_bytes = size * dtype.itemsize
    total_bytes = size_bytes + (total * threads * dtype.itemsize if threads > 1 else 0)

    def kernel(left: Array, right: Array, out: Array) -> bool:
        memory = scratch.take(total_bytes)[:total_bytes]
        if threads == 1:
            return run(left, right, out, memory)
        sums = memory[size_bytes:].view(dtype)
        if out.size != total or not run(left, right, sums, memory):
            return False
        np.add.reduce(sums.reshape(threads, *out.shape), axis=0, out=out)
        return True

    return kernel


def _has_kernel(
    dtype: np.dtype[Any], filters: Sequence[int], windows: Sequence[Window], depthwise: bool
) -> bool:
    return (
        native.available()
        and dtype.char in ELEMENTS
        and dtype.isnative
        and len(windows) == 2
        and min(filters) > 0
        and not (depthwise and filters[3] != 1)
    )


def _bound(
    dtype: np.dtype[Any],
    tasks: Sequence[tuple[Task, Packing | None]],
    left: Sequence[int],
    filters: Sequence[int],
    out: Sequence[int],
) -> Kernel:
    """Runs the tasks sequentially, packing the filters for each."""
    steps = []
    for task, packing in tasks:
        size = packing.size() if packing else math.prod(filters)
        run, needed = task.bind((math.prod(left), size, math.prod(out)))
        steps.append((run, packing, size, needed))
    itemsize = dtype.itemsize
    aligned = scratch.ALIGNMENT // itemsize
    packed_size = max((size if packing else 0) for _, packing, size, _ in steps)
    packed_size = -(-packed_size // aligned) * aligned
    total_bytes = (packed_size + max(needed for *_, needed in steps)) * itemsize
    filters_size = math.prod(filters)

    def kernel(given: Array, weights: Array, result: Array) -> bool:
        if weights.size != filters_size:
            return False
        memory = scratch.take(total_bytes)[:total_bytes].view(dtype)
        rest = memory[packed_size:]
        for run, packing, size, _ in steps:
            packed = weights
            if packing is not None:
                packed = memory[:size]
                packing(weights, packed)
            if not run(given, packed, result, rest):
                return False
        return True

    return kernel
