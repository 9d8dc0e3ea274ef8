"""Memory that a kernel needs while it runs: one buffer per thread and purpose."""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

ALIGNMENT: Final = 64
"""Bytes: a cache line, and the largest vector."""

_local = threading.local()


def take(size_bytes: int, purpose: str = "kernel") -> np.ndarray[Any, Any]:
    """At least so many bytes, uint8, aligned; their contents last until the next call.

    The next call, that is, on the same thread and for the same purpose. The buffer grows and stays.
    """
    buffer: np.ndarray[Any, Any] | None = getattr(_local, purpose, None)
    if buffer is None or buffer.size < size_bytes:
        buffer = aligned(size_bytes)
        setattr(_local, purpose, buffer)
    return buffer


def aligned(size_bytes: int) -> np.ndarray[Any, Any]:
    """New memory, uint8, that begins with a line of the cache."""
    memory = np.empty(size_bytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size_bytes]
