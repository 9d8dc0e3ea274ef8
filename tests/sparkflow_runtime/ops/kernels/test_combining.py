"""Values combined in place: on a CPU in order, on a GPU by functions for its arrays."""

import numpy as np

from sparkflow_runtime.ops.kernels.combining import combine_at
from support.fake_cupy import FakeCupy

PLACES = np.array([2, 0, 2], np.int64)


def test_every_value_counts_in_its_order():
    whole = np.array([1, 1, 1e8], np.float32)
    combine_at(np, "add", whole, PLACES, np.array([1, 2, -1e8], np.float32))
    assert whole.tolist() == [3, 1, 0]  # 1 is lost in 1e8, as it comes first


def test_arrays_of_a_gpu_are_combined_there():
    cupy = FakeCupy()
    whole = cupy.asarray(np.zeros(3, np.float64))
    combine_at(cupy, "subtract", whole, cupy.asarray(PLACES), cupy.asarray(np.ones(3)))
    assert cupy.asnumpy(whole).tolist() == [-1, 0, -2]
