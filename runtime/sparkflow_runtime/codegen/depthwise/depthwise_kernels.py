"""Depthwise convolutions over images and their gradients in machine code, channels last.

Each function here binds a body of `depthwise_ir` to the sizes of one convolution; the result is
called with the arrays. Long filters, which would be too much code, are left to
`convolution_kernels`, one output of every channel at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.depthwise import depthwise_ir
from sparkflow_runtime.codegen.depthwise.depthwise_ir import Field, Form, Member
from sparkflow_runtime.codegen.depthwise.meetings import (
    Meeting,
    Place,
    of_elements,
    of_results,
    patterns,
)
from sparkflow_runtime.codegen.machine import host, native, scratch, threads as pools
from sparkflow_runtime.codegen.tiles import convolution_kernels as contraction
from sparkflow_runtime.codegen.tiles.convolution_geometry import Array, Window
from sparkflow_runtime.codegen.tiles.convolution_kernels import Kernel
from sparkflow_runtime.codegen.tiles.convolution_tasks import ELEMENTS, PARALLEL_PRODUCTS

WIDTH: Final = 8
"""Most columns per pattern."""
SUMS: Final = 18
"""Most sums in registers, of 32: filters and a pixel are there, too."""
FEW_OUTPUTS: Final = 3
"""With up to this many outputs per channel, or less than half a vector, lanes are channels."""
MOST_WRITTEN: Final = 1000
"""Most products that are written out: more would take long to compile."""
FAR_BYTES: Final = 8 << 20
"""Images from this size on are not in cache: the lines of the next results are fetched ahead.

