"""Winograd convolutions and their gradients, channels last, and when they pay off.

Each function here binds bodies of `winograd_ir` and `winograd_gradient_ir` to the sizes of one
convolution; the result is called with the arrays, as in `convolution_kernels`.
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
"""Tiles per group: transformed, together with their sums, they stay in cache.

Measured 2026-11-28 on two AVX-512 cores with 1 MB of L2 each: of 24, 48, 96 and 192, for 32 to 256
channels, 24 and 48 are the fastest, within 3 % of each other.
"""
GRADIENT_GROUP: Final = 64
"""The same for a filter gradient, where sums stay and tiles stream; 64 to 800 were tried."""
GRADIENT_CHUNK: Final = 64
"""Channels of a filter gradient whose sums are in cache at once, if all tiles are."""
FILTERS_AT_ONCE: Final = 4 << 20
"""Maximum bytes of transformed filters kept at once; larger ones are processed by panels."""
CHUNK: Final = 128
"""Channels per chunk whose filters are then transformed, times a panel: 0.6 MB."""
TILES_AT_ONCE: Final = 8 << 20
"""Maximum bytes of tiles that are then kept at once."""
PANEL_GROUP: Final = 64
"""Minimum number of such tiles, each group of which transforms the filters again."""
SIDES_AT_ONCE: Final = 64 << 20
"""Maximum bytes of both transformed sides of a filter gradient."""
LARGEST_SUMS: Final = 40 << 20
"""Maximum bytes of its sums, if several groups of tiles read and write them."""
NEAR_SUMS: Final = 16 << 20
"""Maximum bytes of sums that stay in cache."""
TRANSFORM: Final = 0.45
"""Cycles per element of transformed tiles and of their sums.

This and the next were fitted on 2026-11-28 (two AVX-512 cores) to 30 layers of 3 to 1024 channels;
with them, `pays` misses a gain for a few layers, and accepts a loss for none.
"""
TRANSFORM_FILTER: Final = 0.5
"""The same per element of transformed filters, or of a gradient's sums."""
FAR_SUM: Final = 2.0
"""The same per element of sums that go to memory and back."""
GAIN: Final = 0.85
"""Maximum fraction of the direct method's time."""
FEWEST_TAPS: Final = 3
"""Minimum taps: 2 × 2 filters would be 1.7 times as fast, with 3 to 4 times the error."""
_ITEM: Final = 4
_LINE: Final = scratch.ALIGNMENT // _ITEM

_Run = Callable[..., bool]


