"""Memory that a kernel needs while it runs: one buffer per thread, used again and again."""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

ALIGNMENT: Final = 64
"""Bytes: a cache line, and the largest vector."""

_local = threading.local()


def take(size_bytes: int) -> np.ndarray[Any, Any]:
    """At least so many bytes, uint8, aligned; their contents last until the next call.

    The next call, that is, on the same thread. The buffer grows and stays.
    """
    buffer: np.ndarray[Any, Any] | None = getattr(_local, "buffer", None)
    if buffer is None or buffer.size < size_bytes:
        memory = np.empty(size_bytes + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        buffer = _local.buffer = memory[start : start + size_bytes]
    return buffer
