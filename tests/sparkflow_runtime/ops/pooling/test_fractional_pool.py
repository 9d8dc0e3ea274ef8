"""FractionalMaxPool, FractionalAvgPool, FractionalMaxPoolGrad and FractionalAvgPoolGrad."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.ops.pooling.fractional_pool import borders


@pytest.mark.parametrize("pseudo_random", [False, True])
@pytest.mark.parametrize(("size", "wanted"), [(9, 6), (8, 5), (10, 10), (7, 4)])
def test_borders_leave_windows_of_two_sizes(pseudo_random, size, wanted):
    for seed in range(20):
        found = borders(np.random.default_rng(seed), size, wanted, pseudo_random)
        assert (found[0], found[-1], len(found)) == (0, size, wanted + 1)
        assert set(np.diff(found)) <= {size // wanted, size // wanted + 1}


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_windows_and_gradients(kind, overlapping):
    x = np.random.RandomState(3).rand(2, 9, 8, 3)
    pool = {"max": tf.nn.fractional_max_pool, "avg": tf.nn.fractional_avg_pool}[kind]
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant(x)
        out = pool(given, [1.0, 1.5, 1.4, 1.0], overlapping=overlapping, deterministic=True, seed=1)
        assert out.output.shape.as_list() == [2, 6, 5, 3]
        assert out.row_pooling_sequence.shape.as_list() == [7]
        y, rows, columns = session.run(out)
        reduce = {"max": np.max, "avg": np.mean}[kind]
        for i in range(6):
            for j in range(5):
                down = slice(rows[i], rows[i + 1] + overlapping)
                across = slice(columns[j], columns[j + 1] + overlapping)
                np.testing.assert_allclose(reduce(x[:, down, across], (1, 2)), y[:, i, j])
        error = tf.test.compute_gradient_error(
            given, list(x.shape), out.output, [2, 6, 5, 3], x_init_value=x, delta=1e-5
        )
        assert error < 1e-6


def test_ratios_are_checked():
    with tf.Graph().as_default():
        for wrong in ([2.0, 1.5, 1.4, 1.0], [1.0, 0.5, 1.4, 1.0], [1.0, 1.5, 1.4, 2.0]):
            with pytest.raises(ValueError, match="pooling_ratio has 4 numbers of at least 1"):
                tf.nn.fractional_max_pool(tf.zeros([1, 4, 4, 1]), wrong)
        with tf.Session(), pytest.raises(tf.errors.InvalidArgumentError, match="are too few"):
            tf.nn.fractional_avg_pool(tf.zeros([1, 2, 4, 1]), [1.0, 3.0, 1.0, 1.0])[0].eval()
