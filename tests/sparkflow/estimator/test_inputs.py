"""Input functions of arrays and tables."""

import numpy as np
import pytest

import sparkflow as tf

X = {"a": np.arange(5), "b": np.arange(10.0).reshape(5, 2), "c": np.array(list("vwxyz"))}
Y = np.arange(5) * 10


def taken(input_fn):
    """Returns all values until the end."""
    found = []
    with tf.Graph().as_default():
        tensors = input_fn()
        with tf.Session() as session:
            for _ in range(10):
                try:
                    found.append(session.run(tensors))
                except tf.errors.OutOfRangeError:
                    return found
    raise AssertionError("the input does not end")


def test_batches_run_across_epochs_and_the_last_is_shorter():
    given = tf.estimator.inputs.numpy_input_fn(X, Y, batch_size=3, num_epochs=2, shuffle=False)
    found = taken(given)
    assert [features["a"].tolist() for features, _ in found] == [
        [0, 1, 2],
        [3, 4, 0],
        [1, 2, 3],
        [4],
    ]
    features, labels = found[1]
    assert labels.tolist() == [30, 40, 0]
    assert features["b"].tolist() == X["b"][[3, 4, 0]].tolist()
    assert features["c"].tolist() == [b"y", b"z", b"v"]


def test_shapes_and_dtypes_are_known():
    with tf.Graph().as_default():
        features, labels = tf.estimator.inputs.numpy_input_fn(X, Y, 2, shuffle=True)()
    assert {key: (t.dtype, t.shape.as_list()) for key, t in features.items()} == {
        "a": (tf.int64, [None]),
        "b": (tf.float64, [None, 2]),
        "c": (tf.string, [None]),
    }
    assert labels.shape.as_list() == [None]


def test_shuffled_rows_are_all_there_and_stay_together():
    found = taken(tf.estimator.inputs.numpy_input_fn(X, Y, batch_size=5, shuffle=True))
    ((features, labels),) = found
    assert sorted(features["a"]) == [0, 1, 2, 3, 4]
    assert labels.tolist() == (features["a"] * 10).tolist()


def test_features_and_labels_without_names_or_with():
    (only,) = taken(tf.estimator.inputs.numpy_input_fn(X["b"], shuffle=False))
    assert only.shape == (5, 2)
    ((_, labels),) = taken(tf.estimator.inputs.numpy_input_fn(X, {"y": Y}, shuffle=False))
    assert labels["y"].tolist() == Y.tolist()


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        ([1, 2], None, TypeError, "x must be a dict or array"),
        ({}, None, ValueError, "x cannot be an empty dict"),
        ({"a": X["a"]}, Y[:3], ValueError, "Length of tensors in x and y is mismatched"),
        ({"a": X["a"]}, {}, ValueError, "y cannot be empty dict"),
        ({"a": X["a"]}, {"a": Y}, ValueError, "duplicate keys are found"),
    ],
)
def test_arrays_that_do_not_fit(x, y, error, message):
    with pytest.raises(error, match=message):
        tf.estimator.inputs.numpy_input_fn(x, y, shuffle=False)()


def test_shuffling_must_be_said():
    with pytest.raises(ValueError, match="shuffle must be provided and explicitly set as boolean"):
        tf.estimator.inputs.numpy_input_fn(X, Y)


def test_tables():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    labels = pandas.Series([10.0, 20.0, 30.0])
    given = tf.estimator.inputs.pandas_input_fn(table, labels, batch_size=2, shuffle=False)
    (first, first_labels), (second, _) = taken(given)
    assert first["a"].tolist() == [1, 2]
    assert first_labels.tolist() == [10.0, 20.0]
    assert second["b"].tolist() == [b"z"]
    shifted = pandas.Series([1.0, 2.0, 3.0], index=[1, 2, 3])
    with pytest.raises(ValueError, match="Index for x and y are mismatched"):
        tf.estimator.inputs.pandas_input_fn(table, shifted, shuffle=False)


def test_a_table_that_changes_later_is_fed_as_it_was():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1, 2]})
    labels = pandas.Series([3.0, 4.0])
    given = tf.estimator.inputs.pandas_input_fn(table, labels, shuffle=False)
    table.loc[0, "a"] = labels[0] = 99
    ((features, found),) = taken(given)
    assert features["a"].tolist() == [1, 2]
    assert found.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("missing", [None, float("nan"), 3])
def test_columns_of_texts_have_texts_only(missing):
    pandas = pytest.importorskip("pandas")
    words = np.array(["x", missing], object)
    inputs = tf.estimator.inputs
    text = f"Unsupported object type {type(missing).__name__}.* at position 1"
    with pytest.raises(tf.errors.InternalError, match=text):
        taken(inputs.numpy_input_fn({"a": words}, shuffle=False))
    with pytest.raises(tf.errors.InternalError, match=text):
        taken(inputs.pandas_input_fn(pandas.DataFrame({"a": words}), shuffle=False))
