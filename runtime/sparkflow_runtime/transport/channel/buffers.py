"""Memory that messages are received into, used again as soon as nobody looks at it any more."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, Final

import numpy as np

from sparkflow_runtime.device.lent_memory import LentMemory

LEAST_POOLED_BYTES: Final = 1 << 14
"""The system gives less than that faster than a pool does."""
KEPT: Final = 3
"""So many free buffers of a pool are kept: a loop has one in use and one on its way."""


class BufferPool:
    """Buffers for messages of one stream, which mostly have one size. Thread-safe.

    A large buffer comes back when the array that `take` gave, and every view of it, is gone, which
    may be in any thread and in the midst of anything: so there is no lock, `_free` is a deque.
    """

    def __init__(self) -> None:
        self._free: deque[np.ndarray[Any, Any]] = deque(maxlen=KEPT)

    def take(self, size_bytes: int) -> np.ndarray[Any, Any]:
        """[size_bytes] uint8, with any content."""
        if size_bytes < LEAST_POOLED_BYTES:
            return np.empty(size_bytes, np.uint8)
        memory = self._find(size_bytes)
        give_back = partial(self._free.append, memory)
        return np.asarray(LentMemory(memory.__array_interface__, give_back))

    def _find(self, size_bytes: int) -> np.ndarray[Any, Any]:
        try:
            while True:  # Those of another size make room.
                memory = self._free.popleft()
                if memory.size == size_bytes:
                    return memory
        except IndexError:
            return np.empty(size_bytes, np.uint8)
