import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_tensors_stay_in_the_session(session):
    kept = session.run(tf.get_session_handle(tf.constant([1.0, 2.0]) * 5))
    holder, tensor = tf.get_session_tensor(kept.handle, tf.float32)
    np.testing.assert_array_equal(session.run(tensor * 2, {holder: kept.handle}), [10, 20])
    np.testing.assert_array_equal(kept.eval(), [5, 10])
    assert str(kept) == kept.handle == kept.get_raw_handle()
    holder, deleter = tf.delete_session_tensor(kept.handle)
    session.run(deleter, {holder: kept.handle})
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
        kept.eval()
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
        kept.delete()


def test_handles_can_be_fed_for_values(session):
    x = tf.placeholder(tf.float32)
    kept = session.run({"a": tf.get_session_handle(3.0)})["a"]
    assert session.run(x + 1, {x: kept}) == 4.0


def test_other_types_are_refused(session):
    kept = session.run(tf.get_session_handle(3.0))
    holder, tensor = tf.get_session_tensor(kept.handle, tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="is of type float32, not int32"):
        session.run(tensor, {holder: kept})


def test_handles_are_not_known_in_other_sessions(session):
    kept = session.run(tf.get_session_handle(3.0))
    holder, tensor = tf.get_session_tensor(kept.handle, tf.float32)
    with tf.Session() as other, pytest.raises(tf.errors.InvalidArgumentError, match="not in the"):
        other.run(tensor, {holder: kept.handle})


def test_a_handle_of_another_dtype_is_not_fed_for_values(session):
    kept = session.run(tf.get_session_handle(tf.constant([1.7, 2.7])))
    y = tf.placeholder(tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"of type int32.*of type float32"):
        session.run(y + 1, {y: kept})
