"""Memory for messages: reused when nothing refers to it, and not before."""

import gc

import numpy as np

from sparkflow_runtime.transport.channel.buffers import KEPT, LEAST_POOLED_BYTES, BufferPool

SIZE = LEAST_POOLED_BYTES


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_memory_is_used_again_once_every_view_is_gone() -> None:
    pool = BufferPool()
    first = pool.take(SIZE)
    place = address(first)
    view = first[16:48].view(np.float32).reshape(2, 4)[1]
    del first
    other = pool.take(SIZE)
    assert address(other) != place
    view[:] = 1  # what is held can be written
    del view
    again = pool.take(SIZE)
    assert address(again) == place
    assert again.shape == (SIZE,)
    assert again.flags.writeable


def test_other_sizes_get_other_memory() -> None:
    pool = BufferPool()
    pool.take(SIZE)
    larger = pool.take(2 * SIZE)
    assert larger.nbytes == 2 * SIZE
    assert len(pool._free) == 0  # the small one made room


def test_a_pool_keeps_few_buffers() -> None:
    pool = BufferPool()
    taken = [pool.take(SIZE) for _ in range(10)]
    taken.clear()
    gc.collect()
    assert len(pool._free) == KEPT


def test_no_bytes_at_all() -> None:
    assert BufferPool().take(0).nbytes == 0


def test_small_messages_get_memory_of_their_own() -> None:
    pool = BufferPool()
    first = pool.take(SIZE - 1)
    assert first.nbytes == SIZE - 1
    del first
    assert len(pool._free) == 0