Measured 2026-11-29 (one AVX-512 core, 3×3 filters): 1.6 against 2.3 ms for 8 images of 56×56×128,
0.78 against 0.66 ms for 28×28×256. The filter gradient, and results with a stride, are faster from
a copy of each image: 1.8 against 2.3 and 2.7 against 3.2 ms for 112×112×64 and a stride of 2.
"""


def forward(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
) -> Kernel | None:
    """Returns the kernel of a convolution, called with images, filters and the result.

    Args:
        dtype: float32 or float64.
        images: [batch, height, width, channels].
        filters: [rows, columns, channels, outputs per channel].
        windows: Over height and width.

    Returns:
        None if there is no kernel.
    """
    return _kernel(Member.RESULT, dtype, images, filters, windows)


def input_gradient(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
) -> Kernel | None:
    """Returns the kernel of the input gradient, called with dy, filters and the result.

    The arguments are those of `forward`.
    """
    return _kernel(Member.IMAGE, dtype, images, filters, windows)


def filter_gradient(
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
) -> Kernel | None:
    """Returns the kernel of the filter gradient, called with images, dy and the result.

    The arguments are those of `forward`.
    """
    return _kernel(Member.FILTER, dtype, images, filters, windows)


_CONTRACTIONS: Final = {
    Member.RESULT: contraction.forward,
    Member.IMAGE: contraction.input_gradient,
    Member.FILTER: contraction.filter_gradient,
}


def _kernel(
    member: Member,
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
) -> Kernel | None:
    if not native.available() or dtype.char not in ELEMENTS or not dtype.isnative:
        return None
    if min(filters) < 1:
        return None
    is_image = member is Member.IMAGE
    meetings = of_elements if is_image else of_results
    lanes = host.host().vector_bytes // dtype.itemsize
    *_, channels, multiplier = filters
    of_outputs = multiplier > FEW_OUTPUTS and multiplier >= lanes // 2
    together = 1 if of_outputs else multiplier
    along = meetings(windows[1], images[2])
    width = _width(len(along), together, windows[1].stride if is_image else 1)
    columns = patterns(along, width, overlaps=member is not Member.FILTER)
    vectors = multiplier if of_outputs else channels
    whole, rest = vectors >= lanes, vectors % lanes > 0
    written = sum(len(each.products) for each in columns) * together * (whole + rest)
    is_far = multiplier == 1 and math.prod(images) * dtype.itemsize >= FAR_BYTES
    is_strided = member is Member.RESULT and windows[0].stride > 1
    if written > MOST_WRITTEN or (is_far and (member is Member.FILTER or is_strided)):
        return _one_by_one(member, dtype, images, filters, windows)
    element = ELEMENTS[dtype.char]
    form = Form(member, element, lanes, together, of_outputs, tuple(columns), whole, rest, is_far)
    lines = meetings(windows[0], images[1])
    return _bound(form, dtype, images, filters, windows, lines, list(columns.values()))


def _width(count: int, together: int, step: int) -> int:
    """Returns the columns per pattern: patterns are about equally wide.

    Args:
        count: Columns in total.
        together: Sums per column.
        step: Of what the width is a multiple, so that inner patterns are the same.
    """
    here = host.host()
    has_many = here.vector_bytes == 64 or here.triple.startswith(("aarch64", "arm64"))
    most = max(min(WIDTH, (SUMS if has_many else SUMS // 2) // together), 1)
    most = max(most // step, 1) * step
    even = -(-count // max(-(-count // most), 1))
    return max(-(-even // step), 1) * step


def _bound(
    form: Form,
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
    lines: Sequence[Sequence[Meeting]],
    places: Sequence[Sequence[Place]],
) -> Kernel:
    batch, height, width, channels = images
    *_, taps, _, multiplier = filters
    outputs = channels * multiplier
    rows, columns = (window.count for window in windows)
    given, result = (height, width * channels), (rows, columns * outputs)
    is_image = form.member is Member.IMAGE
    left_lines, left_line = result if is_image else given
    # The last one is read, but not used, if there are no others.
    met = np.array([*(each for some in lines for each in some), (0, 0)], np.int64)
    products = batch * (len(met) - 1) * columns * taps * outputs
    met *= (left_line, taps * outputs)
    at = np.array([each for some in places for each in some], np.int64).reshape(-1, 2)
    at *= (channels, outputs) if is_image else (outputs, channels)
    starts = np.array([0, *itertools.accumulate(map(len, lines))])
    tables = (starts, met.ravel(), at.ravel())
    extent, total = batch * len(lines), math.prod(filters)
    is_large = products >= PARALLEL_PRODUCTS
    parts = max(min(pools.count(), extent), 1) if is_large else 1
    sizes = {
        Field.CHANNELS: channels,
        Field.MULTIPLIER: multiplier,
        Field.LINES: len(lines),
        Field.LEFT_IMAGE: left_lines * left_line,
        Field.LEFT_LINE: left_line,
        Field.OUT_LINE: given[1] if is_image else result[1],
        Field.OUT_PART: total,
    }
    stops = itertools.accumulate(map(len, places))
    of_images, of_dy = math.prod(images), batch * math.prod(result)
    counts = {
        Member.RESULT: (of_images, total, of_dy),
        Member.IMAGE: (of_dy, total, of_images),
        Member.FILTER: (of_images, of_dy, total * parts),
    }[form.member]
    run = native.written_body(depthwise_ir.text, (form,), is_tidy=True).bind(
        [*(sizes[field] for field in list(Field)[: Field.PATTERNS]), *stops],
        [*counts, *(each.size for each in tables)],
        extent,
        parts,
        is_large,
    )
    if form.member is Member.FILTER and parts > 1:
        return _summed(run, dtype, total, parts, tables)
    if form.member is Member.RESULT and form.multiplier > 1:
        return _packed(run, dtype, channels, multiplier, total, tables)

    def kernel(left: Array, right: Array, out: Array) -> bool:
        return run(left, right, out, *tables)

    return kernel


def _summed(
    run: Callable[..., bool], dtype: np.dtype[Any], total: int, parts: int, tables: Sequence[Array]
) -> Kernel:
    """Runs with a result for each part, and adds them up."""
    size_bytes = total * parts * dtype.itemsize

    def kernel(left: Array, right: Array, out: Array) -> bool:
        if out.size != total or not out.flags.c_contiguous:
            return False
        sums = scratch.take(size_bytes)[:size_bytes].view(dtype)
        if not run(left, right, sums, *tables):
            return False
        np.add.reduce(sums.reshape(parts, total), axis=0, out=out.reshape(total))
        return True

    return kernel


def _packed(
    run: Callable[..., bool],
    dtype: np.dtype[Any],
    channels: int,
    multiplier: int,
    total: int,
    tables: Sequence[Array],
) -> Kernel:
    """Runs with filters in which, at each place, the first outputs of all channels come first."""
    size_bytes = total * dtype.itemsize

    def kernel(left: Array, right: Array, out: Array) -> bool:
        if right.size != total:
            return False
        filters = scratch.take(size_bytes)[:size_bytes].view(dtype)
        given = right.reshape(-1, channels, multiplier).swapaxes(1, 2)
        filters.reshape(given.shape)[...] = given
        return run(left, filters, out, *tables)

    return kernel


def _one_by_one(
    member: Member,
    dtype: np.dtype[Any],
    images: Sequence[int],
    filters: Sequence[int],
    windows: Sequence[Window],
) -> Kernel | None:
    """Returns a kernel for long filters, which takes one output of every channel at a time."""
    *places, channels, multiplier = filters
    single = (*places, channels, 1)
    one = _CONTRACTIONS[member](dtype, images, single, windows, depthwise=True)
    if one is None or multiplier == 1:
        return one

    several = (0, 1) if member is Member.IMAGE else (1,)

    def of_channels(array: Array) -> Array:
        return array.reshape(-1, channels, multiplier)

    def kernel(left: Array, right: Array, out: Array) -> bool:
        is_sum = member is Member.IMAGE
        target = np.empty(out.size if is_sum else out.size // multiplier, dtype)
        if is_sum:
            out[...] = 0
        for number in range(multiplier):
            now = [left, right]
            for each in several:
                now[each] = np.ascontiguousarray(of_channels(now[each])[..., number])
            if not one(now[0], now[1], target):
                return False
            if is_sum:
                out += target.reshape(out.shape)
            else:
                of_channels(out)[..., number] = target.reshape(-1, channels)
        return True

    return kernel
