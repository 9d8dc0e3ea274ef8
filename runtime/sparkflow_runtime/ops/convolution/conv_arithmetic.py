"""Convolution through matrix products, channels last: forward and both gradients.

Written for any number of spatial dimensions, here called [...].

Every function splits the batch into blocks of images whose window matrix (im2col) fits in cache,
and multiplies block by block through one reused buffer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from sparkflow_runtime.ops.kernels.joining import concatenated
from sparkflow_runtime.ops.native.matrix_products import multiply_into, product
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.windows import Window, Windows, offsets, pad_images, window_view, within

BLOCK_BYTES = 4 << 20
"""Size of the window matrix of one block on a CPU.

Measured 2026-11-21 (two AVX-512 cores, 64 images of 28×28×32, 64 filters of 3×3): 122 GFLOP/s,
against 59 with 256 KB and 82 with the whole batch in one.
"""
DEVICE_BLOCK_BYTES = 1 << 28
"""The same on a GPU, where one large product is faster than many."""
MANY_OUTPUTS = 8
"""With more than this many outputs per channel, an input gradient adds up products."""


def convolve(xp: Any, images: Array, filters: Array, windows: Windows, groups: int = 1) -> Array:
    """Multiplies every window of every image by the filters.

    out[n, i, j] = Σ over window elements (y, x) of image[n, at(i, y), at(j, x)] @ filters[y, x]

    Args:
        xp: numpy or cupy.
        images: [batch, ..., channels].
        filters: [..., channels / groups, outputs] of the same dtype.
        windows: Geometry over the spatial dimensions.
        groups: Number of groups of channels and outputs.

    Returns:
        [batch, counts of windows..., outputs].
    """
    if groups > 1:
        parts = zip(_parts(xp, images, groups), _parts(xp, filters, groups), strict=True)
        return concatenated(xp, [convolve(xp, *part, windows) for part in parts], axis=-1)
    *_, channels, outputs = filters.shape
    batch = images.shape[0]
    result = xp.empty((batch, *(window.count for window in windows), outputs), images.dtype)
    if not result.size:
        return result
    matrix = filters.reshape(_cells(windows) * channels, outputs)
    for start, stop, cells in _blocks(xp, images, windows):
        target = result[start:stop].reshape(-1, outputs)
        multiply_into(xp, cells, matrix, target)
    return result


def filter_gradient(xp: Any, images: Array, dy: Array, windows: Windows, groups: int = 1) -> Array:
    """The gradient of the filters of `convolve`: sum over windows of cellsᵀ @ dy.

    Args:
        xp: numpy or cupy.
        images: [batch, ..., channels].
        dy: [batch, counts of windows..., outputs].
        windows: Geometry over the spatial dimensions.
        groups: As for `convolve`.

    Returns:
        [sizes of windows..., channels / groups, outputs].
    """
    if groups > 1:
        parts = zip(_parts(xp, images, groups), _parts(xp, dy, groups), strict=True)
        return concatenated(xp, [filter_gradient(xp, *part, windows) for part in parts], axis=-1)
    channels, outputs = images.shape[-1], dy.shape[-1]
    total = xp.zeros((_cells(windows) * channels, outputs), dy.dtype)
    if dy.size:
        for start, stop, cells in _blocks(xp, images, windows):
            total += product(xp, cells, dy[start:stop].reshape(-1, outputs), transpose_a=True)
    return total.reshape(*(window.size for window in windows), channels, outputs)


def input_gradient(
    xp: Any, dy: Array, filters: Array, windows: Windows, size: Sequence[int], groups: int = 1
) -> Array:
    """The gradient of the images of `convolve`.

    With strides of 1 it is a convolution of dy with the mirrored filters (18 against 30 ms in the
    case of `BLOCK_BYTES`), otherwise the windows' gradients are scattered and added; so too if dy
    has many more channels than the images and its windows are large (2 against 6 ms for 1 and 32).

    Args:
        xp: numpy or cupy.
        dy: [batch, counts of windows..., outputs].
        filters: [sizes of windows..., channels, outputs].
        windows: Geometry over the spatial dimensions.
        size: The spatial sizes of the images.
        groups: As for `convolve`.

    Returns:
        [batch, *size, channels].
    """
    if groups > 1:
        parts = zip(_parts(xp, dy, groups), _parts(xp, filters, groups), strict=True)
        found = [input_gradient(xp, *part, windows, size) for part in parts]
        return concatenated(xp, found, axis=-1)
    back = [_mirrored(window, dim) for window, dim in zip(windows, size, strict=True)]
    mirrored = tuple(window for window in back if window is not None)
    channels, outputs = filters.shape[-2:]
    if len(mirrored) == len(windows) and outputs <= MANY_OUTPUTS * channels:
        flipped = filters[(slice(None, None, -1),) * len(windows)].swapaxes(-1, -2)
        return convolve(xp, dy, xp.ascontiguousarray(flipped), mirrored)
    return _folded(xp, dy, filters, windows, size)


def _parts(xp: Any, array: Array, groups: int) -> list[Array]:
    """Equal parts along the last dimension."""
    return [xp.ascontiguousarray(part) for part in xp.split(array, groups, axis=-1)]


def _cells(windows: Windows) -> int:
    return math.prod(window.size for window in windows)


def _mirrored(window: Window, dim: int) -> Window | None:
    """The windows over dy whose convolution yields `dim` elements; None if there are none."""
    before = window.extent - 1 - window.before
    after = dim - window.count + window.extent - 1 - before
    if window.stride != 1 or before < 0 or after < 0:
        return None
    return Window(window.size, 1, window.dilation, before, after, dim)


def covering(windows: Windows, size: Sequence[int]) -> tuple[int, ...]:
    """Spatial sizes that hold the padded images and every window."""
    return tuple(
        max(dim + window.before + window.after, (window.count - 1) * window.stride + window.extent)
        for window, dim in zip(windows, size, strict=True)
    )


def _folded(xp: Any, dy: Array, filters: Array, windows: Windows, size: Sequence[int]) -> Array:
    batch, outputs = dy.shape[0], dy.shape[-1]
    channels = filters.shape[-2]
    padded = xp.zeros((batch, *covering(windows, size), channels), dy.dtype)
    flat = dy.reshape(-1, outputs)
    shape = (*dy.shape[:-1], channels)
    for place, index in offsets(windows):
        padded[index] += product(xp, flat, filters[place], transpose_b=True).reshape(shape)
    return padded[within(windows, size)]


def _blocks(xp: Any, images: Array, windows: Windows) -> Iterator[tuple[int, int, Array]]:
    """Yields (first image, one past the last, their window matrix) for each block.

    The matrix has a row per window and is valid until the next block.
    """
    batch, channels = images.shape[0], images.shape[-1]
    depth = _cells(windows) * channels
    per_image = math.prod(window.count for window in windows)
    image_bytes = max(per_image * depth * images.dtype.itemsize, 1)
    budget = BLOCK_BYTES if xp.__name__ == "numpy" else DEVICE_BLOCK_BYTES
    step = min(max(budget // image_bytes, 1), batch)
    pointwise = depth == channels and all(window.stride == 1 for window in windows)
    buffer = None if pointwise else xp.empty((step * per_image, depth), images.dtype)
    for start in range(0, batch, step):
        stop = min(start + step, batch)
        padded = pad_images(xp, images[start:stop], windows)
        if buffer is None:
            yield start, stop, padded.reshape(-1, channels)
            continue
        cells = buffer[: (stop - start) * per_image]
        view = window_view(xp, padded, windows)
        cells.reshape(view.shape)[...] = view
        yield start, stop, cells
