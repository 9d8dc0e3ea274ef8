"""What the rows of the table of ops do not test of reductions."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime import dtypes
from sparkflow_runtime.ops import registry


@pytest.mark.parametrize("axes", [[1], [-1, 0], [0, 1, 2], []])
def test_the_gradient_of_a_product_is_the_same_where_axes_are_not_known(axes):
    values = np.random.default_rng(0).normal(size=(2, 3, 4))
    values[1, :, 2] = 0
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(values)
        fed = tf.placeholder(tf.int32, [None])
        known, unknown = (
            tf.gradients(tf.reduce_prod(x, each), x)[0]
            for each in (tf.constant(axes, tf.int32), fed)
        )
        found = session.run([known, unknown], {fed: axes})
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_])
def test_positions_of_extremes_are_numpys(op: str, dtype: type) -> None:
    """The first one of equal elements, and of NaNs; along short and long axes."""
    numbers = np.random.default_rng(0)
    compute, function = registry.lookup(op).compute, getattr(np, op.lower())
    for shape in ((7,), (300,), (40, 20), (3, 300), (5, 6, 7), (2, 300, 9), (0, 3)):
        value = numbers.integers(0, 9, shape).astype(dtype)
        if np.issubdtype(dtype, np.floating):
            value[numbers.random(shape) < 0.05] = np.nan
        for axis in range(len(shape)):
            if not shape[axis]:
                continue
            for given in (value, np.asfortranarray(value), value[::-1]):
                found = compute(np, given, np.array(axis), output_type=dtypes.int64)
                np.testing.assert_array_equal(found, function(given, axis))