@dataclass(frozen=True, slots=True)
class Sides:
    """The operands of a convolution: a left side of tiles, filters, and outputs.

    Attributes:
        batch: Number of images.
        left: Height, width and channels of the left side.
        before: Zeros above and to the left of it.
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
        """Returns the operands of a convolution of [batch, height, width, channels]."""
        batch, height, width, channels = images
        rows, columns = windows
        out = rows.count, columns.count, filters[3]
        before = rows.before, columns.before
        return cls(batch, (height, width, channels), before, out, filters[0])

    @classmethod
    def by_image(
        cls, images: Sequence[int], filters: Sequence[int], windows: Sequence[Window]
    ) -> Sides:
        """Returns the operands of the input gradient: dy is convolved with the mirrored filters."""
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
        """Tiles per row of tiles."""
        return -(-self.out[1] // self.tile)

    @property
    def tiles(self) -> int:
        """Tiles per image."""
        return -(-self.out[0] // self.tile) * self.tile_columns

    @property
    def total(self) -> int:
        """Tiles of all images."""
        return self.batch * self.tiles

    @property
    def products(self) -> int:
        """Multiplications of the matrix products."""
        return self.total * PRODUCTS * self.left[2] * self.out[2]

    @property
    def threads(self) -> int:
        """Maximum number of parts."""
        return pools.count() if self.products >= PARALLEL_PRODUCTS else 1

    def form(self) -> Form:
        """Returns the form that fits the registers of this processor."""
        rows, vectors = tile()
        if vectors > 2:  # on ARM: 6 × 4 accumulators and their operands would spill
            rows, vectors = 8, 2
        lanes = host.host().vector_bytes // _ITEM
        channels, outputs = self.left[2], self.out[2]
        vectors = min(vectors, -(-outputs // lanes))
        return Form(self.taps, lanes, rows, vectors, channels % lanes > 0, outputs % lanes > 0)

    def fields(self) -> dict[Field, int]:
        """Returns the fields for the layout of pixels and for the outputs."""
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
    """Whether the kernels apply: float32, square filters of 3 to 5, strides of 1.

    Args:
        dtype: The dtype of the arrays.
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
    """Whether it is faster than the direct convolution, if it is possible.

    A cost model in cycles: both multiply at the processor's rate, and this one also transforms.

    Args:
        images: As for `is_possible`.
        filters: As for `is_possible`.
        windows: As for `is_possible`.
        member: 0 for the convolution, 1 for the input gradient, 2 for the filter gradient.
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
    """Returns the kernel of a convolution, called with images, filters and the result.

    Args:
        dtype: See `is_possible`.
        images: [batch, height, width, channels].
        filters: [rows, columns, channels, outputs].
        windows: Over height and width.

    Returns:
        None if there is no kernel.
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
    """Returns the kernel of the input gradient, called with dy, filters and the result.

    Args:
        dtype: See `is_possible`.
        images: [batch, height, width, channels], the result's shape.
        filters: As in `forward`.
        windows: The convolution's windows.

    Returns:
        None if there is no kernel.
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
    """Returns the kernel of the filter gradient, called with images, dy and the result.

    Args:
        dtype: See `is_possible`.
        images: [batch, height, width, channels].
        filters: As in `forward`, the result's shape.
        windows: Over height and width.

    Returns:
        None if there is no kernel.
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
    """Maximum tiles per group of a filter gradient.

    With more, sums are read and written less often, but the sides do not stay in cache.
    """
    channels, outputs = sides.left[2], sides.out[2]
    fitting = SIDES_AT_ONCE // (PRODUCTS * (channels + outputs) * _ITEM)
    return max(GRADIENT_GROUP, min(channels * outputs // (channels + outputs), fitting))


def _gradient_by_panels(
    sides: Sides, taking: tuple[_Run, Mapping[Field, int]], sizes: tuple[int, ...], result: int
) -> Kernel:
    """Returns the kernel of the filter gradient if all tiles form one group.

    Args:
        sides: The operands of the convolution.
        taking: The body that transforms the tiles, and its numbers.
        sizes: Numbers of elements of the zeros and of both transformed sides.
        result: Number of elements of the result.
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
    """Returns the kernel of a convolution, called with the left side, filters and the result.

    Args:
        sides: The operands.
        is_turned: Whether filters are mirrored, with channels and outputs swapped.
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
    """As `_bound`, for transformed filters that would not stay in cache."""
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
    """Allocates scratch memory for several arrays.

    Args:
        sizes: Their numbers of elements.
    """

    def __init__(self, *sizes: int) -> None:
        self._ends = [0]
        for size in sizes:
            self._ends.append(self._ends[-1] + _up(size, _LINE))

    def take(self) -> list[Array]:
        """Returns the arrays; their contents last until scratch memory is next taken."""
        size_bytes = self._ends[-1] * _ITEM
        memory = scratch.take(size_bytes)[:size_bytes].view(np.float32)
        return [memory[start:stop] for start, stop in pairwise(self._ends)]


def _elements(sides: Sides, shape: tuple[int, int, int]) -> int:
    return sides.batch * math.prod(shape)


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _spread(elements: int) -> int:
    """Rounds up to an odd number of cache lines, to spread accesses over cache sets."""
    return (-(-elements // _LINE) | 1) * _LINE
