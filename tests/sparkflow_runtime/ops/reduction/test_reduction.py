"""What the rows of the table of ops do not test of reductions."""

from types import SimpleNamespace

import ml_dtypes
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
@pytest.mark.parametrize(
    "dtype",
    [
        np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int32, np.int64, np.uint8,
        np.bool_,
    ],
)  # fmt: skip
def test_positions_of_extremes_pass_nan(op: str, dtype: type) -> None:
    """The first one of equal elements, and 0 among NaNs only; along short and long axes."""
    numbers = np.random.default_rng(0)
    compute, function = registry.lookup(op).compute, getattr(np, op.lower())
    for shape in ((7,), (300,), (40, 20), (3, 300), (5, 6, 7), (2, 300, 9), (0, 3)):
        value = numbers.integers(0, 9, shape).astype(dtype)
        plain = value
        if dtypes.as_dtype(dtype).is_floating:
            value[numbers.random(shape) < 0.05] = np.nan
            value[..., :1] = np.nan
            value[-1:] = np.nan
            plain = np.where(np.isnan(value), dtype(-np.inf if op == "ArgMax" else np.inf), value)
        for axis in range(len(shape)):
            if not shape[axis]:
                continue
            for kept in (np.array, np.asfortranarray, lambda x: x[::-1]):
                found = compute(np, kept(value), np.array(axis), output_type=dtypes.int64)
                np.testing.assert_array_equal(found, function(kept(plain), axis))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_positions_of_extremes_are_those_of_tensorflow(dtype):
    nan, inf = np.nan, np.inf
    rows = [
        [0, nan, nan], [nan, 0, 0], [nan, 1, 2], [1, nan, 2], [2, nan, 1], [1, 2, nan],
        [nan, nan, nan], [nan, -inf, nan], [nan, inf, nan], [-inf, nan, -inf],
    ]  # fmt: skip
    x = np.array(rows, dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(dtype)
        most, least = session.run([tf.argmax(fed, 1), tf.argmin(fed, 1)], {fed: x})
        across, constant = session.run([tf.argmax(fed, 0), tf.argmax(x.T, 0)], {fed: x.T})
        single = [session.run(tf.argmax(fed), {fed: row}) for row in x]
    assert most.tolist() == [0, 1, 2, 2, 0, 1, 0, 0, 1, 0]
    assert least.tolist() == [0, 1, 1, 0, 2, 0, 0, 1, 0, 0]
    for found in (across, constant, np.array(single)):
        assert found.tolist() == most.tolist()


def test_positions_of_extremes_pass_nan_where_a_gpus_arrays_are_searched():
    gpus = SimpleNamespace(argmax=np.argmax, argmin=np.argmin, fmax=np.fmax, fmin=np.fmin)
    x = np.array([[0, np.nan], [np.nan, 0], [np.nan, np.nan]], np.float32)
    for op in ("ArgMax", "ArgMin"):
        compute = registry.lookup(op).compute
        found = compute(gpus, x, np.array(1), output_type=dtypes.int64)
        assert found.tolist() == [0, 1, 0]
