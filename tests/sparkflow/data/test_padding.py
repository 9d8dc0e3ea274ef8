import numpy as np
import pytest

import sparkflow as tf


def batches(rows, **padding):
    with tf.Graph().as_default(), tf.Session() as session:
        data = tf.data.Dataset.from_generator(lambda: iter(rows), tf.int64, [None])
        element = data.padded_batch(2, **padding).make_one_shot_iterator().get_next()
        found = []
        while True:
            try:
                found.append(session.run(element).tolist())
            except tf.errors.OutOfRangeError:
                return found, element.shape.as_list()


def test_up_to_the_longest_of_a_batch():
    found, shape = batches([[1], [2, 3], [4, 5, 6]], padded_shapes=[None])
    assert found == [[[1, 0], [2, 3]], [[4, 5, 6]]]
    assert shape == [None, None]


def test_up_to_a_size_that_is_given_with_a_value():
    found, shape = batches([[1], [2, 3]], padded_shapes=[4], padding_values=np.int64(-1))
    assert found == [[[1, -1, -1, -1], [2, 3, -1, -1]]]
    assert shape == [None, 4]


def test_a_row_that_is_longer_is_refused():
    with pytest.raises(tf.errors.DataLossError, match="3"):
        batches([[1], [4, 5, 6]], padded_shapes=[2])


@pytest.fixture
def pairs():
    with tf.Graph().as_default():
        rows = {"x": tf.zeros([4, 3]), "s": tf.constant(["a", "b", "c", "d"])}
        yield tf.data.Dataset.from_tensor_slices(rows)


def test_components_have_shapes_and_values_of_their_own(pairs):
    padded = pairs.padded_batch(2, {"x": [5], "s": []}, {"x": 7.0, "s": None})
    assert padded.output_shapes["x"].as_list() == [None, 5]
    assert padded.output_shapes["s"].as_list() == [None]
    with tf.Session() as session:
        found = session.run(padded.make_one_shot_iterator().get_next())
    assert found["x"].tolist() == [[0.0, 0.0, 0.0, 7.0, 7.0]] * 2
    assert found["s"].tolist() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("shapes", "values", "kind", "text"),
    [
        ({"x": [2], "s": []}, None, ValueError, "not compatible"),
        ({"x": [3, 3], "s": []}, None, ValueError, "not compatible"),
        ({"x": [3]}, None, ValueError, "same sequence length"),
        ({"x": [3], "s": []}, {"x": np.int32(1), "s": ""}, TypeError, "does not match"),
        ({"x": [3], "s": []}, {"x": [1.0], "s": ""}, ValueError, "should be a scalar"),
        ({"x": tf.float32, "s": []}, None, TypeError, "float32"),
    ],
)
def test_what_does_not_fit_is_refused(pairs, shapes, values, kind, text):
    with pytest.raises(kind, match=text):
        pairs.padded_batch(2, shapes, values)
