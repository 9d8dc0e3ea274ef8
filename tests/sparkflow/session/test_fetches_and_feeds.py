import collections

import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


@pytest.mark.parametrize(
    ("fetch", "error", "text"),
    [
        (None, TypeError, "Fetch argument None has invalid type"),
        (3, TypeError, "Fetch argument 3 has invalid type.*must be a string or Tensor"),
        (
            "nope:0",
            ValueError,
            "'nope:0' cannot be interpreted as a Tensor.*'nope', does not exist",
        ),
        ("nope", ValueError, "'nope' cannot be interpreted as a Tensor"),
        ("x:7", ValueError, "only has 1 outputs"),
        ([["x:0", 1.5]], TypeError, "Fetch argument 1.5 has invalid type"),
        ({"a": None}, TypeError, "None"),
        (np.ones(3), TypeError, "invalid type"),
    ],
    ids=str,
)
def test_what_cannot_be_fetched_is_named(session, fetch, error, text):
    tf.constant(1.0, name="x")
    with pytest.raises(error, match=text):
        session.run(fetch)


def test_tensors_of_another_graph_cannot_be_fetched_or_fed(session):
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    x = tf.constant(1.0)
    with pytest.raises(ValueError, match="not an element of this graph"):
        session.run(other)
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
        session.run(x, {other: 1.0})


def test_marks_of_the_graph_are_obeyed(session):
    x, y = tf.constant(1.0), tf.constant(2.0)
    x.graph.prevent_feeding(x)
    x.graph.prevent_fetching(y.op)
    with pytest.raises(ValueError, match="may not be fed"):
        session.run(x, {x: 2.0})
    with pytest.raises(ValueError, match="not fetchable"):
        session.run(y)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ([[1.0, 2.0]], ValueError, r"shape \(1, 2\) for Tensor 'x:0', which has shape '\(\?, 3\)'"),
        (1.0, ValueError, r"shape \(\) for Tensor 'x:0'"),
        ("a", ValueError, "Cannot feed str for Tensor 'x:0' of type float32"),
        ([[1.0], [1.0, 2.0]], ValueError, "Tensor 'x:0'"),
        (None, ValueError, "Tensor 'x:0'"),
    ],
    ids=str,
)
def test_a_feed_that_does_not_fit_names_the_placeholder_its_line_and_both_shapes(
    session, value, error, text
):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with pytest.raises(error, match=text) as raised:
        session.run(x, {x: value})
    if value is not None:
        assert "test_fetches_and_feeds.py:" in str(raised.value)


def test_tensors_and_too_large_integers_cannot_be_fed(session):
    x = tf.placeholder(tf.int8, [], name="x")
    with pytest.raises(TypeError, match=r"cannot be a tf.Tensor object"):
        session.run(x, {x: tf.constant(1.0)})
    with pytest.raises(
        TypeError, match=r"300 with type.*not compatible with Tensor type <class .numpy.int8"
    ):
        session.run(x, {x: 300})
    with pytest.raises(TypeError, match="feed_dict must map tensors"):
        session.run(x, [x])


def test_feeds_are_cast_as_numpy_casts(session):
    x = tf.placeholder(tf.float32, [None])
    for value in ([1, 2], np.array([1, 2]), (1.0, 2.0), np.array([1.0, 2.0]), [True, 2]):
        result = session.run(x, {x: value})
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, [1.0, 2.0])
    backwards = np.arange(4, dtype=np.float32)[::-2]
    np.testing.assert_array_equal(session.run(x + 0.0, {x: backwards}), [3.0, 1.0])


def test_texts_can_be_fed(session):
    x = tf.placeholder(tf.string, [None])
    assert session.run(x, {x: ["a", b"b"]}).tolist() == [b"a", b"b"]


def test_keys_may_be_nested(session):
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    z = x - y
    assert session.run(z, {(x, y): (5.0, 2.0)}) == 3.0
    assert session.run(z, {(x, (y,)): [5.0, [1.0]]}) == 4.0
    with pytest.raises(ValueError, match=r"has 2 parts, its value has 1"):
        session.run(z, {(x, y): [1.0]})


def test_a_fed_variable_is_read_as_fed(session):
    w = tf.Variable(1.0)
    assert session.run(w * 2.0, {w.value(): 4.0}) == 8.0


def test_a_defaultdict_is_fetched_as_one(session):
    found = session.run(collections.defaultdict(list, {"a": tf.constant(1)}))
    assert found == {"a": 1}
    assert found.default_factory is list
