"""Convolution of NHWC images through matrix products: forward and both gradients.

Every function cuts the batch into blocks of images whose windows, laid out as a matrix (im2col),
stay in the cache, and multiplies block by block through one buffer that is used again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.windows import Pair, Window, pad_images

BLOCK_BYTES = 4 << 20
"""Size of the window matrix of one block on a CPU.

Measured 2026-11-21 (two AVX-512 cores, 64 images of 28×28×32, 64 filters of 3×3): 122 GFLOP/s,
against 59 with 256 KB and 82 with the whole batch in one.
"""
DEVICE_BLOCK_BYTES = 1 << 28
"""The same where one large product is better than many: on a GPU."""

Windows = tuple[Window, Window]


def convolve(xp: Any, images: Array, filters: Array, windows: Windows) -> Array:
    """Every window of every image times the filters.

    out[n, i, j] = Σ over window elements (y, x) of image[n, at(i, y), at(j, x)] @ filters[y, x]

    Args:
        xp: numpy or cupy.
        images: [batch, height, width, channels].
        filters: [rows, columns, channels, outputs] of the same dtype.
        windows: Geometry over height and width.

    Returns:
        [batch, rows.count, columns.count, outputs].
    """
    rows, columns = windows
    *_, channels, outputs = filters.shape
    batch = images.shape[0]
    result = xp.empty((batch, rows.count, columns.count, outputs), images.dtype)
    if not result.size:
        return result
    matrix = filters.reshape(rows.size * columns.size * channels, outputs)
    for start, stop, cells in _blocks(xp, images, windows):
        target = result[start:stop].reshape(-1, outputs)
        xp.matmul(cells, matrix, out=target)
    return result


def filter_gradient(xp: Any, images: Array, dy: Array, windows: Windows) -> Array:
    """The gradient of the filters of `convolve`: sum over windows of cellsᵀ @ dy.

    Args:
        xp: numpy or cupy.
        images: [batch, height, width, channels].
        dy: [batch, rows.count, columns.count, outputs].
        windows: Geometry over height and width.

    Returns:
        [rows.size, columns.size, channels, outputs].
    """
    rows, columns = windows
    channels, outputs = images.shape[3], dy.shape[3]
    total = xp.zeros((rows.size * columns.size * channels, outputs), dy.dtype)
    if dy.size:
        for start, stop, cells in _blocks(xp, images, windows):
            total += cells.T @ dy[start:stop].reshape(-1, outputs)
    return total.reshape(rows.size, columns.size, channels, outputs)


def input_gradient(xp: Any, dy: Array, filters: Array, windows: Windows, size: Pair) -> Array:
    """The gradient of the images of `convolve`.

    With strides of 1 it is a convolution of dy with the mirrored filters (18 against 30 ms in the
    case of `BLOCK_BYTES`), else the windows' gradients are added up where they lie; so too where dy
    has many more channels than the images and its windows are large (2 against 6 ms for 1 and 32).

    Args:
        xp: numpy or cupy.
        dy: [batch, rows.count, columns.count, outputs].
        filters: [rows.size, columns.size, channels, outputs].
        windows: Geometry over height and width.
        size: Height and width of the images.

    Returns:
        [batch, height, width, channels].
    """
    rows, columns = (_mirrored(window, dim) for window, dim in zip(windows, size, strict=True))
    channels, outputs = filters.shape[2:]
    if rows is not None and columns is not None and outputs <= 8 * channels:
        flipped = filters[::-1, ::-1].transpose(0, 1, 3, 2)
        return convolve(xp, dy, xp.ascontiguousarray(flipped), (rows, columns))
    return _folded(xp, dy, filters, windows, size)


def _mirrored(window: Window, dim: int) -> Window | None:
    """The windows over dy whose convolution gives back `dim` elements, None without any."""
    before = window.extent - 1 - window.before
    after = dim - window.count + window.extent - 1 - before
    if window.stride != 1 or before < 0 or after < 0:
        return None
    return Window(window.size, 1, window.dilation, before, after, dim)


def _folded(xp: Any, dy: Array, filters: Array, windows: Windows, size: Pair) -> Array:
    rows, columns = windows
    batch, outputs = dy.shape[0], dy.shape[3]
    channels = filters.shape[2]
    height, width = (
        max(dim + window.before + window.after, (window.count - 1) * window.stride + window.extent)
        for window, dim in zip(windows, size, strict=True)
    )
    padded = xp.zeros((batch, height, width, channels), dy.dtype)
    flat = dy.reshape(-1, outputs)
    shape = (batch, rows.count, columns.count, channels)
    for y in range(rows.size):
        for x in range(columns.size):
            part = (flat @ filters[y, x].T).reshape(shape)
            padded[:, rows.taken(y), columns.taken(x)] += part
    top, left = rows.before, columns.before
    return padded[:, top : top + size[0], left : left + size[1]]


def _blocks(xp: Any, images: Array, windows: Windows) -> Iterator[tuple[int, int, Array]]:
    """(first image, one past the last, their windows as a matrix) for one block after another.

    The matrix has a row per window and is valid until the next block.
    """
    rows, columns = windows
    batch, _, _, channels = images.shape
    depth = rows.size * columns.size * channels
    per_image = rows.count * columns.count
    image_bytes = max(per_image * depth * images.dtype.itemsize, 1)
    budget = BLOCK_BYTES if xp.__name__ == "numpy" else DEVICE_BLOCK_BYTES
    step = min(max(budget // image_bytes, 1), batch)
    pointwise = depth == channels and rows.stride == columns.stride == 1
    buffer = None if pointwise else xp.empty((step * per_image, depth), images.dtype)
    for start in range(0, batch, step):
        stop = min(start + step, batch)
        padded = pad_images(xp, images[start:stop], windows)
        if buffer is None:
            yield start, stop, padded.reshape(-1, channels)
            continue
        cells = buffer[: (stop - start) * per_image]
        shape = (stop - start, rows.count, columns.count, rows.size, columns.size, channels)
        cells.reshape(shape)[...] = _window_view(xp, padded, shape, windows)
        yield start, stop, cells


def _window_view(xp: Any, padded: Array, shape: tuple[int, ...], windows: Windows) -> Array:
    """[batch, i, j, y, x, channel] without copying."""
    rows, columns = windows
    image, row, column, channel = padded.strides
    strides = (
        image,
        row * rows.stride,
        column * columns.stride,
        row * rows.dilation,
        column * columns.dilation,
        channel,
    )
    return xp.lib.stride_tricks.as_strided(padded, shape, strides)
