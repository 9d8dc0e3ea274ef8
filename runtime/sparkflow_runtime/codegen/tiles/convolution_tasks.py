"""Maps the sizes of a convolution to the tile and the numbers of a body of `contraction_ir`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import host, native, scratch, threads as pools
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.tiles import contraction_ir
from sparkflow_runtime.codegen.tiles.contraction_ir import Field, Form
from sparkflow_runtime.codegen.tiles.convolution_geometry import Images, Places

ELEMENTS: Final = {"f": "float", "d": "double"}
"""LLVM's names of the supported dtypes, by numpy's characters."""
CACHE_BYTES: Final = 256 << 10
"""Size of a working set that should stay in one core's cache, with room for as much again."""
GROUP_ROWS: Final = 192
"""Small images are grouped up to this many windows, so that few tiles are partial."""
CHUNK_PLACES: Final = 192
"""Windows over which the filter gradient sums before moving to the next filter positions."""
WRITTEN_OUT: Final = 32
"""Loops of up to this many iterations are unrolled."""
FAR_BYTES: Final = 8 << 20
"""Results from this size on are not in cache when they are written.

Measured 2026-11-29 (one AVX-512 core, 3×3×3 filters over 56×56 pixels of 3 channels, 64 outputs):
4.8 against 6.2 ms for 13 MB of results fetched ahead, 1.02 against 1.00 ms for 3 MB.
"""
PARALLEL_PRODUCTS: Final = 1_000_000
"""Multiplications from which several threads pay off; a hand-over takes microseconds."""


