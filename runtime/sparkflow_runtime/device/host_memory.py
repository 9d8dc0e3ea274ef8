"""This process's use of the operating system's memory, and the alignment of arrays.

Machine code reads and writes vectors of up to 64 bytes. numpy's arrays begin 16 bytes after a line
of the cache, so that each of these vectors lies in two lines: 2 to 4 % of a convolution's time
(2026-11-28). Variables, plans and scratch memory are allocated here. Constants and feeds stay where
they are: it is less than 1 % there, less than a copy.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

# Parameters of glibc's mallopt, from malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

KEPT_BYTES: Final = 256 << 20
"""So much freed memory at the end of a heap is kept."""
MAX_HEAP_BLOCK_BYTES: Final = 32 << 20
"""Larger blocks come from the operating system one by one; glibc allows no more than this."""

ALIGNMENT_BYTES: Final = 64
"""A cache line, and a vector register of AVX-512."""
_LEAST_ALIGNED_BYTES: Final = 1024
"""Arrays of less are not worth finding out where they begin."""


def keep_freed_memory() -> bool:
    """Has this process's malloc keep freed memory, instead of giving it back at once.

    Every step allocates what the one before it freed; pages that were given back in between are
    faulted in and zeroed again. Measured on MLP 784-256-128-10 (2026-11-21, 2 busy cores): a step
    in process took 3.3 ms before and 2.2 ms with it; with one parameter server and two workers, 800
    page faults per step became 2, and a worker's time in the kernel fell from 3.9 to 1.1 ms.

    Returns:
        Whether the C library is one that can be told so (glibc).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    kept = mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
    return bool(kept and mallopt(_M_MMAP_THRESHOLD, MAX_HEAP_BLOCK_BYTES))


def aligned_empty(shape: Sequence[int], dtype: DTypeLike) -> np.ndarray[Any, Any]:
    """A C-contiguous array with any content, aligned if it is of some size and holds no objects.

    Args:
        shape: Of the array.
        dtype: Of the array.
    """
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < _LEAST_ALIGNED_BYTES or kind.hasobject:
        return np.empty(shape, kind)
    return aligned_memory(size).view(kind).reshape(shape)


def aligned_memory(size_bytes: int) -> np.ndarray[Any, Any]:
    """So many bytes, aligned, as uint8 with any content."""
    block = np.empty(size_bytes + ALIGNMENT_BYTES, np.uint8)
    start = -block.ctypes.data % ALIGNMENT_BYTES
    return block[start : start + size_bytes]


def is_aligned(array: np.ndarray[Any, Any]) -> bool:
    """Whether its first element is at the beginning of a line."""
    return array.ctypes.data % ALIGNMENT_BYTES == 0
