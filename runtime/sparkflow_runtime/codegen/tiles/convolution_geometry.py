"""The memory layout of images, windows and filters, as contractions traverse it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from sparkflow_runtime.codegen.tiles.contraction_ir import Field

Array = np.ndarray[Any, Any]


class Window(Protocol):
    """The windows along one dimension."""

    @property
    def size(self) -> int:
        """Elements per window."""

    @property
    def stride(self) -> int:
        """Steps between windows."""

    @property
    def dilation(self) -> int:
        """Steps between elements of a window."""

    @property
    def before(self) -> int:
        """Zeros before the first element."""

    @property
    def count(self) -> int:
        """Number of windows."""


@dataclass(frozen=True, slots=True)
class Each:
    """The windows along a dimension of which every window sees one element."""

    count: int
    size: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0


@dataclass(frozen=True, slots=True)
class Solid:
    """A convolution over planes, rows and columns.

    Attributes:
        images: [volumes, planes, height, width, channels].
        filters: [planes, rows, columns, channels, outputs].
        windows: Over planes, height and width.
    """

    images: Sequence[int]
    filters: Sequence[int]
    windows: Sequence[Window]

    @classmethod
    def of(cls, images: Sequence[int], filters: Sequence[int], windows: Sequence[Window]) -> Solid:
        """Returns a convolution as one over volumes: images are the planes of a single one.

        Args:
            images: [batch, height, width, channels]; or as the attribute.
            filters: [rows, columns, channels, outputs]; or as the attribute.
            windows: Over height and width; or as the attribute.
        """
        if len(windows) == 3:
            return cls(images, filters, windows)
        return cls((1, *images), (1, *filters), (Each(images[0]), *windows))

    @property
    def axes(self) -> tuple[Axis, Axis, Axis]:
        """The axes over planes, height and width."""
        _, *dims, _ = self.images
        planes, rows, columns = map(Axis.of, self.windows, dims)
        return planes, rows, columns


@dataclass(frozen=True, slots=True)
class Axis:
    """How positions along one dimension are traversed.

    Attributes:
        dim: Elements of the images along it.
        before: Zeros before them; never negative.
        padded: Elements including the zeros before and after.
        origin: The padded position of the first window's first element.
        taps: Elements per window.
        tap: Dilation: the step between them.
        count: Windows.
        step: Stride between windows.
    """

    dim: int
    before: int
    padded: int
    origin: int
    taps: int
    tap: int
    count: int
    step: int

    @classmethod
    def of(cls, window: Window, dim: int) -> Axis:
        """Returns the axis of a convolution's windows over `dim` elements."""
        needed = (window.count - 1) * window.stride + (window.size - 1) * window.dilation + 1
        padded = max(window.before + dim, needed) if window.count else dim
        return cls(
            dim,
            window.before,
            padded,
            0,
            window.size,
            window.dilation,
            window.count,
            window.stride,
        )

    @property
    def is_padded(self) -> bool:
        """Whether there is padding."""
        return self.padded != self.dim

    @property
    def extent(self) -> int:
        """Elements from the first to the last of a window, both included; at least 1."""
        return max(self.taps - 1, 0) * self.tap + 1

    def only(self, tap: int) -> Axis:
        """The axis of one element of every window."""
        return replace(self, origin=self.origin + tap * self.tap, taps=1)