def tile() -> tuple[int, int]:
    """Rows and vectors of a tile: accumulators, a row of factors and one more fill the registers.

    With 32 registers, fewer rows than would fit: every row also needs an address.
    """
    here = host.host()
    if here.vector_bytes == 64:
        return 8, 2
    return (6, 4) if here.triple.startswith(("aarch64", "arm64")) else (6, 2)


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a body.

    Attributes:
        dtype: The dtype of the arrays.
        form: The body's form.
        fields: The numbers for it; missing ones are 0.
        planes: Planes of windows of all volumes.
        windows: Windows per plane.
        products: Multiplications in total.
    """

    dtype: np.dtype[Any]
    form: Form
    fields: Mapping[Field, int]
    planes: int
    windows: int
    products: int

    @property
    def threads(self) -> int:
        """The number of parts it is split into."""
        is_large = self.products >= PARALLEL_PRODUCTS
        return max(min(pools.count(), self.planes), 1) if is_large else 1

    def bind(self, counts: tuple[int, int, int]) -> tuple[Callable[..., bool], int]:
        """Binds the body for the element counts of left, right and out.

        Returns:
            The callable, and the elements of scratch memory that it needs.
        """
        threads = self.threads
        image = self.fields[Field.PADDED_IMAGE]
        group = self._group()
        # Rounded up so that the panel behind it is aligned, too.
        aligned = scratch.ALIGNMENT // self.dtype.itemsize
        copied = self._seen(group) * image
        part = -(-copied // aligned) * aligned if self.fields[Field.IS_PADDED] else 0
        whole = part
        if self.form.packs:
            places = group * self.fields[Field.CHUNK] * self.fields[Field.DEPTH_2]
            whole = part + places * self.form.panel
        fields = {
            **self.fields,
            Field.GROUP: group,
            Field.PADDED_PART: part,
            Field.PART: whole,
        }
        form = replace(self.form, fixed=_fixed(self.form, fields))
        run = native.written_body(contraction_ir.text, (form,), is_tidy=True).bind(
            [fields.get(field, 0) for field in Field],
            [*counts, NOT_COUNTED],
            self.planes,
            threads,
            self.products >= PARALLEL_PRODUCTS,
        )
        return run, threads * whole

    def _seen(self, windows: int) -> int:
        """The number of planes of images that some consecutive planes of windows see."""
        fields = self.fields
        return (windows - 1) * fields[Field.PLANES_STEP] + fields[Field.PLANES_SEEN]

    def _group(self) -> int:
        """Returns the planes of windows per group."""
        step, seen = self.fields[Field.PLANES_STEP], self.fields[Field.PLANES_SEEN]
        overlaps = seen > step
        # Each group reads and writes all sums of a filter gradient, or copies again the planes
        # that the one before it saw: it may exceed the cache.
        limit = CACHE_BYTES if self.form.by_image and not overlaps else 4 * CACHE_BYTES
        fitting = limit // max(self.fields[Field.PADDED_IMAGE] * self.dtype.itemsize, 1)
        few = -(-GROUP_ROWS // max(self.windows, 1)) if self.windows < GROUP_ROWS // 2 else 1
        return min(
            max(self.planes, 1) if overlaps else few,
            max((fitting - seen) // step + 1, 1),
            max(-(-self.planes // self.threads), 1),
            self.fields[Field.PLANES],
        )


def _fixed(form: Form, fields: Mapping[Field, int]) -> tuple[tuple[Field, int], ...]:
    """Returns the numbers to bake into the code, so that short loops are unrolled."""
    if not 0 < fields[Field.DEPTH_2] <= WRITTEN_OUT:
        return ()
    chosen = [Field.DEPTH_2]
    if not (form.by_image and form.broadcast):
        chosen.append(Field.LEFT_DEPTH_2)
    if not form.broadcast:
        chosen.append(Field.RIGHT_DEPTH_2)
    steps = fields[Field.DEPTH_1] * fields[Field.DEPTH_2]
    # LLVM reorders the steps of several lines so that wide tiles do not stay in registers: 0.44
    # against 0.62 ms for 32 images of 28×28×3 and 32 filters of 3×3, on one AVX-512 core.
    is_wide = fields[Field.DEPTH_1] > 1 and (form.whole or form.rest > 1)
    if form.by_image and 0 < steps <= (WRITTEN_OUT // 2 if is_wide else WRITTEN_OUT):
        chosen.append(Field.DEPTH_1)
    return tuple((field, fields[field]) for field in chosen)


def _form(
    dtype: np.dtype[Any], depthwise: bool, by_image: bool, rows: int | None, columns: int
) -> Form:
    """Returns the tile that fits the registers of this processor.

    Args:
        dtype: The dtype of the arrays.
        depthwise: Whether columns are the channels of both sides.
        by_image: See `Form`.
        rows: Number of rows that tiles have to divide; None if it does not matter.
        columns: Total number of columns.
    """
    height, vectors = tile()
    if rows is not None and rows < 8 * height:
        # Adjust the rows per tile, so that the last tile is not half empty.
        height = min(range(height, height // 2, -1), key=lambda each: -(-rows // each) * each)
    lanes = host.host().vector_bytes // dtype.itemsize
    panels, rest = divmod(columns, vectors * lanes)
    element = ELEMENTS[dtype.char]
    broadcast = not depthwise
    return Form(element, lanes, height, vectors, broadcast, by_image, panels > 0, -(-rest // lanes))


def by_image_task(
    dtype: np.dtype[Any],
    volumes: int,
    images: Images,
    columns: int,
    out: Places,
    depthwise: bool,
) -> Task:
    """Returns the task whose rows are windows.

    If lines of windows are no runs, these may not see several planes.
    """
    # Planes whose windows reach out of a volume are computed one by one.
    alone = images.windows if images.planes.taps > 1 else None
    form = _form(dtype, depthwise, by_image=True, rows=alone, columns=columns)
    rows, across, channels = images.rows, images.columns, images.channels
    planes, image = images.planes, images.image
    if depthwise:
        depth = (1, rows.taps, across.taps)
        left = (planes.tap * image, rows.tap * images.line, across.tap * channels)
        right = (rows.taps * across.taps * channels, across.taps * channels, channels)
        panel = form.panel
    else:
        if images.is_run:
            depth = (1, rows.taps, across.taps * channels)
            left = (planes.tap * image, rows.tap * images.line, 1)
        else:
            depth = (rows.taps, across.taps, channels)
            left = (rows.tap * images.line, across.tap * channels, 1)
        right = (depth[1] * depth[2] * form.panel, depth[2] * form.panel, form.panel)
        panel = planes.taps * math.prod(depth) * form.panel
    steps = (planes.step * image, rows.step * images.line, across.step * channels)
    walked = (1, rows.count, across.count)
    window_bytes = max(across.step * rows.step * channels, 1) * dtype.itemsize
    block = max(CACHE_BYTES // window_bytes // form.rows, 1) * form.rows
    fields = {
        **images.fields(),
        **_rows(walked, steps, out.steps),
        **_depth(depth, left, right),
        **_lines(images, depthwise),
        Field.OUT_VOLUME: out.volume,
        Field.OUT_IMAGE: out.steps[0],
        Field.OUT_ORIGIN: out.origin,
        Field.BLOCK: block,
        Field.COLUMNS: columns,
        Field.RIGHT_PANEL: panel,
        Field.RIGHT_TAP: depth[0] * right[0],
    }
    total, taps = volumes * planes.count, planes.taps * math.prod(depth)
    products = total * images.windows * taps * (1 if depthwise else columns)
    is_far = volumes * out.volume * dtype.itemsize >= FAR_BYTES
    form = replace(form, is_far=is_far)
    return Task(dtype, form, fields, total, images.windows, products)


def by_filter_task(
    dtype: np.dtype[Any], volumes: int, images: Images, columns: int, depthwise: bool
) -> Task:
    """Returns the task whose rows are filter positions; see `by_image_task`."""
    rows, across, channels = images.rows, images.columns, images.channels
    planes, image = images.planes, images.image
    if depthwise:
        walked = (1, rows.taps, across.taps)
        left = (planes.tap * image, rows.tap * images.line, across.tap * images.pitch)
        out = (rows.taps * across.taps * channels, across.taps * channels, channels)
    elif images.is_run:
        walked = (1, rows.taps, across.taps * channels)
        left = (planes.tap * image, rows.tap * images.line, 1)
        out = (rows.taps * walked[2] * columns, walked[2] * columns, columns)
    else:
        walked = (rows.taps, across.taps, channels)
        left = (rows.tap * images.line, across.tap * images.pitch, 1)
        out = (across.taps * channels * columns, channels * columns, columns)
    walked_rows = planes.taps * math.prod(walked)
    form = _form(dtype, depthwise, by_image=False, rows=walked_rows, columns=columns)
    depth_left = (planes.step * image, rows.step * images.line, across.step * images.pitch)
    depth_right = (images.windows * columns, across.count * columns, columns)
    fields = {
        **images.fields(),
        **_rows(walked, left, out),
        **_depth((0, rows.count, across.count), depth_left, depth_right),
        Field.RIGHT_IMAGE: images.windows * columns,
        Field.OUT_PART: walked_rows * columns,
        Field.OUT_TAP: walked[0] * out[0],
        Field.BLOCK: walked_rows,
        Field.COLUMNS: columns,
        Field.RIGHT_PANEL: form.panel,
        Field.CHUNK: max(CHUNK_PLACES // max(across.count, 1), 1),
    }
    total = volumes * planes.count
    products = total * images.windows * walked_rows * (1 if depthwise else columns)
    return Task(dtype, form, fields, total, images.windows, products)


def _lines(images: Images, depthwise: bool) -> dict[Field, int]:
    """Returns the fields that say where lines of windows are outside the image."""
    rows = images.rows
    if rows.tap > 1 or not (depthwise or images.is_run):
        return {Field.LINES_END: max(rows.taps, images.columns.taps)}
    before = rows.before - rows.origin
    return {
        Field.LINES_BEFORE: before,
        Field.LINES_END: before + rows.dim,
        Field.LINES_STEP: rows.step,
    }


_Three = tuple[int, int, int]


def _rows(counts: _Three, left: _Three, out: _Three) -> dict[Field, int]:
    """Returns the loops over rows, with their strides in the left side and in the result."""

    def wraps(steps: _Three) -> tuple[int, int]:
        inner = steps[1] - (counts[2] - 1) * steps[2]
        return inner, steps[0] - (counts[1] - 1) * steps[1] - (counts[2] - 1) * steps[2]

    return {
        Field.ROWS_0: counts[0],
        Field.ROWS_1: counts[1],
        Field.ROWS_2: counts[2],
        Field.LEFT_STEP: left[2],
        Field.LEFT_WRAP_1: wraps(left)[0],
        Field.LEFT_WRAP_0: wraps(left)[1],
        Field.OUT_STEP: out[2],
        Field.OUT_WRAP_1: wraps(out)[0],
        Field.OUT_WRAP_0: wraps(out)[1],
    }


def _depth(counts: _Three, left: _Three, right: _Three) -> dict[Field, int]:
    """Returns the loops over the depth, with their strides in both sides."""
    names = ("DEPTH", "LEFT_DEPTH", "RIGHT_DEPTH")
    return {
        Field[f"{name}_{i}"]: values[i]
        for name, values in zip(names, (counts, left, right), strict=True)
        for i in range(3)
    }
