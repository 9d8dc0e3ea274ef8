"""The stream of a partition, and how the streams of one GPU wait for each other.

Runs of one partition follow each other on its stream. Partitions share variables, so what a run
begins after another has returned also comes after it on the GPU, without the host waiting.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from sparkflow_runtime.device.gpu_memory import GpuMemory


class StreamOrder:
    """The last work of each stream of one GPU.

    `_lock` guards `_ends`. Streams that are gone are forgotten.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: WeakKeyDictionary[GpuStream, Any] = WeakKeyDictionary()

    def begin(self, begun: GpuStream) -> None:
        """Has the stream wait for the runs that have returned on others."""
        with self._lock:
            ends = [event for other, event in self._ends.items() if other is not begun]
        for event in ends:
            if not event.done:
                begun.stream.wait_event(event)

    def end(self, ended: GpuStream, event: Any) -> None:
        """Notes that a run's work is all on the stream."""
        event.record(ended.stream)
        with self._lock:
            self._ends[ended] = event


class GpuStream:
    """The stream that a partition's kernels run on. Several threads may run on it at once.

    Args:
        cupy: The module.
        index: The GPU.
        memory: Where arrays come from.
        order: Of this GPU.

    Attributes:
        stream: cupy's; it does not wait for the default stream.
    """

    def __init__(self, cupy: Any, index: int, memory: GpuMemory, order: StreamOrder) -> None:
        self._cupy = cupy
        self._index = index
        self._memory = memory
        self._order = order
        with cupy.cuda.Device(index):
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self._end = cupy.cuda.Event(disable_timing=True)

    @contextlib.contextmanager
    def running(self) -> Iterator[Any]:
        """Kernels, copies and arrays made meanwhile in this thread are this stream's."""
        cuda = self._cupy.cuda
        with (
            cuda.Device(self._index),
            self.stream,
            cuda.using_allocator(self._memory.pool.malloc),
        ):
            self._order.begin(self)
            try:
                yield self.stream
            finally:
                self._order.end(self, self._end)

    def synchronize(self) -> None:
        """Waits until everything on the stream is done."""
        self.stream.synchronize()
