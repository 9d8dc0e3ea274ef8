"""Casts between float32 and float16 or bfloat16 by machine code, see `codegen.rows.narrowing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.rows import narrowing as narrow
from sparkflow_runtime.codegen.rows.sparse_rows import HEADER_SIZE, Header
from sparkflow_runtime.dtypes import DType, bfloat16, float32
from sparkflow_runtime.once import once
from sparkflow_runtime.ops.op import Array

_SHARED_SIZE: Final = 1 << 20
"""Smaller arrays are converted by a single thread."""
_SHORT_SIZE: Final = 1 << 12
"""Larger arrays are converted without holding the GIL."""


def kernel(source: DType, target: DType) -> Callable[[Array, Array], bool] | None:
    """Returns a function that converts the first array into the second; None if there is none.

    It returns False, without doing anything, unless both are contiguous numpy arrays. The caller
    guarantees their dtypes and equal shapes.
    """
    if (source, target) not in narrow.PAIRS or not native.available():
        return None

    def convert(x: Array, out: Array) -> bool:
        if not _is_plain(x) or not _is_plain(out):
            return False
        header = np.zeros(HEADER_SIZE, np.int64)
        parts = threads.count() if x.size >= _SHARED_SIZE else 1
        header[Header.COUNT], header[Header.PARTS] = x.size, parts
        return _bound(source, target, parts, x.size > _SHORT_SIZE)(header, x, out)

    return convert


def converted(x: Array, source: DType, target: DType) -> Array:
    """Converts from or to float32 into a new array; any shape and layout."""
    convert = kernel(source, target) if x.dtype == source.as_numpy_dtype else None
    out = np.empty(x.shape, target.as_numpy_dtype)
    return out if convert is not None and convert(x, out) else x.astype(out.dtype)


def widened(x: Array) -> Array:
    """bfloat16 as float32."""
    out = np.empty(x.shape, np.float32)
    convert = kernel(bfloat16, float32)
    if convert is None or not convert(x, out):
        np.left_shift(x.view(np.uint16), 16, out.view(np.uint32), dtype=np.uint32)
    return out


def rounded(x: Array) -> Array:
    """float32 as the nearest bfloat16."""
    return converted(x, float32, bfloat16)


def rounded_by_chance(x: Array, seed: int) -> Array:
    """float32 stochastically rounded to bfloat16: up or down, the nearer the likelier.

    The mean over many seeds is the number itself. NaNs are kept; the result depends only on the
    seed, the values and their positions.

    Args:
        x: Contiguous.
        seed: 32 bits.
    """
    out = np.empty(x.shape, bfloat16.as_numpy_dtype)
    if native.available() and _is_plain(x):
        header = np.zeros(HEADER_SIZE, np.int64)
        parts = threads.count() if x.size >= _SHARED_SIZE else 1
        header[Header.COUNT], header[Header.PARTS] = x.size, parts
        given = np.array(seed, np.int64)
        _by_chance(parts, x.size > _SHORT_SIZE)(header, x, out, given)
        return out
    bits = x.view(np.uint32).reshape(-1)
    chance = _chances(bits.size, seed)
    sums = (bits + chance) >> np.uint32(16)
    sizes = bits & np.uint32(0x7FFFFFFF)
    quiet = bits >> np.uint32(16) & np.uint32(0x8000) | np.uint32(0x7FC0)
    chosen = np.where(sizes <= 0x7F800000, sums, quiet).astype(np.uint16)
    return chosen.view(out.dtype).reshape(x.shape)


def _chances(count: int, seed: int) -> Array:
    """16 random bits per position, as `narrowing.by_chance` generates them."""
    bits = np.arange(count, dtype=np.uint32) * np.uint32(narrow.SPREAD) + np.uint32(seed)
    for shift, factor in narrow.MIXES:
        bits ^= bits >> np.uint32(shift)
        bits *= np.uint32(factor)
    return bits >> np.uint32(16)


@once
def _by_chance(parts: int, releases_gil: bool) -> Callable[..., bool]:
    body = native.body(narrow.by_chance())
    return body.bind((), [NOT_COUNTED] * 4, parts, threads=parts, releases_gil=releases_gil)


def _is_plain(array: Array) -> bool:
    return type(array) is np.ndarray and array.flags.c_contiguous


@once
def _bound(source: DType, target: DType, parts: int, releases_gil: bool) -> Callable[..., bool]:
    body = native.body(narrow.conversion(source, target))
    return body.bind((), [NOT_COUNTED] * 3, parts, threads=parts, releases_gil=releases_gil)
