"""The memory of one GPU: a pool that keeps memory freed by steps, its limit, its statistics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sparkflow_runtime.errors import InvalidArgumentError


@dataclass(slots=True)
class GpuMemoryUse:
    """A GPU's memory as used by steps.

    Attributes:
        live_bytes: Allocated now.
        peak_bytes: The maximum allocated at once while watched.
        total_bytes: The sum of all allocations while watched.
    """

    live_bytes: int = 0
    peak_bytes: int = 0
    total_bytes: int = 0


class GpuMemory:
    """A pool of one GPU's memory. Safe to use from several threads, as cupy's pools are.

    Args:
        cupy: The module.
        index: The GPU.
        limit_bytes: The maximum that the pool takes from the GPU; None for all of its memory.

    Raises:
        InvalidArgumentError: The limit is not positive.
    """

    def __init__(self, cupy: Any, index: int, limit_bytes: int | None = None) -> None:
        if limit_bytes is not None and limit_bytes <= 0:
            raise InvalidArgumentError(
                message=f"GPU:{index} is to use at most {limit_bytes} bytes of memory; give a "
                "positive number, or None for all of its memory"
            )
        self._cupy = cupy
        self._index = index
        self.pool = cupy.cuda.MemoryPool()
        if limit_bytes is not None:
            with cupy.cuda.Device(index):
                self.pool.set_limit(size=limit_bytes)

    def reserved_bytes(self) -> int:
        """The memory that the pool holds, in use or not."""
        with self._cupy.cuda.Device(self._index):
            return int(self.pool.total_bytes())

    def used_bytes(self) -> int:
        """The memory in use."""
        with self._cupy.cuda.Device(self._index):
            return int(self.pool.used_bytes())

    def release(self) -> None:
        """Returns unused memory to the GPU."""
        with self._cupy.cuda.Device(self._index):
            self.pool.free_all_blocks()

    @contextlib.contextmanager
    def watched(self) -> Iterator[GpuMemoryUse]:
        """Counts what this thread allocates and frees in the body.

        Each costs a Python call, so only traced steps are watched.
        """
        use = GpuMemoryUse(live_bytes=self.used_bytes())
        use.peak_bytes = use.live_bytes
        with _hook(self._cupy, self._index, use):
            yield use


def _hook(cupy: Any, index: int, use: GpuMemoryUse) -> Any:
    """Creates a cupy memory hook, whose base class only exists with cupy."""

    def allocated(_: Any, **event: Any) -> None:
        if event["device_id"] == index:
            use.live_bytes += event["mem_size"]
            use.total_bytes += event["mem_size"]
            use.peak_bytes = max(use.peak_bytes, use.live_bytes)

    def freed(_: Any, **event: Any) -> None:
        if event["device_id"] == index:
            use.live_bytes -= event["mem_size"]

    methods = {
        "name": "sparkflow",
        "malloc_postprocess": allocated,
        "free_postprocess": freed,
    }
    return type("GpuMemoryHook", (cupy.cuda.MemoryHook,), methods)()
