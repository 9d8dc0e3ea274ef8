"""Arrays joined on a CPU and on a GPU: alike, and on a GPU in a way that can be captured."""

import numpy as np
import pytest

from sparkflow_runtime.ops.kernels.joining import concatenated, stacked
from support.fake_cupy import FakeCupy

RNG = np.random.default_rng(0)
RAGGED = [RNG.normal(size=(2, size, 3)) for size in (1, 0, 4)]
ALIKE = [RNG.normal(size=(2, 4, 3)) for _ in range(3)]


@pytest.mark.parametrize(
    ("join", "numpys", "arrays", "axis"),
    [
        *[(concatenated, np.concatenate, RAGGED, axis) for axis in (1, -2)],
        *[(concatenated, np.concatenate, ALIKE, axis) for axis in (0, 2)],
        *[(stacked, np.stack, ALIKE, axis) for axis in (0, 1, 3, -1)],
    ],
)
def test_arrays_are_joined_as_by_numpy_also_while_a_stream_is_recorded(join, numpys, arrays, axis):
    expected = numpys(arrays, axis)
    np.testing.assert_array_equal(join(np, arrays, axis), expected)
    cupy = FakeCupy()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        given = [cupy.asarray(array) for array in arrays]
        stream.begin_capture()
        joined = join(cupy, given, axis)
        graph = stream.end_capture()
        graph.launch(stream)
        np.testing.assert_array_equal(cupy.asnumpy(joined), expected)
