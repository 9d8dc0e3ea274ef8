"""Staging of fed arrays: through pages that the operating system does not move.

A copy from such memory to the GPU runs by itself while the host goes on. A buffer is written again
only after the copy out of it is done.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

MIN_BUFFER_BYTES: Final = 4096
DEPTH: Final = 4
"""So many copies of one size may be on their way at once; the next one waits for the oldest."""


@dataclass(slots=True)
class _Buffer:
    memory: Any
    bytes: np.ndarray[Any, Any]
    copied: Any


class PinnedStaging:
    """Copies arrays to one GPU. Safe to use from several threads.

    `_lock` guards `_rings`, and a buffer from the moment it is chosen until its copy is on the
    stream. There is one ring of buffers per power of two of bytes.

    Args:
        cupy: The module.
        depth: See `DEPTH`.
    """

    def __init__(self, cupy: Any, depth: int = DEPTH) -> None:
        self._cupy = cupy
        self._depth = depth
        self._lock = threading.Lock()
        self._rings: dict[int, list[_Buffer]] = {}

    def copy(self, host: Any, stream: Any, target: Any = None) -> Any:
        """An array of the GPU with the values of a host array, which may change at once.

        Args:
            host: numpy array or scalar of a dtype that the GPU has.
            stream: The copy is work of this stream.
            target: The contiguous array to fill, of the same shape and dtype; None for a new one.
        """
        host = np.asarray(host)
        if target is None:
            target = self._cupy.empty(host.shape, host.dtype)
        if host.nbytes == 0:
            return target
        with self._lock:
            buffer = self._free_buffer(host.nbytes)
            staged = buffer.bytes[: host.nbytes].view(host.dtype).reshape(host.shape)
            np.copyto(staged, host)
            target.data.copy_from_host_async(staged.ctypes.data, host.nbytes, stream)
            buffer.copied.record(stream)
        return target

    def pinned_bytes(self) -> int:
        """The memory of all buffers."""
        with self._lock:
            return sum(size * len(ring) for size, ring in self._rings.items())

    def _free_buffer(self, size: int) -> _Buffer:
        """A buffer that nothing is copied out of, at the end of its ring."""
        size = max(MIN_BUFFER_BYTES, 1 << (size - 1).bit_length())
        ring = self._rings.setdefault(size, [])
        if ring and (ring[0].copied.done or len(ring) >= self._depth):
            buffer = ring.pop(0)
            buffer.copied.synchronize()
        else:
            memory = self._cupy.cuda.alloc_pinned_memory(size)
            view = np.frombuffer(memory, np.uint8, size)
            buffer = _Buffer(memory, view, self._cupy.cuda.Event(disable_timing=True))
        ring.append(buffer)
        return buffer
