"""What a tensor of a graph knows and rejects before anything runs."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.ir.node import Endpoint


@pytest.fixture
def x():
    with tf.Graph().as_default():
        yield tf.placeholder(tf.float32, [None, 3], name="x")


def test_it_is_named_by_its_operation_and_output(x):
    first, second = tf.unstack(x, 2, axis=0, name="rows")
    assert (x.name, first.name, second.name) == ("x:0", "rows:0", "rows:1")
    assert second.endpoint == Endpoint("rows", 1)
    assert (second.op, second.value_index) == (first.op, 1)


def test_knowledge_of_its_shape_is_added_and_never_contradicted(x):
    x.set_shape([2, None])
    assert x.shape.as_list() == [2, 3]
    with pytest.raises(ValueError, match=r"x:0"):
        x.set_shape([5, 3])
    assert x.ndim == 2
    assert tf.placeholder(tf.float32).ndim is None


def test_tensors_are_told_apart_by_identity(x):
    same, other = x, tf.identity(x)
    assert x == same
    assert x != other
    assert {x, same, other} == {x, other}


def test_it_finds_the_operations_that_read_it(x):
    doubled, _ = tf.add(x, x, name="doubled"), tf.constant(1.0)
    assert x.consumers() == [doubled.op]


@pytest.mark.parametrize(
    ("use", "error", "advice"),
    [
        (bool, TypeError, "tf.where"),
        (len, TypeError, "x.shape"),
        (iter, TypeError, "tf.unstack"),
        (float, TypeError, "tf.cast"),
        (int, TypeError, "tf.cast"),
        (lambda x: x.numpy, AttributeError, "session.run"),
        (np.asarray, NotImplementedError, "x:0"),
    ],
)
def test_python_and_numpy_are_told_that_it_has_no_value(x, use, error, advice):
    with pytest.raises(error, match=advice):
        use(x)


def test_eval_wants_a_session_of_its_graph(x):
    one = tf.constant(1.0)
    with pytest.raises(ValueError, match="No default session"):
        one.eval()
    with tf.Session() as session:
        assert one.eval() == 1.0
        with tf.Graph().as_default():
            stranger = tf.constant(2.0)
        with pytest.raises(ValueError, match="different"):
            stranger.eval()
        with pytest.raises(ValueError, match="different"):
            stranger.eval(session=session)
