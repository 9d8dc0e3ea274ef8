import numpy as np

from sparkflow_runtime.device.pinned import MIN_BUFFER_BYTES, PinnedStaging
from support.fake_cupy import FakeCupy


def setup(depth=4):
    cupy = FakeCupy()
    return cupy, PinnedStaging(cupy, depth), cupy.cuda.Stream(non_blocking=True)


def test_the_host_array_may_change_before_the_copy_is_done():
    cupy, staging, stream = setup()
    host = np.arange(6.0).reshape(2, 3)
    array = staging.copy(host, stream)
    host[...] = -1
    assert type(array) is cupy.ndarray
    assert not (array.memory == np.arange(6).reshape(2, 3)).any()  # nothing has been copied yet
    stream.synchronize()
    np.testing.assert_array_equal(array.memory, np.arange(6).reshape(2, 3))


def test_a_buffer_is_written_again_only_after_its_copy():
    """More pending copies than buffers: the oldest one is waited for."""
    cupy, staging, stream = setup(depth=2)
    arrays = [staging.copy(np.full(5, number), stream) for number in range(7)]
    assert len(cupy.pinned) == 2
    stream.synchronize()
    for number, array in enumerate(arrays):
        np.testing.assert_array_equal(array.memory, np.full(5, number))


def test_a_buffer_whose_copy_is_done_is_used_again():
    cupy, staging, stream = setup()
    for _ in range(5):
        staging.copy(np.ones(5000), stream)
        stream.synchronize()
    assert cupy.pinned == [65536]
    assert staging.pinned_bytes() == 65536


def test_sizes_have_rings_of_their_own():
    cupy, staging, stream = setup()
    given = [np.ones(3, bool), np.ones(()), np.float32(4), np.ones((40, 50), np.int64)]
    arrays = [staging.copy(each, stream) for each in given]
    stream.synchronize()
    for array, each in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(array.memory, each)
        assert (array.dtype, array.shape) == (each.dtype, each.shape)
    assert sorted(cupy.pinned) == [MIN_BUFFER_BYTES] * 3 + [16384]


def test_a_given_array_is_filled():
    cupy, staging, stream = setup()
    target = cupy.empty((2, 2), np.float32)
    assert staging.copy(np.eye(2, dtype=np.float32), stream, target) is target
    stream.synchronize()
    np.testing.assert_array_equal(target.memory, np.eye(2))


def test_other_strides_and_no_elements():
    cupy, staging, stream = setup()
    turned = staging.copy(np.arange(6).reshape(2, 3).T, stream)
    empty = staging.copy(np.ones((0, 3)), stream)
    stream.synchronize()
    np.testing.assert_array_equal(turned.memory, [[0, 3], [1, 4], [2, 5]])
    assert empty.shape == (0, 3)
    assert len(cupy.pinned) == 1
