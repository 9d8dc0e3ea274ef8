"""Resizing of images and its gradients in machine code, for images of one shape.

Rows and columns of the result are weighted sums of taps, see `resampling_ir`; or copies of single
ones of the image (`bind_choice`), for elements of any type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.images.resampling_ir import Field, Form, text
from sparkflow_runtime.codegen.machine import host, native, scratch, threads as pools
from sparkflow_runtime.codegen.machine.llvm_text import Code
from sparkflow_runtime.codegen.tiles.convolution_tasks import ELEMENTS
from sparkflow_runtime.codegen.tiles.tile import PARALLEL_ELEMENTS

Array = np.ndarray[Any, Any]
_FIXED_TAPS: Final = 4
"""Loops over up to this many taps are unrolled, if all results have the same number."""
_LONG_ELEMENTS: Final = 4096
"""Larger inputs are processed without holding the GIL."""
_MOST_PIXEL_BYTES: Final = 256
"""Larger pixels share one copying kernel."""


@dataclass(frozen=True, slots=True)
class Taps:
    """The taps of each row (or column) of a result.

    Attributes:
        starts: [results + 1] int64: the first tap of each.
        sources: [taps] int64: the image row of each tap.
        weights: [taps] float32 or float64: the weight of each tap.
        size: Number of rows of the image.
    """

    starts: Array
    sources: Array
    weights: Array
    size: int

    @property
    def count(self) -> int:
        """Number of results."""
        return len(self.starts) - 1

    @property
    def each(self) -> int:
        """The common number of taps per result; 0 if it differs between results."""
        counts = np.diff(self.starts)
        return int(counts[0]) if len(counts) and (counts == counts[0]).all() else 0

    def matrix(self) -> Array:
        """Returns the taps as a dense matrix [results, size], float32."""
        matrix = np.zeros((self.count, self.size))
        results = np.repeat(np.arange(self.count), np.diff(self.starts))
        np.add.at(matrix, (results, self.sources), self.weights)
        return matrix.astype(np.float32)

    def transposed(self) -> Taps:
        """Returns the taps of the gradient: from results to the image."""
        order = np.argsort(self.sources, kind="stable")
        results = np.repeat(np.arange(self.count), np.diff(self.starts))
        starts = np.searchsorted(self.sources[order], np.arange(self.size + 1))
        return Taps(starts, results[order], self.weights[order], self.count)


def bind_sums(
    dtype: np.dtype[Any], batch: int, channels: int, rows: Taps, columns: Taps
) -> Callable[[Array, Array], bool] | None:
    """Binds the kernel that resizes images [batch, height, width, channels] by weighted sums.

    Args:
        dtype: The dtype of both: float32 or float64.
        batch: Number of images.
        channels: Channels per pixel.
        rows: The taps of the result's rows.
        columns: The taps of the result's columns.

    Returns:
        A function that returns False, without doing anything, if an array does not fit; None if
        there is no kernel.
    """
    if not native.available() or dtype.char not in ELEMENTS or not dtype.isnative:
        return None
    if min(batch, channels, rows.count, columns.count, rows.size, columns.size) < 1:
        return None
    fixed = [each if each <= _FIXED_TAPS else 0 for each in (rows.each, columns.each)]
    lanes = host.host().vector_bytes // dtype.itemsize
    form = Form(ELEMENTS[dtype.char], lanes, channels, *fixed)
    line = columns.size * channels
    numbers = {
        Field.HEIGHT: rows.size,
        Field.LINE: line,
        Field.ROW_COUNT: rows.count,
        Field.COLUMN_COUNT: columns.count,
    }
    tables = [
        np.ascontiguousarray(each, kind)
        for taps in (rows, columns)
        for each, kind in ((taps.starts, "i8"), (taps.sources, "i8"), (taps.weights, dtype))
    ]
    whole, made = batch * rows.size * line, batch * rows.count * columns.count * channels
    units = batch * rows.count
    threads = min(pools.count(), units) if whole + made >= PARALLEL_ELEMENTS else 1
    # A cache line between the lines of two threads.
    held = threads * line
    counts = [whole, *(each.size for each in tables), held, made]
    kernel = native.written_body(text, (form,), is_tidy=True).bind(
        [numbers[field] for field in Field], counts, units, threads, made >= _LONG_ELEMENTS
    )
    size_bytes = held * dtype.itemsize

    def fill(images: Array, result: Array) -> bool:
        lines = scratch.take(size_bytes)[:size_bytes].view(dtype)
        return kernel(images, *tables, lines, result)

    return fill


def bind_choice(
    dtype: np.dtype[Any], images: Sequence[int], rows: Array, columns: Array
) -> Callable[[Array, Array], bool] | None:
    """Binds the kernel that computes `images[:, rows[:, None], columns[None, :]]`.

    Args:
        dtype: The dtype of both, without objects.
        images: [batch, height, width, channels].
        rows: [result's height] int64: rows of the image.
        columns: [result's width] int64: columns of the image.

    Returns:
        As `bind_sums`.
    """
    if not native.available() or dtype.hasobject:
        return None
    batch, height, width, channels = images
    pixel_bytes = channels * dtype.itemsize
    units = batch * len(rows)
    if not units or not pixel_bytes or not len(columns) or not height * width:
        return None
    made = units * len(columns) * channels
    threads = min(pools.count(), units) if made >= PARALLEL_ELEMENTS else 1
    known = pixel_bytes if pixel_bytes <= _MOST_PIXEL_BYTES else 0
    body = native.written_body(_choice_text, (known,))
    places = np.ascontiguousarray(columns, np.int64) * pixel_bytes
    rows = np.ascontiguousarray(rows, np.int64)
    sizes = [height, width * pixel_bytes, len(rows), len(columns), pixel_bytes]
    counts = [math.prod(images), rows.size, places.size, made]
    kernel = body.bind(sizes, counts, units, threads, made >= _LONG_ELEMENTS)
    return lambda given, result: kernel(given, rows, places, result)


def _choice_text(known_bytes: int) -> str:
    """Returns the module; its loop is over the rows of all images of the result."""
    code = Code()
    height, line, row_count, column_count, given_bytes = code.sizes(5)
    images, rows, places, result = code.arrays(4)
    pixel_bytes = known_bytes or given_bytes
    wide = code.multiply(column_count, pixel_bytes)
    before = code.variable("i64", -1)
    with code.loop("%lo", "%hi") as unit:
        number = code.let(f"sdiv i64 {unit}, {row_count}")
        row = code.subtract(unit, code.multiply(number, row_count))
        source = code.load("i64", code.at("i64", rows, row))
        line_number = code.add(code.multiply(number, height), source)
        target = code.at("i8", result, code.multiply(unit, wide))
        is_again = code.compare("eq", line_number, code.get(before))
        with code.when(is_again):  # same as the row above
            code.copy(target, code.at("i8", target, code.subtract(0, wide)), wide)
        with code.unless(is_again):
            start = code.at("i8", images, code.multiply(line_number, line))
            with code.loop(0, column_count) as column:
                place = code.load("i64", code.at("i64", places, column))
                pixel = code.at("i8", target, code.multiply(column, pixel_bytes))
                code.copy(pixel, code.at("i8", start, place), pixel_bytes)
        code.set(before, line_number)
    return code.module()
