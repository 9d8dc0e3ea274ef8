"""Convolutions and their gradients by minimal filtering, channels last, and when that pays.

Each function here looks at the sizes of one convolution and binds bodies of `winograd_ir` and
`winograd_gradient_ir`; what it gives is called with the arrays, as that of `convolution_kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import host, native, scratch, threads as pools
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.tiles.convolution_geometry import Array, Window
from sparkflow_runtime.codegen.tiles.convolution_kernels import Kernel
from sparkflow_runtime.codegen.tiles.convolution_tasks import PARALLEL_PRODUCTS, tile
from sparkflow_runtime.codegen.winograd import (
    winograd_convolution_ir as convolution_ir,
    winograd_filters_ir as filters_ir,
    winograd_gradient_ir as gradient_ir,
)
from sparkflow_runtime.codegen.winograd.winograd_ir import POINTS, PRODUCTS, Field, Form

GROUP: Final = 48
"""Tiles that are worked on at once: transformed, with their sums, they stay in a cache.

Measured 2026-11-28 on two AVX-512 cores with 1 MB of L2 each: of 24, 48, 96 and 192, for 32 to 256
channels, 24 and 48 are the fastest, within 3 % of each other.
"""
GRADIENT_GROUP: Final = 64
"""The same for a gradient by filters, where sums stay and tiles pass by; 64 to 800 were tried."""
GRADIENT_CHUNK: Final = 64
"""Channels of a gradient by filters whose sums are in the cache at once, if all tiles are."""
FILTERS_AT_ONCE: Final = 4 << 20
"""Bytes of transformed filters that all are there at once; of more, panel by panel."""
CHUNK: Final = 128
"""Channels whose filters are then transformed at once, times a panel: 0.6 MB."""
TILES_AT_ONCE: Final = 8 << 20
"""Bytes of tiles that are then there at once."""
PANEL_GROUP: Final = 64
"""The least such tiles, for which filters are transformed once more."""
SIDES_AT_ONCE: Final = 64 << 20
"""Bytes of both transformed sides of a gradient by filters."""
LARGEST_SUMS: Final = 40 << 20
"""Bytes of its sums, where they are read and written by several groups of tiles."""
NEAR_SUMS: Final = 16 << 20
"""Bytes of them that do not go to memory and back."""
TRANSFORM: Final = 0.45
"""Cycles per element of transformed tiles and of their sums.

