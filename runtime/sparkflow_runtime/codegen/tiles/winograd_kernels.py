"""Convolutions and their gradients by minimal filtering, channels last, and when that pays.

Each function here looks at the sizes of one convolution and binds bodies of `winograd_ir` and
`winograd_gradient_ir`; what it gives is called with the arrays, as that of `convolution_kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import host, native, scratch, threads as pools
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.tiles import winograd_gradient_ir, winograd_ir
from sparkflow_runtime.codegen.tiles.convolution_geometry import Array, Window
from sparkflow_runtime.codegen.tiles.convolution_kernels import Kernel
from sparkflow_runtime.codegen.tiles.convolution_tasks import PARALLEL_PRODUCTS, tile
from sparkflow_runtime.codegen.tiles.winograd_ir import POINTS, PRODUCTS, Field, Form

GROUP: Final = 48
"""Tiles that are worked on at once: transformed, with their sums, they stay in a cache.

Measured 2026-11-28 on two AVX-512 cores with 1 MB of L2 each: of 24, 48, 96 and 192, for 32 to 256
channels, 24 and 48 are the fastest, within 3 % of each other.
"""
GRADIENT_GROUP: Final = 64
"""The same for a gradient by filters, where sums stay and tiles pass by; 64 to 800 were tried."""
LARGEST_FILTERS: Final = 40 << 20
"""Bytes of transformed filters, which every group of tiles reads."""
NEAR_FILTERS: Final = 16 << 20
"""Bytes of them that do not go to memory and back."""
TRANSFORM: Final = 0.45
"""Cycles per element of transformed tiles and of their sums.

This and the next were fitted on 2026-11-28 (two AVX-512 cores) to 26 layers of 3 to 512 channels;
with them `pays` says no to a gain in a few, and yes to a loss in none.
"""
NEAR_FILTER: Final = 0.5
FAR_FILTER: Final = 2.0
"""The same per element of transformed filters, or of a gradient's sums."""
GAIN: Final = 0.85
"""How much of the other way's time it may take."""
FEWEST_TAPS: Final = 3
"""Filters of 2 × 2 would gain 1.7 times the speed for 3 to 4 times the error."""
_ITEM: Final = 4
_LINE: Final = scratch.ALIGNMENT // _ITEM

_Run = Callable[..., bool]


