import numpy as np
import pytest

from sparkflow_runtime.device.gpu_memory import GpuMemory
from sparkflow_runtime.errors import InvalidArgumentError
from support.fake_cupy import FakeCupy


def test_a_limit_is_the_pools():
    cupy = FakeCupy()
    memory = GpuMemory(cupy, 1, limit_bytes=1000)
    assert cupy.devices == [1]  # cupy sets the limit of the current GPU
    with cupy.cuda.using_allocator(memory.pool.malloc):
        cupy.empty(200, np.float32)
        with pytest.raises(MemoryError):
            cupy.empty(100, np.float32)
    assert memory.used_bytes() == memory.reserved_bytes() == 800


@pytest.mark.parametrize("limit", [0, -5])
def test_a_limit_is_a_positive_number(limit):
    with pytest.raises(InvalidArgumentError, match=rf"GPU:0 .* at most {limit} bytes"):
        GpuMemory(FakeCupy(), 0, limit)


def test_watching_finds_the_peak():
    cupy = FakeCupy()
    memory = GpuMemory(cupy, 0)
    with cupy.cuda.using_allocator(memory.pool.malloc):
        cupy.empty(10, np.uint8)
        with memory.watched() as use:
            cupy.empty(100, np.uint8)
            cupy.release(memory.pool, 100)
            cupy.empty(60, np.uint8)
        cupy.empty(5000, np.uint8)
    assert (use.peak_bytes, use.live_bytes, use.total_bytes) == (110, 70, 160)


def test_what_is_free_goes_back_when_asked():
    cupy = FakeCupy()
    memory = GpuMemory(cupy, 0)
    with cupy.cuda.using_allocator(memory.pool.malloc):
        cupy.empty(100, np.uint8)
    cupy.release(memory.pool, 100)
    assert (memory.used_bytes(), memory.reserved_bytes()) == (0, 100)
    memory.release()
    assert memory.reserved_bytes() == 0
