"""The geometry and the arithmetic of pooling, for any number of spatial dimensions.

Instead of building one large array of windows, each function loops over the few offsets within a
window and handles all windows at once, so that it needs no memory beyond its result. The ops are in
`pool`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import as_dtype
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.ops.windows import (
    Layout,
    Sizes,
    Windows,
    as_channels_last,
    from_channels_last,
    in_format,
    offsets,
    pad_images,
    spatial,
    static_channels_last,
    within,
)
from sparkflow_runtime.shapes import Shape


@dataclass(frozen=True, slots=True)
class Pooling:
    """The geometry of one pooling node.

    Attributes:
        layout: How windows slide.
        size: The spatial sizes of a window.
    """

    layout: Layout
    size: Sizes

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Pooling:
        """Reads an op's attributes.

        Raises:
            InvalidArgumentError: Windows or strides over batch or channels, or wrong paddings.
        """
        layout = Layout.of(attrs)
        return cls(layout, spatial(attrs["ksize"], layout.data_format, "ksize"))

    @property
    def rank(self) -> int:
        """The rank of the images."""
        return len(self.layout.data_format)

    def static_shape(self, shape: Shape) -> Shape:
        """The static shape of the pooled images."""
        data_format = self.layout.data_format
        batch, *dims, channels = static_channels_last(shape, data_format)
        counts = (
            self.layout.count(dim, axis, size)
            for axis, (dim, size) in enumerate(zip(dims, self.size, strict=True))
        )
        return in_format((batch, *counts, channels), data_format)

    def channels_last(self, images: Array, name: str) -> Array:
        """The images with channels last."""
        return as_channels_last(images, self.layout.data_format, name)

    def windows(self, shape: Sequence[int]) -> Windows:
        """The windows over images of this shape, channels last."""
        return self.layout.windows(shape[1:-1], self.size)

    def check(self, shape: Sequence[int], **pooled: Array) -> Windows:
        """The windows over images of this shape; checks that `pooled` have the result's shape.

        Raises:
            InvalidArgumentError: One of `pooled` has another shape.
        """
        windows = self.windows(shape)
        expected = (shape[0], *(window.count for window in windows), shape[-1])
        for name, array in pooled.items():
            check_like(name, array, expected)
        return windows

    def result(self, xp: Any, images: Array) -> Array:
        """Converts images with channels last to the node's data format."""
        return from_channels_last(xp, images, self.layout.data_format)


def check_like(name: str, given: Array, expected: Sequence[int]) -> None:
    """Checks that `given` has the expected shape.

    Raises:
        InvalidArgumentError: It has another.
    """
    if given.shape != tuple(expected):
        raise InvalidArgumentError(
            message=f"{name} must have shape {bracketed(expected)} with channels last, "
            f"but has {bracketed(given.shape)}"
        )


def _lowest(xp: Any, dtype: Any) -> Any:
    return -xp.inf if dtype.kind == "f" else as_dtype(dtype).min


def maximum(xp: Any, images: Array, windows: Windows) -> Array:
    """The largest element of every window; padding never wins."""
    padded = pad_images(xp, images, windows, _lowest(xp, images.dtype))
    parts = (padded[index] for _, index in offsets(windows))
    result = next(parts).copy()
    for part in parts:
        xp.maximum(result, part, out=result)
    return result


def winners(
    xp: Any, images: Array, pooled: Array, windows: Windows
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], Array]]:
    """Yields (place, index, mask) per position in a window: where it is the first maximum.

    It is always in the image: padding does not win even against the lowest number.
    """
    padded = pad_images(xp, images, windows)
    image = pad_images(xp, xp.ones((1, *images.shape[1:-1], 1), xp.bool_), windows)
    free = xp.ones(pooled.shape, xp.bool_)
    for place, index in offsets(windows):
        mask = padded[index] == pooled
        mask &= free
        if padded is not images:
            mask &= image[index]
        free ^= mask
        yield place, index, mask


def masked(values: Array, mask: Array) -> Array:
    """`values` where `mask` holds, else 0.

    A product of bit patterns: exact for infinities too, 9 times as fast as `where` (2026-11-21).
    """
    bits = values.view(f"i{values.dtype.itemsize}")
    return (bits * mask).view(values.dtype)


def total(xp: Any, images: Array, windows: Windows) -> Array:
    """The sum of every window."""
    padded = pad_images(xp, images, windows)
    parts = (padded[index] for _, index in offsets(windows))
    result = next(parts).copy()
    for part in parts:
        result += part
    return result


def padded_zeros(xp: Any, shape: Sequence[int], windows: Windows, dtype: Any) -> Array:
    """Zeros of the shape of padded images."""
    batch, *dims, channels = shape
    pairs = zip(windows, dims, strict=True)
    sizes = (dim + window.before + window.after for window, dim in pairs)
    return xp.zeros((batch, *sizes, channels), dtype)


def inside(images: Array, windows: Windows, shape: Sequence[int]) -> Array:
    """Padded images without their padding."""
    return images[within(windows, shape[1:-1])]


def window_sizes(xp: Any, windows: Windows, shape: Sequence[int], dtype: Any) -> Array:
    """[counts..., 1]: the number of elements of each window inside the image."""
    counts = []
    for window, dim in zip(windows, shape[1:-1], strict=True):
        starts = np.arange(window.count) * window.stride - window.before
        counts.append(np.minimum(starts + window.size, dim) - np.maximum(starts, 0))
    return xp.asarray(reduce(np.multiply.outer, counts)[..., None].astype(dtype))


def flat_places(xp: Any, windows: Windows, place: Sequence[int], shape: Sequence[int]) -> Array:
    """[counts..., channels]: the flat index within an image of the element at `place` of each.

    The index of a position in the padding is meaningless.
    """
    *dims, channels = shape[1:]
    flat: Any = np.zeros((), np.int64)
    for window, offset, dim in zip(windows, place, dims, strict=True):
        at = np.arange(window.count) * window.stride - window.before + offset * window.dilation
        flat = np.add.outer(flat * dim, at) if flat.ndim else at.astype(np.int64)
    return xp.asarray(np.add.outer(flat * channels, np.arange(channels)))
