"""Copies of transposed arrays, by machine code where they are made of transposed matrices."""

from __future__ import annotations

import functools
from math import prod
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles import transposition
from sparkflow_runtime.ops.op import Array

_FEW: Final = 1024
"""Elements below which numpy takes no longer than finding the machine code."""
_MANY: Final = 1 << 14
"""From so many elements on it pays to go there in two steps."""
_LEAST_ROW_BYTES: Final = 64
"""numpy moves shorter rows element by element."""


def fill_transposed(x: Array, axes: tuple[int, ...], out: Array) -> None:
    """Writes `x.transpose(axes)` into a contiguous host array."""
    if (
        x.size >= _FEW
        and x.dtype.itemsize in transposition.ELEMENT_BYTES
        and not x.dtype.hasobject
        and native.available()
        and (sizes := matrices(x.shape, axes)) is not None
        and transposition.bound(x.dtype.itemsize, *sizes)(x, out)
    ):
        return
    if x.size >= _MANY and _by_two_steps(x, axes, out):
        return
    np.copyto(out, x.transpose(axes))


def _by_two_steps(x: Array, axes: tuple[int, ...], out: Array) -> bool:
    """Brings the axis that becomes the last one there, and then moves whole rows of it."""
    last = axes[-1] if axes else 0
    row = x.shape[last] if axes else 0
    if row * x.itemsize < _LEAST_ROW_BYTES or last == x.ndim - 1 or x.dtype.hasobject:
        return False
    if x.itemsize not in transposition.ELEMENT_BYTES or not x.flags.c_contiguous:
        return False
    before, after = prod(x.shape[:last]), prod(x.shape[last + 1 :])
    moved = [axis for axis in range(x.ndim) if axis != last] + [last]
    step = np.empty([x.shape[axis] for axis in moved], x.dtype)
    if not native.available() or not transposition.bound(x.itemsize, before, row, after)(x, step):
        return False
    np.copyto(out, step.transpose([moved.index(axis) for axis in axes]))
    return True


def contiguous(x: Array) -> Array:
    """The host array, or a copy of it, its elements in order."""
    if x.flags.c_contiguous:
        return x
    order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
    held = x.transpose(order)
    if not held.flags.c_contiguous:
        return np.ascontiguousarray(x)
    out = np.empty(x.shape, x.dtype)
    fill_transposed(held, tuple(order.index(axis) for axis in range(x.ndim)), out)
    return out


@functools.lru_cache(maxsize=1024)
def matrices(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(count, rows, columns) of the matrices that are transposed; None where it is something else.

    Dimensions that stay together count as one, those of size 1 not at all.
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
