"""What the rows of the table of ops do not say of reductions."""

import numpy as np
import pytest

import sparkflow as tf


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
