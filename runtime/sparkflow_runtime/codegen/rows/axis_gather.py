"""Machine code that gathers slices along any axis of stacked arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.llvm_text import INDEX_KINDS, Code
from sparkflow_runtime.once import latest, once

Array = np.ndarray[Any, Any]
_LEAST_ELEMENTS: Final = 1 << 10
_MOST_SLICE_BYTES: Final = 256
"""numpy copies longer slices as fast."""
_AT_ONCE: Final = 4
_SHARED_BYTES: Final = 1 << 20
"""Smaller results are written by a single thread."""


def gather_along(
    params: Array, indices: Array, axis: int, batch: int = 0, out: Array | None = None
) -> Array | None:
    """Returns the slices of an axis, for each entry of the leading dimensions that both share.

    Args:
        params: [batch..., before..., size, after...], in C order.
        indices: [batch..., count...] of int32 or int64, in C order.
        axis: The number of the axis of `size`.
        batch: The number of shared leading dimensions, at most `axis`.
        out: The result to fill, in C order; created if not given.

    Returns:
        [batch..., before..., count..., after...]; None if an index is out of bounds, without
        machine code, or if numpy is as fast.
    """
    kind = INDEX_KINDS.get(indices.dtype)
    slice_bytes = params.itemsize * prod(params.shape[axis + 1 :])
    planes, groups = prod(params.shape[:axis]), prod(params.shape[:batch])
    shape = params.shape[:axis] + indices.shape[batch:] + params.shape[axis + 1 :]
    count = prod(indices.shape[batch:])
    if kind is None or params.dtype.hasobject or not native.available():
        return None
    if not 0 < slice_bytes <= _MOST_SLICE_BYTES or planes * count < _LEAST_ELEMENTS:
        return None
    target = np.empty(shape, params.dtype) if out is None else out
    failure = np.zeros(1, np.int32)
    run = _bound(
        kind,
        slice_bytes,
        (planes // groups, params.shape[axis], count),
        (params.size, indices.size, target.size, 1),
        planes,
        threads.count() if target.nbytes >= _SHARED_BYTES else 1,
    )
    return target if run(params, indices, target, failure) and not failure[0] else None


@latest(1024)
def _bound(
    kind: str,
    slice_bytes: int,
    sizes: tuple[int, int, int],
    counts: tuple[int, int, int, int],
    planes: int,
    thread_count: int,
) -> Callable[..., bool]:
    body = _body(kind, slice_bytes)
    return body.bind(sizes, counts, planes, thread_count, releases_gil=thread_count > 1)


@once
def _body(kind: str, slice_bytes: int) -> native.Body:
    return native.written_body(text, (kind, slice_bytes))


def text(kind: str, slice_bytes: int) -> str:
    """Returns the module; sizes: planes with the same indices, size of the axis, indices.

    Arrays: params, indices, the result, and an int32 that becomes 1 if an index is out of bounds.
    The loop is over planes, the dimensions before the axis.

    Args:
        kind: LLVM's type of an index.
        slice_bytes: The size of a slice.
    """
    code = Code()
    alike, size, count = code.sizes(3)
    params, indices, target, failure = code.arrays(4)
    with code.loop("%lo", "%hi") as plane:
        group = code.let(f"sdiv i64 {plane}, {alike}")
        wanted = code.at(kind, indices, code.multiply(group, count))
        source = code.at("i8", params, code.multiply(code.multiply(plane, size), slice_bytes))
        to = code.at("i8", target, code.multiply(code.multiply(plane, count), slice_bytes))
        together = code.let(f"and i64 {count}, {-_AT_ONCE}")
        for start, stop, step in ((0, together, _AT_ONCE), (together, count, 1)):
            with code.loop(start, stop, step) as first:
                numbers = [code.add(first, n) for n in range(step)]
                found = [code.load_index(kind, wanted, number) for number in numbers]
                are_there = functools.reduce(
                    code.both, [code.compare("ult", index, size) for index in found]
                )
                with code.when(are_there):
                    for number, index in zip(numbers, found, strict=True):
                        here = code.at("i8", source, code.multiply(index, slice_bytes))
                        place = code.at("i8", to, code.multiply(number, slice_bytes))
                        code.copy(place, here, slice_bytes)
                with code.unless(are_there):
                    code.store("i32", 1, failure, 4)
    return code.module()