This and the next were fitted on 2026-11-28 (two AVX-512 cores) to 30 layers of 3 to 1024 channels;
with them `pays` says no to a gain in a few, and yes to a loss in none.
"""
TRANSFORM_FILTER: Final = 0.5
"""The same per element of transformed filters, or of a gradient's sums."""
FAR_SUM: Final = 2.0
"""The same per element of sums that do go to memory and back."""
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
    def total(self) -> int:
        """Tiles of all images."""
        return self.batch * self.tiles

    @property
    def products(self) -> int:
        """Multiplications of the matrices' products."""
        return self.total * PRODUCTS * self.left[2] * self.out[2]

    @property
    def threads(self) -> int:
        """In how many parts it is done, at most."""
        return pools.count() if self.products >= PARALLEL_PRODUCTS else 1

    def form(self) -> Form:
        """What fits the registers of this processor."""
        rows, vectors = tile()
        if vectors > 2:  # on ARM: of 6 × 4 sums, and what they need, some would be in memory
            rows, vectors = 8, 2
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
    form, channels, outputs = sides.form(), sides.left[2], sides.out[2]
    wide = _up(outputs, form.panel)
    prepared = PRODUCTS * channels * wide
    a_filter, tiles = TRANSFORM_FILTER, sides.total
    if member == 2:
        if sides.total > _most_at_once(sides) and prepared * _ITEM > NEAR_SUMS:
            if prepared * _ITEM > LARGEST_SUMS:
                return False
            a_filter = FAR_SUM
    else:
        tiles = _up(tiles, form.rows)
    pixels = sides.batch * sides.out[0] * sides.out[1]
    direct = pixels * sides.taps**2 * channels * _up(outputs, form.lanes)
    multiplied = tiles * PRODUCTS * channels * wide
    transformed = tiles * PRODUCTS * (_up(channels, form.lanes) + wide)
    a_cycle = 2 * form.lanes
    cycles = TRANSFORM * transformed + a_filter * prepared + multiplied / a_cycle
    return cycles < GAIN * direct / a_cycle


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
    total = sides.total
    groups = -(-total // _most_at_once(sides))
    group = -(-total // groups)
    height = _up(channels, form.rows)
    pitch = _spread(_up(height, form.lanes))
    numbers = {
        **sides.fields(),
        Field.LEFT_PITCH: pitch,
        Field.LEFT_PLANE: _spread(group * pitch),
        Field.RIGHT_PLANE: _spread(group * panels * form.panel),
        Field.PANELS: panels,
    }
    lefts = PRODUCTS * numbers[Field.LEFT_PLANE]
    rights = PRODUCTS * numbers[Field.RIGHT_PLANE]
    given = [math.prod(images), math.prod((*images[:1], *sides.out)), *[NOT_COUNTED] * 3]
    takes = []
    for first in range(0, total, group):
        count = min(group, total - first)
        now = {**numbers, Field.FIRST: first, Field.GROUP: count}
        takes.append((_body((gradient_ir.tiles_text, (form,)), now, given, count, sides), now))
    zeros = _up(max(channels, outputs), _LINE)
    result = math.prod(filters)
    if groups == 1:
        return _gradient_by_panels(sides, takes[0], (zeros, lefts, rights), result)
    numbers[Field.OUT_PITCH] = panels * form.panel
    numbers[Field.OUT_PLANE] = _spread(height * panels * form.panel)
    steps = []
    for number, (take, now) in enumerate(takes):
        now = {**numbers, **now, Field.ADDS: int(number > 0)}
        text, extent = (gradient_ir.sums_text, (form,)), PRODUCTS * panels
        steps.append((take, _body(text, now, [NOT_COUNTED] * 3, extent, sides)))
    counts = [NOT_COUNTED, result]
    finish = _body((gradient_ir.finish_text, (form,)), numbers, counts, channels, sides)
    parts = _Parts(zeros, lefts, rights, PRODUCTS * numbers[Field.OUT_PLANE])

    def kernel(left: Array, right: Array, out: Array) -> bool:
        zeros, lefts, rights, sums = parts.take()
        zeros[:] = 0
        for take, add in steps:
            if not (take(left, right, lefts, rights, zeros) and add(lefts, rights, sums)):
                return False
        return finish(sums, out)

    return kernel


def _most_at_once(sides: Sides) -> int:
    """Tiles of a gradient by filters that are worked on at once, at most.

    With more of them sums are read and written less often, and sides do not stay in a cache.
    """
    channels, outputs = sides.left[2], sides.out[2]
    fitting = SIDES_AT_ONCE // (PRODUCTS * (channels + outputs) * _ITEM)
    return max(GRADIENT_GROUP, min(channels * outputs // (channels + outputs), fitting))


def _gradient_by_panels(
    sides: Sides, taking: tuple[_Run, Mapping[Field, int]], sizes: tuple[int, ...], result: int
) -> Kernel:
    """The gradient by filters where all tiles are one group.

    Args:
        sides: What was convolved.
        taking: What transforms the tiles, and the numbers for it.
        sizes: Elements of zeros and of both transformed sides.
        result: Elements of the result.
    """
    form = sides.form()
    take, numbers = taking
    chunk = _up(GRADIENT_CHUNK, form.rows)
    plane = _spread(chunk * form.panel)
    more = {
        Field.CHUNK: chunk,
        Field.OUT_PITCH: form.panel,
        Field.OUT_PLANE: plane,
        Field.PART: PRODUCTS * plane,
    }
    panels = numbers[Field.PANELS]
    threads = min(sides.threads, panels)
    counts = [NOT_COUNTED, NOT_COUNTED, result, NOT_COUNTED]
    text = (gradient_ir.panels_text, (form,))
    give = _body(text, {**numbers, **more}, counts, panels, sides, threads)
    parts = _Parts(*sizes, threads * PRODUCTS * plane)

    def kernel(left: Array, right: Array, out: Array) -> bool:
        zeros, lefts, rights, sums = parts.take()
        zeros[:] = 0
        return take(left, right, lefts, rights, zeros) and give(lefts, rights, out, sums)

    return kernel


def _bound(sides: Sides, is_turned: bool) -> Kernel:
    """The kernel of a convolution, called with the left side, filters and the result.

    Args:
        sides: What is convolved.
        is_turned: Filters are taken backwards, with channels and outputs exchanged.
    """
    form, channels, outputs = sides.form(), sides.left[2], sides.out[2]
    panels = -(-outputs // form.panel)
    numbers = {
        **sides.fields(),
        Field.FILTER_TAP: channels * outputs,
        Field.FILTER_CHANNEL: 1 if is_turned else outputs,
        Field.FILTER_OUTPUT: channels if is_turned else 1,
        Field.LEFT_PITCH: _up(channels, form.lanes),
        Field.PANELS: panels,
    }
    if PRODUCTS * channels * panels * form.panel * _ITEM > FILTERS_AT_ONCE:
        return _by_panels(sides, numbers, is_turned)
    total = sides.total
    threads = min(sides.threads, -(-total // form.rows))
    group = _up(min(GROUP, -(-total // threads)), form.rows)
    pitch, out_pitch = numbers[Field.LEFT_PITCH], panels * form.panel
    plane, out_plane = _spread(group * pitch), _spread(group * out_pitch)
    right_plane = _spread(channels * out_pitch)
    part = _up(pitch + out_pitch + PRODUCTS * (plane + out_plane), _LINE)
    numbers |= {
        Field.GROUP: group,
        Field.LEFT_PLANE: plane,
        Field.RIGHT_PLANE: right_plane,
        Field.OUT_PITCH: out_pitch,
        Field.OUT_PLANE: out_plane,
        Field.PART: part,
    }
    counts = [sides.taps**2 * channels * outputs, NOT_COUNTED]
    extent = -(-channels // form.lanes)
    prepare = _body((filters_ir.filters_text, (form, is_turned)), numbers, counts, extent, sides)
    counts = [_elements(sides, sides.left), NOT_COUNTED, _elements(sides, sides.out), NOT_COUNTED]
    text = (convolution_ir.convolution_text, (form,))
    convolve = _body(text, numbers, counts, total, sides, threads)
    parts = _Parts(PRODUCTS * right_plane, threads * part)

    def kernel(given: Array, filters: Array, out: Array) -> bool:
        prepared, rest = parts.take()
        return prepare(filters, prepared) and convolve(given, prepared, out, rest)

    return kernel


def _by_panels(sides: Sides, common: Mapping[Field, int], is_turned: bool) -> Kernel:
    """The same where transformed filters would not stay in a cache."""
    form, channels, outputs = sides.form(), sides.left[2], sides.out[2]
    panels, pitch = common[Field.PANELS], common[Field.LEFT_PITCH]
    total = sides.total
    largest = max(TILES_AT_ONCE // (PRODUCTS * pitch * _ITEM), PANEL_GROUP)
    groups = -(-total // largest)
    group = -(-total // groups)
    high = _up(group, form.rows)
    threads = min(sides.threads, panels)
    planes = {
        Field.CHUNK: CHUNK,
        Field.LEFT_PLANE: _spread(high * pitch),
        Field.RIGHT_PLANE: _spread(CHUNK * form.panel),
        Field.OUT_PITCH: form.panel,
        Field.OUT_PLANE: _spread(high * form.panel),
    }
    aside = panels * form.panel
    part = aside + PRODUCTS * (planes[Field.RIGHT_PLANE] + planes[Field.OUT_PLANE])
    planes[Field.PART] = part = _up(part, _LINE)
    weights = sides.taps**2 * channels * outputs
    steps = []
    for first in range(0, total, group):
        count = min(group, total - first)
        numbers = {**common, **planes, Field.FIRST: first, Field.GROUP: count}
        counts = [_elements(sides, sides.left), NOT_COUNTED, NOT_COUNTED]
        text, extent = (convolution_ir.tiles_text, (form,)), _up(count, form.rows)
        take = _body(text, numbers, counts, extent, sides)
        counts = [NOT_COUNTED, weights, _elements(sides, sides.out), NOT_COUNTED]
        panels_text = (convolution_ir.panels_text, (form, is_turned))
        steps.append((take, _body(panels_text, numbers, counts, panels, sides, threads)))
    parts = _Parts(pitch, PRODUCTS * planes[Field.LEFT_PLANE], threads * part)

    def kernel(given: Array, filters: Array, out: Array) -> bool:
        zeros, tiles, rest = parts.take()
        zeros[:] = 0
        return all(
            take(given, tiles, zeros) and multiply(tiles, filters, out, rest)
            for take, multiply in steps
        )

    return kernel


def _body(
    text: tuple[Callable[..., str], tuple[Hashable, ...]],
    numbers: Mapping[Field, int],
    counts: Sequence[int],
    extent: int,
    sides: Sides,
    threads: int | None = None,
) -> _Run:
    return native.written_body(*text, is_tidy=True).bind(
        [numbers.get(field, 0) for field in Field],
        counts,
        extent,
        max(min(sides.threads, extent), 1) if threads is None else threads,
        sides.products >= PARALLEL_PRODUCTS,
    )


class _Parts:
    """Scratch memory for several arrays.

    Args:
        sizes: Their elements.
    """

    def __init__(self, *sizes: int) -> None:
        self._ends = [0]
        for size in sizes:
            self._ends.append(self._ends[-1] + _up(size, _LINE))

    def take(self) -> list[Array]:
        """The arrays; their contents last until scratch memory is next taken."""
        size_bytes = self._ends[-1] * _ITEM
        memory = scratch.take(size_bytes)[:size_bytes].view(np.float32)
        return [memory[start:stop] for start, stop in pairwise(self._ends)]


def _elements(sides: Sides, shape: tuple[int, int, int]) -> int:
    return sides.batch * math.prod(shape)


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _spread(elements: int) -> int:
    """An odd number of cache lines, so that what lies so far apart spreads over a cache."""
    return (-(-elements // _LINE) | 1) * _LINE
