"""Geometry of sliding windows: padding, strides, output sizes, for convolution and pooling.

Kernels see batches as NHWC; NCHW is a transposed view of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Dim, Shape

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Window:
    """Where windows lie over one spatial dimension.

    Attributes:
        size: Elements per window.
        stride: Steps between windows.
        dilation: Steps between elements of a window.
        before, after: Padding.
        count: Number of windows.
    """

    size: int
    stride: int
    dilation: int
    before: int
    after: int
    count: int

    @property
    def extent(self) -> int:
        """Elements from the first to the last of a window, both included."""
        return (self.size - 1) * self.dilation + 1

    def taken(self, offset: int) -> slice:
        """The padded input's elements that lie at `offset` of each window."""
        start = offset * self.dilation
        return slice(start, start + (self.count - 1) * self.stride + 1, self.stride)


@dataclass(frozen=True, slots=True)
class Layout:
    """The attributes that say how windows slide over height and width.

    Attributes:
        strides, dilations: (height, width).
        padding: `SAME`, `VALID` or `EXPLICIT`.
        explicit: ((before, after), (before, after)) for height and width, for `EXPLICIT`.
        data_format: `NHWC` or `NCHW`.
    """

    strides: Pair
    dilations: Pair
    padding: str
    explicit: tuple[Pair, Pair]
    data_format: str

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Layout:
        """Reads an op's attributes.

        Raises:
            InvalidArgumentError: Not four strides, strides over batch or channels, wrong paddings.
        """
        data_format = attrs["data_format"]
        strides = spatial(attrs["strides"], data_format, "strides")
        dilations = spatial(attrs.get("dilations", [1, 1, 1, 1]), data_format, "dilations")
        padding = attrs["padding"]
        given = attrs.get("explicit_paddings", [])
        explicit = ((0, 0), (0, 0))
        if padding == "EXPLICIT":
            explicit = _explicit_pairs(given, data_format)
        elif given:
            raise InvalidArgumentError(
                message=f"explicit_paddings must be empty if padding is {padding}, got {given}"
            )
        return cls(strides, dilations, padding, explicit, data_format)

    def windows(self, height: int, width: int, size: Pair) -> tuple[Window, Window]:
        """The windows of `size` over an image.

        Raises:
            InvalidArgumentError: A window does not fit into the padded image.
        """
        first, second = (
            self._window(dim, axis, size[axis]) for axis, dim in enumerate((height, width))
        )
        return first, second

    def count(self, dim: Dim, axis: int, size: Dim) -> Dim:
        """The static number of windows over dimension `axis` (0 height, 1 width)."""
        if dim is None:
            return None
        if size is None:
            return -(-dim // self.strides[axis]) if self.padding == "SAME" else None
        return self._window(dim, axis, size).count

    def _window(self, dim: int, axis: int, size: int) -> Window:
        stride, dilation = self.strides[axis], self.dilations[axis]
        extent = (size - 1) * dilation + 1
        if self.padding == "SAME":
            count = -(-dim // stride)
            missing = max((count - 1) * stride + extent - dim, 0)
            return Window(size, stride, dilation, missing // 2, missing - missing // 2, count)
        before, after = self.explicit[axis]
        left = dim + before + after - extent + stride
        if left <= -stride:
            raise InvalidArgumentError(
                message=f"Computed output size would be negative: {-(-left // stride)} "
                f"[input_size: {dim + before + after}, effective_filter_size: {extent}, "
                f"stride: {stride}]"
            )
        # As in TensorFlow there is no window, rather than an error, where only a bit is missing.
        count = max(left // stride, 0)
        return Window(size, stride, dilation, before, after, count)


def spatial(values: Sequence[int], data_format: str, name: str) -> Pair:
    """(height, width) of a list of four numbers that must be 1 for batch and channels.

    Raises:
        InvalidArgumentError: Not four, not positive, or not 1 where they must be.
    """
    if len(values) != 4:
        raise InvalidArgumentError(
            message=f"{name} must have 4 elements for {data_format}, got {list(values)}"
        )
    batch, height, width, channels = nhwc(values, data_format)
    if batch != 1 or channels != 1:
        raise InvalidArgumentError(
            message=f"{name} over the batch or channel dimension are not supported: they must be 1 "
            f"there, got {list(values)} for {data_format}"
        )
    if height < 1 or width < 1:
        raise InvalidArgumentError(message=f"{name} must be positive, got {list(values)}")
    return height, width


def _explicit_pairs(given: Sequence[int], data_format: str) -> tuple[Pair, Pair]:
    if len(given) != 8 or min(given) < 0:
        raise InvalidArgumentError(
            message="explicit_paddings must be 8 numbers that are not negative: before and after "
            f"for each dimension; got {list(given)}"
        )
    pairs = [(given[i], given[i + 1]) for i in range(0, 8, 2)]
    batch, height, width, channels = nhwc(pairs, data_format)
    if batch != (0, 0) or channels != (0, 0):
        raise InvalidArgumentError(
            message="explicit_paddings must be 0 for the batch and channel dimensions, "
            f"got {list(given)} for {data_format}"
        )
    return height, width


def nhwc(values: Sequence[Any], data_format: str) -> tuple[Any, Any, Any, Any]:
    """Four values in the order of `data_format`, as (batch, height, width, channels)."""
    if data_format == "NHWC":
        batch, height, width, channels = values
    else:
        batch, channels, height, width = values
    return batch, height, width, channels


def in_format(
    batch: Dim, height: Dim, width: Dim, channels: Dim, data_format: str
) -> tuple[Dim, Dim, Dim, Dim]:
    """A shape given as NHWC in the order of `data_format`."""
    if data_format == "NHWC":
        return batch, height, width, channels
    return batch, channels, height, width


def as_nhwc(images: Array, data_format: str, name: str) -> Array:
    """A view of the images with channels last.

    Raises:
        InvalidArgumentError: Not of rank 4.
    """
    if images.ndim != 4:
        raise InvalidArgumentError(
            message=f"{name} must be 4-dimensional, got shape {bracketed(images.shape)}"
        )
    return images if data_format == "NHWC" else images.transpose(0, 2, 3, 1)


def from_nhwc(xp: Any, images: Array, data_format: str) -> Array:
    """Images with channels last in the order of `data_format`, contiguous."""
    if data_format == "NHWC":
        return images
    return xp.ascontiguousarray(images.transpose(0, 3, 1, 2))


def static_nhwc(shape: Shape, data_format: str) -> tuple[Dim, Dim, Dim, Dim]:
    """The sizes of a static shape that has rank 4 or none, as NHWC."""
    if shape is None:
        return None, None, None, None
    return nhwc(shape, data_format)


def pad_images(xp: Any, images: Array, windows: tuple[Window, Window], border: Any = 0) -> Array:
    """NHWC images with the windows' padding around them; the images themselves when it is zero."""
    rows, columns = windows
    if not (rows.before or rows.after or columns.before or columns.after):
        return images
    batch, height, width, channels = images.shape
    shape = (
        batch,
        rows.before + height + rows.after,
        columns.before + width + columns.after,
        channels,
    )
    padded = xp.full(shape, border, images.dtype)
    padded[:, rows.before : rows.before + height, columns.before : columns.before + width] = images
    return padded
