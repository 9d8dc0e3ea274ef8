import numpy as np
import pytest

import sparkflow as tf

ARRAY = np.arange(60).reshape(3, 4, 5)


@pytest.mark.parametrize(
    "key",
    [
        1,
        -1,
        slice(1, 3),
        slice(None, None, -1),
        (slice(None), 2),
        (0, slice(1, None, 2), -1),
        (Ellipsis, 1),
        (1, Ellipsis),
        (None, 1),
        (Ellipsis, None),
        (slice(-2, None), slice(None), slice(4, 1, -1)),
        (2, 3, 4),
        np.int64(1),
    ],
    ids=str,
)
def test_parts_are_those_of_numpy(key):
    with tf.Graph().as_default(), tf.Session() as session:
        part = tf.constant(ARRAY)[key]
        assert part.shape == ARRAY[key].shape
        np.testing.assert_array_equal(session.run(part), ARRAY[key])
        variable = tf.Variable(ARRAY)
        session.run(variable.initializer)
        np.testing.assert_array_equal(session.run(variable[key]), ARRAY[key])


def test_tensors_as_indices():
    with tf.Graph().as_default(), tf.Session() as session:
        i = tf.placeholder(tf.int32, [])
        x = tf.constant(ARRAY)
        part, block = session.run([x[i, :, 1], x[:i]], {i: 2})
    np.testing.assert_array_equal(part, ARRAY[2, :, 1])
    np.testing.assert_array_equal(block, ARRAY[:2])


def test_lists_are_tuples_and_booleans_masks():
    session, x = tf.Session(), tf.constant(ARRAY)
    mask = np.arange(len(ARRAY)) % 2 == 0
    np.testing.assert_array_equal(session.run(x[[0, 1]]), ARRAY[0, 1])
    np.testing.assert_array_equal(session.run(x[mask]), ARRAY[mask])
    np.testing.assert_array_equal(session.run(x[x > 3]), ARRAY[ARRAY > 3])
    with pytest.raises(ValueError, match="mask cannot be scalar"):
        x[True]


@pytest.mark.parametrize("key", ["a", [0, "a"], 1.5, (True, 0), (0, "a")], ids=str)
def test_other_indices_are_refused(key):
    with tf.Graph().as_default(), pytest.raises(TypeError, match="valid indices"):
        tf.constant(ARRAY)[key]


@pytest.mark.parametrize("shape", [[4, 1], [None, 1]])
def test_the_gradient_of_a_masked_variable_is_dense(shape):
    with tf.Graph().as_default(), tf.Session() as session:
        ones = tf.placeholder_with_default(np.ones([4, 1], np.float32), shape)
        x = tf.Variable(ones, validate_shape=shape[0] is not None)
        row = tf.placeholder(tf.int32, [])
        for masked in (
            tf.boolean_mask(x, tf.equal(tf.range(4), row)),
            x[tf.equal(tf.range(4), row)],
        ):
            assert isinstance(tf.gradients(masked, x)[0], tf.Tensor)
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        train = optimizer.minimize(tf.reduce_sum(masked))
        session.run(tf.global_variables_initializer())
        for number in (0, 1, 1):
            session.run(train, {row: number})
        # The momentum of row 0 goes on, as in TensorFlow 2.21.
        np.testing.assert_allclose(session.run(x)[:, 0], [0.729, 0.71, 1, 1], rtol=1e-6)