@dataclass(frozen=True, slots=True)
class Images:
    """How images are read: three axes and the channels.

    Attributes:
        pitch: Stride between pixels of the padded copy in elements; at least the channels.
    """

    planes: Axis
    rows: Axis
    columns: Axis
    channels: int
    pitch: int

    @property
    def line(self) -> int:
        """Stride between lines in elements, zeros included."""
        return self.columns.padded * self.pitch

    @property
    def image(self) -> int:
        """Stride between planes in elements, zeros included."""
        return self.rows.padded * self.line

    @property
    def is_copied(self) -> bool:
        """Whether they are read from a padded copy."""
        return self.rows.is_padded or self.columns.is_padded or self.pitch != self.channels

    @property
    def windows(self) -> int:
        """Windows per plane of windows."""
        return self.rows.count * self.columns.count

    @property
    def is_run(self) -> bool:
        """Whether a line of a window is contiguous in memory."""
        is_dense = self.columns.tap == 1 and self.pitch == self.channels
        return is_dense or self.columns.taps == 1

    def fields(self) -> dict[Field, int]:
        """Returns the fields for their memory layout, and for the group processed at once."""
        rows, columns, channels, pitch = self.rows, self.columns, self.channels, self.pitch
        planes = self.planes
        runs = 1 if pitch == channels else columns.dim
        image = rows.dim * columns.dim * channels
        before = planes.before - planes.origin
        whole = (planes.dim - planes.extent + before) // planes.step + 1
        return {
            Field.LEFT_VOLUME: planes.dim * image,
            Field.PLANES: max(planes.count, 1),
            Field.PLANES_GIVEN: planes.dim,
            Field.PLANES_BEFORE: before,
            Field.PLANES_STEP: planes.step,
            Field.PLANES_SEEN: planes.extent,
            Field.PLANES_TAP: planes.tap,
            Field.TAPS: planes.taps,
            Field.WHOLE_START: -(-before // planes.step),
            Field.WHOLE_STOP: whole,
            Field.LEFT_IMAGE: image,
            Field.LEFT_ORIGIN: rows.origin * self.line + columns.origin * pitch,
            Field.IS_PADDED: int(self.is_copied),
            Field.PADDED_IMAGE: self.image,
            Field.PADDED_ORIGIN: rows.before * self.line + columns.before * pitch,
            Field.PADDED_LINE: self.line,
            Field.LINES: rows.dim,
            Field.LINE: columns.dim * channels // runs,
            Field.RUNS: runs,
            Field.PADDED_RUN: pitch,
        }


@dataclass(frozen=True, slots=True)
class Phase:
    """The elements of a gradient with the same phase relative to the stride, along one dimension.

    Attributes:
        axis: The axis over dy.
        first: The first of the elements.
        place: The first filter element that affects them.
        stride: Step between the elements, and between the filter's.
    """

    axis: Axis
    first: int
    place: int
    stride: int

    def taken(self) -> slice:
        """Returns the filter elements that affect them, in the order of dy's."""
        taps = self.axis.taps
        last = self.place + (taps - 1) * self.stride  # `place` is the first: less than a stride
        return slice(last, None, -self.stride) if taps else slice(0, 0)


def phases(window: Window, dim: int) -> Iterator[Phase]:
    """Yields the phases of the gradient of `dim` elements, which all see the same padded dy.

    With u = element + before, dimension by dimension: gradient[u] = Σ over y of
    dy[(u - y·dilation) / stride] · filter[y], wherever that is a whole number.
    """
    found = []
    for place in range(window.stride):
        taps = len(range(place, window.size, window.stride))
        low = -((place - window.before) // window.stride)  # the dy at the first element's first tap
        count = max((window.before + dim - 1 - place) // window.stride - low + 1, 0)
        found.append((place, taps, low - (taps - 1) * window.dilation, low, count))
    before = max(0, *(-start for _, _, start, _, _ in found))
    last = max(low + count for *_, low, count in found)
    padded = before + max(window.count, last)
    for place, taps, start, low, count in found:
        origin = start + before if taps else 0
        axis = Axis(window.count, before, padded, origin, taps, window.dilation, count, 1)
        first = low * window.stride + place - window.before
        yield Phase(axis, first, place, window.stride)


@dataclass(frozen=True, slots=True)
class Places:
    """The layout of results.

    Attributes:
        volume: Stride between volumes.
        steps: Strides between planes, lines and windows.
        origin: The place of the first result.
    """

    volume: int
    steps: tuple[int, int, int]
    origin: int


@dataclass(frozen=True, slots=True)
class Packing:
    """Filters in the body's packed layout: panel by panel of outputs, each contiguous.

    Attributes:
        filters: Their shape: [places..., channels, outputs].
        panel: Outputs per panel; 0 if depthwise, which has no panels.
        picked: The places that are used, per dimension of them.
        transposed: Whether channels and outputs are swapped.
    """

    filters: Sequence[int]
    panel: int
    picked: tuple[slice, ...]
    transposed: bool = False

    def merged(self) -> Packing:
        """The same with one dimension of places, if they are used in order or all in reverse."""
        *dims, channels, outputs = self.filters
        for step in (1, -1):
            every = [slice(None, None, step).indices(dim) for dim in dims]
            if [each.indices(dim) for each, dim in zip(self.picked, dims, strict=True)] == every:
                filters = (math.prod(dims), channels, outputs)
                return replace(self, filters=filters, picked=(slice(None, None, step),))
        return self

    def size(self) -> int:
        """Elements of the packed filters."""
        *dims, channels, outputs = self.filters
        if self.transposed:
            channels, outputs = outputs, channels
        width = -(-outputs // self.panel) * self.panel if self.panel else outputs
        picked = zip(self.picked, dims, strict=True)
        return math.prod(len(range(*each.indices(dim))) for each, dim in picked) * channels * width

    def __call__(self, filters: Array, target: Array) -> None:
        """Packs them into `target`."""
        given = filters.reshape(self.filters)[self.picked]
        if self.transposed:
            given = given.swapaxes(-1, -2)
        if not self.panel:
            target.reshape(given.shape)[...] = given
            return
        *place, outputs = given.shape
        panels, rest = divmod(outputs, self.panel)
        packed = target.reshape(-(-outputs // self.panel), *place, self.panel)
        if panels:
            whole = packed[:panels].transpose(*range(1, given.ndim), 0, given.ndim)
            whole[...] = given[..., : panels * self.panel].reshape(whole.shape)
        if rest:
            packed[panels, ..., :rest] = given[..., panels * self.panel :]
            packed[panels, ..., rest:] = 0
