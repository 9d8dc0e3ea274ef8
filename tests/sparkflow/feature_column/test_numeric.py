import numpy as np
import pytest

import sparkflow as tf

fc = tf.feature_column


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def layer(features, columns):
    with tf.Session() as session:
        out = fc.input_layer(features, columns)
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(out)


def test_numbers_come_as_float32_whatever_they_were():
    column = fc.numeric_column("x", shape=[2], dtype=tf.int64)
    found = layer({"x": [[1, 2], [3, 4]]}, column)
    assert found.dtype == np.float32
    assert found.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_shapes_are_flattened_and_columns_go_by_their_names():
    columns = [fc.numeric_column("b", shape=[2, 2]), fc.numeric_column("a")]
    found = layer({"b": np.arange(8.0).reshape(2, 2, 2), "a": [9.0, 8.0]}, columns)
    assert found.tolist() == [[9, 0, 1, 2, 3], [8, 4, 5, 6, 7]]


def test_a_normalizer_sees_the_feature_first():
    column = fc.numeric_column("x", normalizer_fn=lambda x: (x - 3.0) / 2.0)
    assert layer({"x": [[1.0], [7.0]]}, column).tolist() == [[-1.0], [2.0]]


def test_defaults_are_parsed_where_values_are_missing():
    column = fc.numeric_column("x", shape=[2], default_value=7.0)
    assert column.parse_example_spec == {"x": tf.FixedLenFeature((2,), tf.float32, (7.0, 7.0))}
    parsed = tf.parse_example([tf.train.Example().SerializeToString()], column.parse_example_spec)
    with tf.Session() as session:
        assert session.run(parsed["x"]).tolist() == [[7.0, 7.0]]


def test_each_boundary_belongs_to_the_bucket_above():
    column = fc.bucketized_column(fc.numeric_column("x"), [0.0, 10.0])
    found = layer({"x": [[-1.0], [0.0], [9.9], [10.0]]}, column)
    np.testing.assert_array_equal(found.argmax(1), [0, 1, 1, 2])
    assert found.sum(1).tolist() == [1.0] * 4
    assert column.num_buckets == 3
    assert column.name == "x_bucketized"


def test_numbers_of_an_example_have_buckets_of_their_own():
    column = fc.bucketized_column(fc.numeric_column("x", shape=[2]), [0.0])
    ids = column.id_weights(tf_features({"x": [[-1.0, 1.0], [1.0, -1.0]]})).ids
    with tf.Session() as session:
        assert session.run(ids.values).tolist() == [0, 3, 1, 2]
    assert column.num_buckets == 4


def tf_features(features):
    from sparkflow.feature_column.column import Features

    return Features(features)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: fc.numeric_column("x", shape=[1.5]), TypeError, "must be integer"),
        (lambda: fc.numeric_column("x", shape=[0]), ValueError, "greater than 0"),
        (lambda: fc.numeric_column("x", dtype=tf.string), ValueError, "convertible to float"),
        (lambda: fc.numeric_column("x", normalizer_fn=3), TypeError, "must be a callable"),
        (lambda: fc.numeric_column(3), ValueError, "key must be a string"),
        (lambda: fc.bucketized_column(fc.numeric_column("x"), []), ValueError, "not be empty"),
        (lambda: fc.bucketized_column(fc.numeric_column("x"), [2, 1]), ValueError, "sorted list"),
        (lambda: fc.bucketized_column(fc.numeric_column("x"), [1, 1]), ValueError, "sorted list"),
        (
            lambda: fc.bucketized_column(fc.numeric_column("x", shape=[2, 2]), [1.0]),
            ValueError,
            "one-dimensional",
        ),
        (
            lambda: fc.bucketized_column(fc.categorical_column_with_identity("x", 2), [1.0]),
            ValueError,
            "numeric_column",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_a_sparse_feature_is_no_number():
    sparse = tf.SparseTensor([[0, 0]], [1.0], [2, 1])
    with pytest.raises(ValueError, match=r"SparseTensor is not supported. key: x"):
        fc.input_layer({"x": sparse}, fc.numeric_column("x"))


def test_boundaries_may_be_an_array_or_a_column_of_pandas():
    source = fc.numeric_column("x")
    assert fc.bucketized_column(source, np.float32([1, 2.5])).boundaries == (1.0, 2.5)
    with pytest.raises(ValueError, match="boundaries must not be empty"):
        fc.bucketized_column(source, np.array([]))
    with pytest.raises(ValueError, match=r"sorted list.*2\.0 is before 1\.0"):
        fc.bucketized_column(source, np.array([2.0, 1.0]))
    with pytest.raises(ValueError, match="boundaries must be a sorted list"):
        fc.bucketized_column(source, np.array([[1.0, 2.0]]))
    pandas = pytest.importorskip("pandas")
    assert fc.bucketized_column(source, pandas.Series([1, 2])).boundaries == (1, 2)
