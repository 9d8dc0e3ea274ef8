"""Questions about columns beyond TensorFlow 2.21: tables from checkpoints, ranges, training."""

import numpy as np
import pytest

import sparkflow as tf

fc = tf.feature_column


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_an_integer_out_of_range_is_refused_without_a_default():
    column = fc.indicator_column(fc.categorical_column_with_identity("x", 3))
    out = fc.input_layer({"x": tf.constant([[3]])}, column)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError):
        session.run(out)


def test_a_table_starts_from_a_checkpoint(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.get_variable("old", initializer=[[1.0, 2.0], [3.0, 4.0]])
        session.run(table.initializer)
        path = tf.train.Saver([table]).save(session, str(tmp_path / "model"))
    column = fc.embedding_column(
        fc.categorical_column_with_identity("x", 2),
        2,
        ckpt_to_load_from=path,
        tensor_name_in_ckpt="old",
    )
    out = fc.input_layer({"x": tf.constant([[1], [0]])}, column)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(out).tolist() == [[3.0, 4.0], [1.0, 2.0]]


def test_gradients_of_tables_stay_sparse():
    column = fc.embedding_column(fc.categorical_column_with_identity("x", 50), 2)
    out = fc.input_layer({"x": tf.constant([[7], [3]])}, column)
    (variable,) = tf.trainable_variables()
    (gradient,) = tf.gradients(tf.reduce_sum(out), [variable])
    assert isinstance(gradient, tf.IndexedSlices)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert sorted(session.run(gradient.indices)) == [3, 7]


def test_a_linear_model_of_crosses_learns_exclusive_or():
    features = {"a": tf.constant([["0"], ["0"], ["1"], ["1"]]), "b": tf.constant(list("0101"))}
    labels = tf.constant([[0.0], [1.0], [1.0], [0.0]])
    out = fc.linear_model(features, [fc.crossed_column(["a", "b"], 100)])
    loss = tf.losses.mean_squared_error(labels, out)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            session.run(train)
        np.testing.assert_allclose(session.run(out), session.run(labels), atol=0.05)


def test_equal_columns_are_one_and_have_their_settings():
    first, second = (fc.categorical_column_with_hash_bucket("x", 5) for _ in range(2))
    assert first == second
    assert len({first, second}) == 1
    assert (first.key, first.hash_bucket_size, first.dtype) == ("x", 5, tf.string)
