"""Convolutions over two or three dimensions and their gradients in machine code, channels last.

Each function here binds a body of `contraction_ir` to the sizes of one convolution; the result is
called with the arrays. A convolution sums over the elements of each window. So does the input
gradient, over zero-padded dy and mirrored filters, with one such convolution per phase of the
stride. The filter gradient sums over windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.machine import native, scratch
from sparkflow_runtime.codegen.tiles.convolution_geometry import (
    Array,
    Images,
    Packing,
    Places,
    Solid,
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
        images: [batch, height, width, channels], or with planes before the height.
        filters: [rows, columns, channels, outputs]; [rows, columns, channels, 1] where depthwise;
            or with planes first.
        windows: Over height and width, or planes, height and width.
        depthwise: Every channel has a filter of its own.

    Returns:
        None if there is no kernel.
    """
    given = Solid.of(images, filters, windows)
    if not _has_kernel(dtype, given, depthwise):
        return None
    volumes, channels = given.images[0], given.images[-1]
    axes = Images(*given.axes, channels, channels)
    if not _is_plain(axes, depthwise):
        return None
    columns = channels if depthwise else filters[-1]
    line = axes.columns.count * columns
    plane = axes.windows * columns
    out = Places(axes.planes.count * plane, (plane, line, columns), 0)
    task = by_image_task(dtype, volumes, axes, columns, out, depthwise)
    pack = Packing(given.filters, task.form.panel, (slice(None),) * 3).merged()
    out_size = (volumes, out.volume)
    return _bound(dtype, [(task, None if depthwise else pack)], images, filters, out_size)


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
        images: As in `forward`, the result's shape.
        filters: As in `forward`.
        windows: The convolution's windows.
        depthwise: As in `forward`.

    Returns:
        None if there is no kernel.
    """
    given = Solid.of(images, filters, windows)
    mixed = any(window.stride > 1 and window.dilation > 1 for window in windows)
    if mixed or not _has_kernel(dtype, given, depthwise):
        return None
    volumes, depth, height, width, channels = given.images
    outputs = channels if depthwise else filters[-1]
    along = (height * width * channels, width * channels, channels)
    tasks: list[tuple[Task, Packing | None]] = []
    over = [phases(*each) for each in zip(given.windows, (depth, height, width), strict=True)]
    for planes, rows, columns in product(*over):
        axes = Images(planes.axis, rows.axis, columns.axis, outputs, outputs)
        if not _is_plain(axes, depthwise):
            return None
        first = planes.first * along[0] + rows.first * along[1] + columns.first * along[2]
        steps = (planes.stride * along[0], rows.stride * along[1], columns.stride * along[2])
        task = by_image_task(
            dtype, volumes, axes, channels, Places(depth * along[0], steps, first), depthwise
        )
        picked = (planes.taken(), rows.taken(), columns.taken())
        panel = 0 if depthwise else task.form.panel
        packing = Packing(given.filters, panel, picked, transposed=not depthwise)
        tasks.append((task, packing.merged()))
    dy = (volumes, *(window.count for window in given.windows), outputs)
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
        images: As in `forward`.
        filters: As in `forward`, the result's shape.
        windows: As in `forward`.
        depthwise: As in `forward`.

    Returns:
        None if there is no kernel.
    """
    given = Solid.of(images, filters, windows)
    if not _has_kernel(dtype, given, depthwise):
        return None
    volumes, channels = given.images[0], given.images[-1]
    # Pixels a power of two apart would compete for the same few cache sets.
    is_even = not depthwise and channels * dtype.itemsize % (4 * scratch.ALIGNMENT) == 0
    pitch = channels + (scratch.ALIGNMENT // dtype.itemsize if is_even else 0)
    axes = Images(*given.axes, channels, pitch)
    columns = channels if depthwise else filters[-1]
    dy = (volumes, axes.planes.count, axes.windows, columns)
    parts = [axes]
    if not _is_plain(axes, depthwise):
        parts = [replace(axes, planes=axes.planes.only(tap)) for tap in range(given.filters[0])]
    tasks = [by_filter_task(dtype, volumes, part, columns, depthwise) for part in parts]
    total, threads = math.prod(filters) // len(parts), tasks[0].threads
    counts = (math.prod(images), math.prod(dy), total * threads)
    bound = [task.bind(counts) for task in tasks]
    runs = [run for run, _ in bound]
    size_bytes = max(size for _, size in bound) * dtype.itemsize
    total_bytes = size_bytes + (total * threads * dtype.itemsize if threads > 1 else 0)

    def kernel(left: Array, right: Array, out: Array) -> bool:
        if threads == len(parts) == 1:
            return runs[0](left, right, out, scratch.take(total_bytes)[:total_bytes])
        if out.size != total * len(parts) or not out.flags.c_contiguous:
            return False
        memory = scratch.take(total_bytes)[:total_bytes]
        sums = memory[size_bytes:].view(dtype)
        for run, part in zip(runs, out.reshape(-1, total), strict=True):
            if not run(left, right, part if threads == 1 else sums, memory):
                return False
            if threads > 1:
                np.add.reduce(sums.reshape(threads, total), axis=0, out=part)
        return True

    return kernel


def _has_kernel(dtype: np.dtype[Any], given: Solid, depthwise: bool) -> bool:
    return (
        native.available()
        and dtype.char in ELEMENTS
        and dtype.isnative
        and min(given.filters) > 0
        and not (depthwise and given.filters[-1] != 1)
    )


def _is_plain(images: Images, depthwise: bool) -> bool:
    """Whether three loops traverse the elements of a window."""
    return depthwise or images.is_run or images.planes.taps <= 1


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
