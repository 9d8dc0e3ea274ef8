"""The stream of a partition, and the ordering between the streams of one GPU.

Runs of one partition are sequential on its stream. Partitions share variables, so a run that starts
after another has returned also executes after it on the GPU, without the host waiting.
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

    `_lock` guards `_ends`, which drops streams that no longer exist.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: WeakKeyDictionary[GpuStream, Any] = WeakKeyDictionary()

    def begin(self, begun: GpuStream) -> None:
        """Makes the stream wait for the runs that have returned on others."""
        with self._lock:
            ends = [event for other, event in self._ends.items() if other is not begun]
        for event in ends:
            if not event.done:
                begun.stream.wait_event(event)

    def end(self, ended: GpuStream, event: Any) -> None:
        """Records that all work of a run has been submitted to the stream."""
        event.record(ended.stream)
        with self._lock:
            self._ends[ended] = event


class GpuStream:
    """The stream of a partition's kernels. Several threads may use it at once.

    Args:
        cupy: The module.
        index: The GPU.
        memory: Allocates arrays.
        order: The stream order of this GPU.

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
        """Uses this stream for the kernels, copies and arrays of this thread in the body."""
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
        """Waits until all work on the stream is done."""
        self.stream.synchronize()
