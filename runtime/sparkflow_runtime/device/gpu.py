"""One GPU of a task, shared by its partitions: memory, staging, stream order."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.device.gpu_convolution import GpuConvolutions, front_end
from sparkflow_runtime.device.gpu_memory import GpuMemory
from sparkflow_runtime.device.gpu_products import DEFAULT_PRECISION, set_precision
from sparkflow_runtime.device.gpu_stream import GpuStream, StreamOrder
from sparkflow_runtime.device.pinned import PinnedStaging
from sparkflow_runtime.once import Once


class Gpu:
    """A GPU. The driver is not used before the first work on it.

    Args:
        cupy: The module.
        index: Its number.
        memory_limit_bytes: See `GpuMemory`.

    Attributes:
        cupy: The module.
        index: Its number.
        memory: Its memory pool.
        staging: Copies host arrays to it.
    """

    def __init__(self, cupy: Any, index: int, memory_limit_bytes: int | None = None) -> None:
        self.cupy = cupy
        self.index = index
        self.memory = GpuMemory(cupy, index, memory_limit_bytes)
        self.staging = PinnedStaging(cupy)
        self._order = StreamOrder()
        self._convolutions: Once[None, GpuConvolutions | None] = Once()

    def new_stream(self) -> GpuStream:
        """Returns a stream for one more partition."""
        return GpuStream(self.cupy, self.index, self.memory, self._order)

    def convolutions(self) -> GpuConvolutions | None:
        """Convolutions with cuDNN on this GPU; None if its front end is not installed."""

        def make() -> GpuConvolutions | None:
            cudnn = front_end()
            return cudnn and GpuConvolutions(self.cupy, cudnn)

        return self._convolutions.get(None, make)


def use_default_precision() -> None:
    """Makes float32 products use TF32 if the GPU supports it, as TensorFlow does."""
    set_precision(DEFAULT_PRECISION)
