"""`safe_embedding_lookup_sparse` for ids of known and unknown rank."""

import numpy as np
import pytest

import sparkflow as tf


@pytest.mark.parametrize("shape", [None, (None, None), (2, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_ids_of_any_rank(shape, weighted):
    table = np.arange(20, dtype=np.float32).reshape(10, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.sparse_placeholder(tf.int64, shape)
        weights = tf.sparse_placeholder(tf.float32, shape) if weighted else None
        found = tf.nn.safe_embedding_lookup_sparse(tf.constant(table), ids, weights, combiner="sum")
        places = [[0, 0], [0, 2], [1, 1]]
        feed = {ids: tf.SparseTensorValue(places, [3, -1, 4], [2, 3])}
        if weights is not None:
            feed[weights] = tf.SparseTensorValue(places, [2.0, 1.0, 1.0], [2, 3])
        expected = np.stack([table[3] * (2 if weighted else 1), table[4]])
        np.testing.assert_array_equal(session.run(found, feed), expected)


def test_rows_of_ids_of_three_dimensions():
    table = np.arange(20, dtype=np.float32).reshape(10, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.sparse_placeholder(tf.int64)
        found = tf.nn.safe_embedding_lookup_sparse(tf.constant(table), ids, combiner="mean")
        given = tf.SparseTensorValue([[0, 1, 0], [1, 0, 1]], [2, 5], [2, 2, 2])
        result = session.run(found, {ids: given})
        assert result.shape == (2, 2, 2)
        np.testing.assert_array_equal(result[[0, 1], [1, 0]], table[[2, 5]])
        assert not result[0, 0].any()
