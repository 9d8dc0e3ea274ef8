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


@pytest.mark.parametrize(
    ("given", "words", "kind"),
    [
        (np.array(["a", "b"]), ("a", "b"), tf.string),
        (np.array(["a", "b"], object), ("a", "b"), tf.string),
        (np.array([5, 7]), (5, 7), tf.int64),
        (np.array([0]), (0,), tf.int64),
        (range(2), (0, 1), tf.int64),
    ],
)
def test_vocabularies_may_be_arrays(given, words, kind):
    column = fc.categorical_column_with_vocabulary_list("x", given)
    assert (column.vocabulary_list, column.dtype, column.num_buckets) == (words, kind, len(words))
    assert type(column.vocabulary_list[0]) is type(words[0])


def test_vocabularies_may_be_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": ["b", "a", "b"]})
    for given in (table["x"].unique(), table["x"][:2], pandas.Index(["b", "a"])):
        column = fc.categorical_column_with_vocabulary_list("x", given)
        assert column.vocabulary_list == ("b", "a")


@pytest.mark.parametrize(
    ("given", "text"),
    [(np.array([]), "must be non-empty"), (np.array(["a", "a"]), "Duplicate keys in")],
)
def test_arrays_are_checked_as_lists_are(given, text):
    with pytest.raises(ValueError, match=text):
        fc.categorical_column_with_vocabulary_list("x", given)


def test_features_that_are_crossed_may_be_named_in_an_array():
    assert fc.crossed_column(np.array(["x", "y"]), 5).name == "x_X_y"
    with pytest.raises(ValueError, match="keys must be a list with length > 1"):
        fc.crossed_column(np.array(["x"]), 5)


@pytest.mark.parametrize("kind", [tf.uint8, tf.uint16, tf.uint32, tf.uint64])
def test_categories_may_be_unsigned(kind):
    largest = kind.max  # TensorFlow's -1, which stands for no category
    features = {"x": tf.constant(np.array([[1], [2], [largest]], kind.as_numpy_dtype))}
    columns = [
        fc.indicator_column(fc.categorical_column_with_identity("x", 3)),
        fc.indicator_column(fc.categorical_column_with_vocabulary_list("x", [1, 2], dtype=kind)),
    ]
    out = [fc.input_layer(features, column) for column in columns]
    column = fc.categorical_column_with_hash_bucket("x", 5, dtype=kind)
    hashed = fc.input_layer(features, fc.indicator_column(column))
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        numbers, places = session.run(out)
        counts = session.run(hashed).sum(1)
    assert numbers.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert places.tolist() == [[1, 0], [0, 1], [0, 0]]
    assert counts.tolist() == [1, 1, 0]


@pytest.mark.parametrize("kind", [tf.int64, tf.float32])
def test_a_weight_of_minus_one_counts(kind):
    words = fc.categorical_column_with_vocabulary_list("x", ["a", "b"])
    column = fc.indicator_column(fc.weighted_categorical_column(words, "w", dtype=kind))
    features = {"x": tf.constant([["a"], ["b"]]), "w": tf.constant([[-1], [3]], kind)}
    out = fc.input_layer(features, column)
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        assert session.run(out).tolist() == [[-1, 0], [0, 3]]
