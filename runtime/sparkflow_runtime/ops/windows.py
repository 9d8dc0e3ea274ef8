"""Geometry of sliding windows: padding, strides, output sizes, for convolution and pooling.

Everything is written for any number of spatial dimensions. Kernels see batches with the channels
last (NHWC, NDHWC); with channels second, a transposed view is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Dim, Shape

Pair = tuple[int, int]
Sizes = tuple[int, ...]
"""One number per spatial dimension."""


@dataclass(frozen=True, slots=True)
class Window:
    """The windows along one spatial dimension.

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
        """The index of the padded input's elements at `offset` in each window."""
        start = offset * self.dilation
        if self.count == 0:
            return slice(start, start)
        return slice(start, start + (self.count - 1) * self.stride + 1, self.stride)


Windows = tuple[Window, ...]
"""The windows over each spatial dimension."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The attributes that describe how windows slide over the spatial dimensions.

    Attributes:
        strides, dilations: One per spatial dimension.
        padding: `SAME`, `VALID` or `EXPLICIT`.
        explicit: (before, after) per spatial dimension, for `EXPLICIT`.
        data_format: `NHWC` or `NCHW`, `NDHWC` or `NCDHW`.
    """

    strides: Sizes
    dilations: Sizes
    padding: str
    explicit: tuple[Pair, ...]
    data_format: str

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Layout:
        """Reads an op's attributes.

        Raises:
            InvalidArgumentError: Not one stride per dimension, strides over batch or channels,
                wrong paddings.
        """
        data_format = attrs.get("data_format", "NHWC")
        rank = len(data_format)
        strides = spatial(attrs["strides"], data_format, "strides")
        dilations = spatial(attrs.get("dilations", [1] * rank), data_format, "dilations")
        padding = attrs["padding"]
        given = attrs.get("explicit_paddings", [])
        explicit: tuple[Pair, ...] = ((0, 0),) * (rank - 2)
        if padding == "EXPLICIT":
            explicit = _explicit_pairs(given, data_format)
        elif given:
            raise InvalidArgumentError(
                message=f"explicit_paddings must be empty if padding is {padding}, got {given}"
            )
        return cls(strides, dilations, padding, explicit, data_format)

    def windows(self, dims: Sequence[int], size: Sequence[int]) -> Windows:
        """The windows of `size` over images with these spatial sizes.

        Raises:
            InvalidArgumentError: A window does not fit into the padded image.
        """
        return tuple(
            self._window(dim, axis, each)
            for axis, (dim, each) in enumerate(zip(dims, size, strict=True))
        )

    def count(self, dim: Dim, axis: int, size: Dim) -> Dim:
        """The static number of windows over spatial dimension `axis`.

        Raises:
            InvalidArgumentError: No window fits; kernels tolerate a shortfall of less than a
        stride.
        """
        if dim is None:
            return None
        if size is None:
            return -(-dim // self.strides[axis]) if self.padding == "SAME" else None
        window = self._window(dim, axis, size)
        room = dim + window.before + window.after
        if window.extent > room:
            raise InvalidArgumentError(
                message=f"Negative dimension size caused by subtracting {window.extent} from {room}"
            )
        return window.count

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
        # As in TensorFlow, a small shortfall means no window rather than an error.
        count = max(left // stride, 0)
        return Window(size, stride, dilation, before, after, count)


def spatial(values: Sequence[int], data_format: str, name: str) -> Sizes:
    """The spatial entries of one number per dimension, which must be 1 for batch and channels.

    Raises:
        InvalidArgumentError: Not one each, not positive, or not 1 where they must be.
    """
    if len(values) != len(data_format):
        raise InvalidArgumentError(
            message=f"{name} must have {len(data_format)} elements for {data_format}, "
            f"got {list(values)}"
        )
    batch, *sizes, channels = channels_last(values, data_format)
    if batch != 1 or channels != 1:
        raise InvalidArgumentError(
            message=f"{name} over the batch or channel dimension are not supported: they must be 1 "
            f"there, got {list(values)} for {data_format}"
        )
    if min(sizes) < 1:
        raise InvalidArgumentError(message=f"{name} must be positive, got {list(values)}")
    return tuple(sizes)


def _explicit_pairs(given: Sequence[int], data_format: str) -> tuple[Pair, ...]:
    rank = len(data_format)
    if len(given) != 2 * rank or min(given) < 0:
        raise InvalidArgumentError(
            message=f"explicit_paddings must be {2 * rank} numbers that are not negative: before "
            f"and after for each dimension; got {list(given)}"
        )
    pairs = [(given[i], given[i + 1]) for i in range(0, 2 * rank, 2)]
    batch, *sizes, channels = channels_last(pairs, data_format)
    if batch != (0, 0) or channels != (0, 0):
        raise InvalidArgumentError(
            message="explicit_paddings must be 0 for the batch and channel dimensions, "
            f"got {list(given)} for {data_format}"
        )
    return tuple(sizes)


def has_channels_last(data_format: str) -> bool:
    """Whether the channels are the last dimension."""
    return data_format[-1] == "C"


def channels_last(values: Sequence[Any], data_format: str) -> tuple[Any, ...]:
    """One value per dimension in the order of `data_format`, as (batch, ..., channels)."""
    if has_channels_last(data_format):
        return tuple(values)
    return (values[0], *values[2:], values[1])


def in_format(dims: Sequence[Any], data_format: str) -> tuple[Any, ...]:
    """Values given as (batch, ..., channels) in the order of `data_format`."""
    if has_channels_last(data_format):
        return tuple(dims)
    return (dims[0], dims[-1], *dims[1:-1])


def as_channels_last(images: Array, data_format: str, name: str) -> Array:
    """A view of the images with channels last.

    Raises:
        InvalidArgumentError: Not of the rank of `data_format`.
    """
    rank = len(data_format)
    if images.ndim != rank:
        raise InvalidArgumentError(
            message=f"{name} must be {rank}-dimensional, got shape {bracketed(images.shape)}"
        )
    return images.transpose(channels_last(range(rank), data_format))


def from_channels_last(xp: Any, images: Array, data_format: str) -> Array:
    """Images with channels last in the order of `data_format`, contiguous."""
    if has_channels_last(data_format):
        return images
    return xp.ascontiguousarray(images.transpose(in_format(range(images.ndim), data_format)))


def static_channels_last(shape: Shape, data_format: str) -> tuple[Dim, ...]:
    """The sizes of a static shape that has the rank of the format or none, channels last."""
    if shape is None:
        return (None,) * len(data_format)
    return channels_last(shape, data_format)


def pad_images(xp: Any, images: Array, windows: Windows, border: Any = 0) -> Array:
    """Images with the windows' padding around them; the images themselves when it is zero."""
    if not any(window.before or window.after for window in windows):
        return images
    batch, *dims, channels = images.shape
    inside = zip(windows, dims, strict=True)
    shape = (batch, *(window.before + dim + window.after for window, dim in inside), channels)
    padded = xp.full(shape, border, images.dtype)
    padded[within(windows, dims)] = images
    return padded


def within(windows: Windows, dims: Sequence[int]) -> tuple[slice, ...]:
    """The index of images with these spatial sizes within their padding."""
    pairs = zip(windows, dims, strict=True)
    return (slice(None), *(slice(window.before, window.before + dim) for window, dim in pairs))


def offsets(windows: Windows) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yields (place, index) per position in a window: the index selects it in all windows."""
    for place in product(*(range(window.size) for window in windows)):
        pairs = zip(windows, place, strict=True)
        yield place, (slice(None), *(window.taken(offset) for window, offset in pairs))


def window_view(xp: Any, padded: Array, windows: Windows) -> Array:
    """[batch, windows..., window elements..., channels] of padded images, without copying."""
    batch, *inner, channel = padded.strides
    pairs = list(zip(windows, inner, strict=True))
    strides = (
        batch,
        *(step * window.stride for window, step in pairs),
        *(step * window.dilation for window, step in pairs),
        channel,
    )
    shape = (
        padded.shape[0],
        *(window.count for window in windows),
        *(window.size for window in windows),
        padded.shape[-1],
    )
    return xp.lib.stride_tricks.as_strided(padded, shape, strides)
