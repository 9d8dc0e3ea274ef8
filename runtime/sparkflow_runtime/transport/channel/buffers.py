"""Receive buffers, reused as soon as nothing refers to them any longer."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, Final

import numpy as np

from sparkflow_runtime.device.lent_memory import LentMemory

LEAST_POOLED_BYTES: Final = 1 << 14
"""The system allocates less than this faster than a pool does."""
KEPT: Final = 3
"""Maximum number of free buffers that a pool keeps: a loop has one in use and one in flight."""


class BufferPool:
    """Buffers for the messages of one stream, which mostly have the same size. Thread-safe.

    A large buffer returns to the pool when the array that `take` returned, and every view of it, is
    gone. That may happen in any thread at any point, so there is no lock and `_free` is a deque.
    """

    def __init__(self) -> None:
        self._free: deque[np.ndarray[Any, Any]] = deque(maxlen=KEPT)

    def take(self, size_bytes: int) -> np.ndarray[Any, Any]:
        """Returns a [size_bytes] uint8 array with arbitrary content."""
        if size_bytes < LEAST_POOLED_BYTES:
            return np.empty(size_bytes, np.uint8)
        memory = self._find(size_bytes)
        give_back = partial(self._free.append, memory)
        return np.asarray(LentMemory(memory.__array_interface__, give_back))

    def _find(self, size_bytes: int) -> np.ndarray[Any, Any]:
        try:
            while True:  # Buffers of other sizes are dropped.
                memory = self._free.popleft()
                if memory.size == size_bytes:
                    return memory
        except IndexError:
            return np.empty(size_bytes, np.uint8)
