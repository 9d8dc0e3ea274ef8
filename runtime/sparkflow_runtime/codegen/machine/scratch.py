"""Memory that a kernel needs while it runs: one buffer per thread and purpose."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from sparkflow_runtime.device.host_memory import (
    ALIGNMENT_BYTES as ALIGNMENT,
    aligned_memory as aligned,
)

__all__ = ["ALIGNMENT", "aligned", "take"]

_local = threading.local()


def take(size_bytes: int, purpose: str = "kernel") -> np.ndarray[Any, Any]:
    """Returns an aligned uint8 buffer of at least `size_bytes` bytes, valid until the next call.

    That is, the next call on the same thread for the same purpose. The buffer grows and is kept.
    """
    buffer: np.ndarray[Any, Any] | None = getattr(_local, purpose, None)
    if buffer is None or buffer.size < size_bytes:
        buffer = aligned(size_bytes)
        setattr(_local, purpose, buffer)
    return buffer
