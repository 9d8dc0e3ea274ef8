"""Copies of arrays in another order, by machine code if it is faster than numpy."""

from __future__ import annotations

import functools
from math import prod
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows.strided_rows import copy_view
from sparkflow_runtime.codegen.tiles import transposition
from sparkflow_runtime.ops.op import Array

_FEW: Final = 1024
"""Elements below which numpy is as fast as looking up the machine code."""
_MANY: Final = 1 << 14
"""Elements from which two steps pay off."""
_LEAST_ROW_BYTES: Final = 16
"""Shorter rows are not faster to move than single elements."""


def fill_transposed(x: Array, axes: tuple[int, ...], out: Array) -> None:
    """Writes `x.transpose(axes)` into a contiguous host array."""
    if x.size < _FEW or x.dtype.hasobject or not x.flags.c_contiguous or not native.available():
        np.copyto(out, x.transpose(axes))
        return
    kept = _kept(axes)
    shape, order = x.shape[: x.ndim - kept], axes[: x.ndim - kept]
    numbers = prod(x.shape[x.ndim - kept :])
    if transposition.has_elements(x.itemsize * numbers):
        sizes = matrices(shape, order)
        if sizes is not None:
            kernel = transposition.bound(x.itemsize * numbers, *sizes, numbers)
            if kernel(x, out):
                return
        elif x.size >= _MANY and _by_two_steps(x, shape, order, numbers, out):
            return
    np.copyto(out, x.transpose(axes))


def _kept(axes: tuple[int, ...]) -> int:
    """The number of last axes that stay in place: elements along these move as one."""
    count = 0
    while count < len(axes) and axes[-1 - count] == len(axes) - 1 - count:
        count += 1
    return count


def _by_two_steps(
    x: Array, shape: tuple[int, ...], axes: tuple[int, ...], numbers: int, out: Array
) -> bool:
    """Moves the new last axis into place first, and then whole rows of it.

    Args:
        x: The elements, contiguous.
        shape: Their shape.
        axes: Their new order, in which the last one differs.
        numbers: Numbers per element.
        out: The result, of the same number of elements.
    """
    if not axes:
        return False
    last = axes[-1]
    size_bytes = x.itemsize * numbers
    if shape[last] * size_bytes < _LEAST_ROW_BYTES:
        return False
    before, after = prod(shape[:last]), prod(shape[last + 1 :])
    moved = [axis for axis in range(len(shape)) if axis != last] + [last]
    step = np.empty((*(shape[axis] for axis in moved), numbers), x.dtype)
    if not transposition.bound(size_bytes, before, shape[last], after, numbers)(x, step):
        return False
    order = (*(moved.index(axis) for axis in axes), len(axes))
    fill_transposed(step, order, out.reshape([step.shape[axis] for axis in order]))
    return True


def contiguous(x: Array) -> Array:
    """The host array, or a contiguous copy of it."""
    if x.flags.c_contiguous:
        return x
    out = np.empty(x.shape, x.dtype)
    fill(x, out)
    return out


def fill(x: Array, out: Array) -> None:
    """Writes a host array with any strides into a contiguous one of the same shape and dtype."""
    if x.size >= _FEW and not x.flags.c_contiguous:
        order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
        held = x.transpose(order)
        if held.flags.c_contiguous:
            fill_transposed(held, tuple(order.index(axis) for axis in range(x.ndim)), out)
            return
        if not any(x.strides):
            out.fill(x[(0,) * x.ndim])
            return
        if copy_view(x, out):
            return
    np.copyto(out, x)


@functools.lru_cache(maxsize=1024)
def matrices(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(count, rows, columns) of the transposed matrices; None if it is another permutation.

    Dimensions that stay together are merged, those of size 1 ignored.
    """
    groups: list[list[int]] = []
    places = [axis for axis in range(len(shape)) if shape[axis] != 1]
    for place in (places.index(axis) for axis in axes if shape[axis] != 1):
        if groups and place == groups[-1][-1] + 1:
            groups[-1].append(place)
        else:
            groups.append([place])
    order = sorted(range(len(groups)), key=lambda number: groups[number])
    sizes = [prod(shape[places[place]] for place in groups[number]) for number in order]
    if order == [1, 0]:
        return 1, sizes[0], sizes[1]
    return (sizes[0], sizes[1], sizes[2]) if order == [0, 2, 1] else None
