import numpy as np

from sparkflow_runtime.device.gpu_memory import GpuMemory
from sparkflow_runtime.device.gpu_stream import GpuStream, StreamOrder
from support.fake_cupy import FakeCupy


def two_streams():
    cupy = FakeCupy()
    memory, order = GpuMemory(cupy, 2), StreamOrder()
    return cupy, memory, [GpuStream(cupy, 2, memory, order) for _ in range(2)]


def test_a_run_has_its_stream_its_gpu_and_its_pool():
    cupy, memory, (first, second) = two_streams()
    default = cupy.cuda.get_current_stream()
    cupy.devices.clear()
    with first.running() as stream:
        assert stream is cupy.cuda.get_current_stream() is first.stream
        cupy.empty(3, np.float32)
    assert first.stream is not second.stream
    assert cupy.cuda.get_current_stream() is default
    assert cupy.devices == [2]
    assert cupy.allocations == [memory.pool]
    assert memory.used_bytes() == 12


def test_work_waits_for_what_returned_before_on_another_stream():
    _, _, (first, second) = two_streams()
    done = []
    with first.running() as stream:
        stream.put(lambda: done.append("first"))
    with second.running() as stream:
        stream.put(lambda: done.append("second"))
    assert done == []  # the host continued
    second.synchronize()
    assert done == ["first", "second"]


def test_a_run_does_not_wait_for_later_ones():
    _, _, (first, second) = two_streams()
    done = []
    with second.running() as stream:
        stream.put(lambda: done.append("second"))
    with first.running() as stream:
        stream.put(lambda: done.append("first"))
    second.synchronize()
    assert done == ["second"]


def test_a_failed_run_is_in_order_too():
    _, _, (first, second) = two_streams()
    done = []
    try:
        with first.running() as stream:
            stream.put(lambda: done.append("first"))
            raise ValueError
    except ValueError:
        pass
    with second.running():
        pass
    second.synchronize()
    assert done == ["first"]


def test_streams_that_are_gone_are_forgotten():
    cupy, memory, (first, _) = two_streams()
    order = StreamOrder()
    gone = GpuStream(cupy, 2, memory, order)
    with gone.running() as stream:
        stream.put(lambda: None)
    assert len(order._ends) == 1
    del gone
    assert len(order._ends) == 0
    order.begin(first)
    assert not first.stream._queue
