"""Columns of sequences, in addition to `scripts/differential/feature_column.py`."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.feature_column.sequence import sequence_input_layer

fc = tf.feature_column


def sparse(rows, dtype):
    """A sparse matrix of rows of different lengths."""
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = np.array([value for row in rows for value in row], dtype)
    longest = max(len(row) for row in rows)
    return tf.SparseTensor(np.reshape(places, [-1, 2]), values, [len(rows), longest])


def ran(features, columns):
    values, lengths = sequence_input_layer(features, columns)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run([values, lengths])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_numbers_are_filled_up():
    column = fc.sequence_numeric_column("x", default_value=-1.0)
    values, lengths = ran({"x": sparse([[1, 2, 3], [], [4]], np.float32)}, [column])
    assert values[..., 0].tolist() == [[1, 2, 3], [-1, -1, -1], [4, -1, -1]]
    assert lengths.tolist() == [3, 0, 1]


def test_steps_of_several_numbers():
    column = fc.sequence_numeric_column("x", shape=(2,))
    values, lengths = ran({"x": sparse([[1, 2, 3, 4], [5, 6]], np.float32)}, [column])
    assert values.tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert lengths.tolist() == [2, 1]


def test_categories_beside_each_other_in_the_order_of_names():
    ids = fc.sequence_categorical_column_with_identity("b", 3)
    table = np.float32([[0, 1], [2, 3], [4, 5]])
    columns = [
        fc.indicator_column(ids),
        fc.embedding_column(
            fc.sequence_categorical_column_with_vocabulary_list("a", ["p", "q", "r"]),
            2,
            initializer=lambda *_, **__: tf.constant(table),
        ),
    ]
    features = {"a": sparse([["q"], ["r", "p"]], "S1"), "b": sparse([[2], [0, 1]], np.int64)}
    values, lengths = ran(features, columns)
    assert values[0].tolist() == [[2, 3, 0, 0, 1], [0, 0, 0, 0, 0]]
    assert values[1].tolist() == [[4, 5, 1, 0, 0], [0, 1, 0, 1, 0]]
    assert lengths.tolist() == [1, 2]


def test_features_of_unknown_rank_go_into_a_recurrent_network():
    ids = fc.sequence_categorical_column_with_identity("b", 3)
    columns = [
        fc.embedding_column(fc.sequence_categorical_column_with_hash_bucket("a", 9), 2),
        fc.indicator_column(ids),
        fc.sequence_numeric_column("c"),
    ]
    given = {
        "a": sparse([["q"], ["r", "p"]], object),
        "b": sparse([[2], [0, 1]], np.int64),
        "c": sparse([[2.0], [0.5, 1.0]], np.float32),
    }
    fed = {name: tf.sparse_placeholder(each.dtype) for name, each in given.items()}
    assert all(each.dense_shape.shape.as_list() == [None] for each in fed.values())
    values, lengths = sequence_input_layer(fed, columns)
    assert values.shape.as_list() == [None, None, 6]
    cell = tf.nn.rnn_cell.GRUCell(4)
    outputs, _ = tf.nn.dynamic_rnn(cell, values, tf.cast(lengths, tf.int32), dtype=tf.float32)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        feeds = {fed[name]: session.run(each) for name, each in given.items()}
        numbers, made = session.run([values, outputs], feeds)
    assert numbers[..., 2:].tolist() == [
        [[0, 0, 1, 2.0], [0, 0, 0, 0]],
        [[1, 0, 0, 0.5], [0, 1, 0, 1.0]],
    ]
    assert made.shape == (2, 2, 4)
    assert not made[0, 1].any()


def test_columns_that_are_no_sequences_are_refused():
    with pytest.raises(ValueError, match="must be of type SequenceDenseColumn"):
        sequence_input_layer({"x": tf.constant([[1.0]])}, [fc.numeric_column("x")])


def test_contrib_offers_the_layer():
    assert tf.contrib.feature_column.sequence_input_layer is not None
    with pytest.raises(AttributeError, match="mixed precision"):
        tf.train.experimental  # noqa: B018  # for the error


def test_columns_of_one_layer_have_sequences_of_the_same_lengths():
    features = {
        "a": sparse([[1, 2], [3]], np.float32),
        "b": sparse([[1, 2], [3, 4]], np.float32),
        "c": sparse([[4, 5], [6]], np.int64),
    }
    numbers, longer = (fc.sequence_numeric_column(name) for name in "ab")
    ids = fc.indicator_column(fc.sequence_categorical_column_with_identity("c", 7))
    _, lengths = ran(features, [numbers, ids])
    assert lengths.tolist() == [2, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"same lengths.*\[2 1\].*\[2 2\]"):
        ran(features, [numbers, longer])


@pytest.mark.parametrize("shape", [[2, 0], [0, 0], [0, 3], [2, 0, 0], [2, 0, 3]])
def test_batches_may_have_no_steps(shape):
    places = tf.constant(np.zeros([0, len(shape)], np.int64))
    words = tf.SparseTensor(places, tf.constant([], tf.string), shape)
    features = {
        "n": tf.SparseTensor(places, tf.constant([], tf.float32), shape),
        "w": words,
        "i": tf.SparseTensor(places, tf.constant([], tf.int64), shape),
    }
    hashed = fc.sequence_categorical_column_with_hash_bucket("w", 5)
    ids = fc.sequence_categorical_column_with_identity("i", 3)
    columns = [
        fc.sequence_numeric_column("n"), fc.indicator_column(ids), fc.embedding_column(hashed, 2)
    ]  # fmt: skip
    for column, size in zip(columns, [1, 3, 2], strict=True):
        values, lengths = ran(features, [column])
        assert values.shape == (shape[0], 0 if shape[0] else values.shape[1], size)
        assert lengths.tolist() == [0] * shape[0]
