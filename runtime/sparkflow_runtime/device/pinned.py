"""Staging of fed arrays through pinned (page-locked) host memory.

Copies from such memory to the GPU are asynchronous. A buffer is reused only after the copy from it
is done.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

MIN_BUFFER_BYTES: Final = 4096
DEPTH: Final = 4
"""Maximum number of concurrent copies of one size; the next one waits for the oldest."""


@dataclass(slots=True)
class _Buffer:
    memory: Any
    bytes: np.ndarray[Any, Any]
    copied: Any


class PinnedStaging:
    """Copies arrays to one GPU. Safe to use from several threads.

    `_lock` guards `_rings`, and a buffer from its selection until its copy is on the stream. There
    is one ring of buffers per power of two of bytes.

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
        """Returns a GPU array with the values of a host array, which may be modified at once.

        Args:
            host: numpy array or scalar of a dtype that the GPU supports.
            stream: The stream of the copy.
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
        """The total size of all buffers."""
        with self._lock:
            return sum(size * len(ring) for size, ring in self._rings.items())

    def _free_buffer(self, size: int) -> _Buffer:
        """Returns a buffer that is not in use, at the end of its ring."""
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
