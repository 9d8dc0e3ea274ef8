import numpy as np
import pytest

from sparkflow_runtime.ops.pooling import pool_ops
from support.pooling import Row


def gradient_of(images, row):
    pooled = pool_ops.MaxPool.run(np, row.pooling, images)
    given = np.ones_like(pooled)
    return pool_ops.MaxPoolGrad.run(np, row.pooling, images, pooled, given)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
def test_padding_never_gets_a_gradient(dtype):
    """As in TensorFlow, even if nothing is larger than the value of padding."""
    lowest = -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min
    images = np.full((1, 3, 1, 1), lowest, dtype)
    row = Row("NHWC", images.shape, (3, 1), (1, 1), "SAME", dtype)
    np.testing.assert_array_equal(gradient_of(images, row).ravel(), [2, 1, 0])


@pytest.mark.parametrize("name", ["MaxPool", "AvgPool"])
def test_images_without_windows(name):
    """As in TensorFlow there are none if less than a stride is missing."""
    row = Row("NHWC", (2, 5, 1, 4), (2, 2), (2, 3))
    images = np.ones(row.images, np.float32)
    assert getattr(pool_ops, name).run(np, row.pooling, images).shape == (2, 2, 0, 4)
    assert not gradient_of(images, row).any()