@dataclass(frozen=True, slots=True)
class Sides:
    """What is convolved: a left side of tiles, filters beside one another, and the outputs.

    Attributes:
        batch: Images.
        left: Height, width and channels of the left side.
        before: Zeros above it and to the left of it.
        out: Height, width and channels of the outputs.
        taps: Elements of a filter, in each of two dimensions.
    """

    batch: int
    left: tuple[int, int, int]
    before: tuple[int, int]
    out: tuple[int, int, int]
    taps: int

    @classmethod
    def forward(
        cls, images: Sequence[int], filters: Sequence[int], windows: Sequence[Window]
    ) -> Sides:
        """Those of a convolution of [batch, height, width, channels]."""
        batch, height, width, channels = images
        rows, columns = windows
        out = rows.count, columns.count, filters[3]
        before = rows.before, columns.before
        return cls(batch, (height, width, channels), before, out, filters[0])

    @classmethod
    def by_image(
        cls, images: Sequence[int], filters: Sequence[int], windows: Sequence[Window]
    ) -> Sides:
        """Those of the gradient by images: dy is convolved with the filters mirrored."""
        batch, height, width, channels = images
        rows, columns = windows
        left = rows.count, columns.count, filters[3]
        reach = filters[0] - 1
        before = reach - rows.before, reach - columns.before
        return cls(batch, left, before, (height, width, channels), filters[0])

    @property
    def tile(self) -> int:
        """Outputs of a tile, in each of two dimensions."""
        return POINTS + 1 - self.taps

    @property
    def tile_columns(self) -> int:
        """Tiles beside one another."""
        return -(-self.out[1] // self.tile)

    @property
    def tiles(self) -> int:
        """Tiles of an image."""
        return -(-self.out[0] // self.tile) * self.tile_columns

    @property
    def products(self) -> int:
        """Multiplications of the matrices' products."""
        return self.batch * self.tiles * PRODUCTS * self.left[2] * self.out[2]

    @property
    def threads(self) -> int:
        """In how many parts it is done, at most."""
        return pools.count() if self.products >= PARALLEL_PRODUCTS else 1

    def form(self) -> Form:
        """What fits the registers of this processor."""
        rows, vectors = tile()
        lanes = host.host().vector_bytes // _ITEM
        channels, outputs = self.left[2], self.out[2]
        vectors = min(vectors, -(-outputs // lanes))
        return Form(self.taps, lanes, rows, vectors, channels % lanes > 0, outputs % lanes > 0)

    def fields(self) -> dict[Field, int]:
        """Where pixels lie, and what is computed of them."""
        height, width, channels = self.left
        return {
            Field.HEIGHT: height,
            Field.WIDTH: width,
            Field.CHANNELS: channels,
            Field.TOP: self.before[0],
            Field.LEFT: self.before[1],
            Field.OUT_HEIGHT: self.out[0],
            Field.OUT_WIDTH: self.out[1],
            Field.OUTPUTS: self.out[2],
            Field.TILE_COLUMNS: self.tile_columns,
            Field.TILES: self.tiles,
        }


def is_possible(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
) -> bool:
    """Whether there are such kernels: float32, square filters of 3 to 5, strides of 1.

    Args:
        dtype: Of the arrays.
        images: [batch, height, width, channels].
        filters: [rows, columns, channels, outputs].
        windows: Over height and width.
    """
    return (
        native.available()
        and dtype == np.float32
        and dtype.isnative
        and len(windows) == 2
        and all((window.stride, window.dilation) == (1, 1) for window in windows)
        and FEWEST_TAPS <= filters[0] == filters[1] <= POINTS - 1
        and min(*filters, *images, *(window.count for window in windows)) > 0
    )


def pays(
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
    member: int,
) -> bool:
    """Whether it is faster than adding up over windows, where it is possible.

    A model of cycles: both ways multiply at the processor's rate, and this one transforms, too.

    Args:
        images: As for `is_possible`.
        filters: The same.
        windows: The same.
        member: 0 for the convolution, 1 for its gradient by images, 2 for that by filters.
    """
    sides = (Sides.by_image if member == 1 else Sides.forward)(images, filters, windows)
    form = sides.form()
    channels, outputs = sides.left[2], sides.out[2]
    wide = _up(outputs, form.panel)
    filters_size = PRODUCTS * channels * wide
    if filters_size * _ITEM > LARGEST_FILTERS:
        return False
    pixels = sides.batch * sides.out[0] * sides.out[1]
    direct = pixels * sides.taps**2 * channels * _up(outputs, form.lanes)
    points = sides.batch * sides.tiles * PRODUCTS
    multiplied = points * channels * wide
    transformed = points * (_up(channels, form.lanes) + wide)
    is_near = filters_size * _ITEM <= NEAR_FILTERS
    cycles = TRANSFORM * transformed + (NEAR_FILTER if is_near else FAR_FILTER) * filters_size
    a_cycle = 2 * form.lanes
    return cycles + multiplied / a_cycle < GAIN * direct / a_cycle


def forward(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
) -> Kernel | None:
    """The kernel of a convolution, called with images, filters and the result.

    Args:
        dtype: See `is_possible`.
        images: [batch, height, width, channels].
        filters: [rows, columns, channels, outputs].
        windows: Over height and width.

    Returns:
        None where there is no kernel.
    """
    if not is_possible(dtype, images, filters, windows):
        return None
    return _bound(Sides.forward(images, filters, windows), is_turned=False)


def input_gradient(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
) -> Kernel | None:
    """The kernel of the gradient by images, called with dy, filters and the result.

    Args:
        dtype: See `is_possible`.
        images: [batch, height, width, channels], the result's shape.
        filters: As in `forward`.
        windows: The convolution's.

    Returns:
        None where there is no kernel.
    """
    if not is_possible(dtype, images, filters, windows):
        return None
    return _bound(Sides.by_image(images, filters, windows), is_turned=True)


def filter_gradient(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
) -> Kernel | None:
    """The kernel of the gradient by filters, called with images, dy and the result.

    Args:
        dtype: See `is_possible`.
        images: [batch, height, width, channels].
        filters: As in `forward`, the result's shape.
        windows: Over height and width.

    Returns:
        None where there is no kernel.
    """
    if not is_possible(dtype, images, filters, windows):
        return None
    sides = Sides.forward(images, filters, windows)
    form, channels, outputs = sides.form(), filters[2], filters[3]
    panels = -(-outputs // form.panel)
    total = sides.batch * sides.tiles
    largest = max(GRADIENT_GROUP, channels * outputs // (channels + outputs))
    group = _up(total, -(-total // largest)) // -(-total // largest)
    height = _up(channels, form.rows)
    pitch = _spread(_up(height, form.lanes))
    planes = {
        Field.LEFT_PITCH: pitch,
        Field.LEFT_PLANE: _spread(group * pitch),
        Field.RIGHT_PLANE: _spread(group * panels * form.panel),
        Field.OUT_PITCH: panels * form.panel,
        Field.OUT_PLANE: _spread(height * panels * form.panel),
        Field.PANELS: panels,
    }
    zeros_size = _up(max(channels, outputs), _LINE)
    sizes = [
        zeros_size,
        *(
            PRODUCTS * planes[each]
            for each in (Field.LEFT_PLANE, Field.RIGHT_PLANE, Field.OUT_PLANE)
        ),
    ]
    given = [math.prod(images), math.prod((*images[:1], *sides.out))]
    steps: list[tuple[_Run, _Run]] = []
    for first in range(0, total, group):
        count = min(group, total - first)
        numbers = {**sides.fields(), **planes, Field.FIRST: first, Field.GROUP: count}
        numbers[Field.ADDS] = int(first > 0)
        take = _body(
            winograd_gradient_ir.tiles_text(form),
            numbers,
            [*given, *[NOT_COUNTED] * 3],
            count,
            sides,
        )
        add = _body(
            winograd_gradient_ir.sums_text(form),
            numbers,
            [NOT_COUNTED] * 3,
            PRODUCTS * panels,
            sides,
        )
        steps.append((take, add))
    finish = _body(
        winograd_gradient_ir.finish_text(form),
        {**sides.fields(), **planes},
        [NOT_COUNTED, math.prod(filters)],
        channels,
        sides,
    )
    bounds = np.cumsum(sizes)

    def kernel(left: Array, right: Array, out: Array) -> bool:
        zeros, lefts, rights, sums = _cut(bounds)
        zeros[:] = 0
        for take, add in steps:
            if not (take(left, right, lefts, rights, zeros) and add(lefts, rights, sums)):
                return False
        return finish(sums, out)

    return kernel


def _bound(sides: Sides, is_turned: bool) -> Kernel:
    """Transforms the filters and then, group by group of tiles, convolves.

    Args:
        sides: What is convolved.
        is_turned: Filters are taken backwards, with channels and outputs exchanged.
    """
    form, channels, outputs = sides.form(), sides.left[2], sides.out[2]
    panels = -(-outputs // form.panel)
    total = sides.batch * sides.tiles
    threads = min(sides.threads, -(-total // form.rows))
    group = _up(min(GROUP, -(-total // threads)), form.rows)
    pitch, out_pitch = _up(channels, form.lanes), panels * form.panel
    plane, out_plane = _spread(group * pitch), _spread(group * out_pitch)
    right_plane = _spread(channels * out_pitch)
    part = _up(pitch + out_pitch + PRODUCTS * (plane + out_plane), _LINE)
    numbers = {
        **sides.fields(),
        Field.FILTER_TAP: channels * outputs,
        Field.FILTER_CHANNEL: 1 if is_turned else outputs,
        Field.FILTER_OUTPUT: channels if is_turned else 1,
        Field.GROUP: group,
        Field.LEFT_PITCH: pitch,
        Field.LEFT_PLANE: plane,
        Field.RIGHT_PLANE: right_plane,
        Field.OUT_PITCH: out_pitch,
        Field.OUT_PLANE: out_plane,
        Field.PART: part,
        Field.PANELS: panels,
    }
    weights = sides.taps**2 * channels * outputs
    text = (winograd_ir.turned_filters_text if is_turned else winograd_ir.filters_text)(form)
    extent = -(-channels // form.lanes) if is_turned else channels
    prepare = _body(text, numbers, [weights, NOT_COUNTED], extent, sides)
    images = sides.batch * math.prod(sides.left)
    counts = [images, NOT_COUNTED, sides.batch * math.prod(sides.out), NOT_COUNTED]
    convolve = _body(winograd_ir.convolution_text(form), numbers, counts, total, sides, threads)
    bounds = np.cumsum([PRODUCTS * right_plane, threads * part])

    def kernel(given: Array, filters: Array, out: Array) -> bool:
        prepared, rest = _cut(bounds)
        return prepare(filters, prepared) and convolve(given, prepared, out, rest)

    return kernel


def _body(
    text: str,
    numbers: Mapping[Field, int],
    counts: Sequence[int],
    extent: int,
    sides: Sides,
    threads: int | None = None,
) -> _Run:
    return native.body(text, is_tidy=True).bind(
        [numbers.get(field, 0) for field in Field],
        counts,
        extent,
        max(min(sides.threads, extent), 1) if threads is None else threads,
        sides.products >= PARALLEL_PRODUCTS,
    )


def _cut(bounds: Array) -> list[Array]:
    """Scratch memory for arrays that end at these elements."""
    memory = scratch.take(int(bounds[-1]) * _ITEM)[: int(bounds[-1]) * _ITEM].view(np.float32)
    return np.split(memory, bounds[:-1])


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _spread(elements: int) -> int:
    """An odd number of cache lines, so that what lies so far apart spreads over a cache."""
    return (-(-elements // _LINE) | 1) * _LINE
