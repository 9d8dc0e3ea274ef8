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
    """At least so many bytes, uint8, aligned; their contents last until the next call.

    The next call, that is, on the same thread and for the same purpose. The buffer grows and stays.
    """
    buffer: np.ndarray[Any, Any] | None = getattr(_local, purpose, None)
    if buffer is None or buffer.size < size_bytes:
        buffer = aligned(size_bytes)
        setattr(_local, purpose, buffer)
    return buffer
