"""Stage, Unstage, StagePeek, StageSize and StageClear, through `StagingArea`."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.queues.staging import StagingArea


def test_elements_leave_in_order_and_peeking_leaves_them():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2])
        area = StagingArea([tf.float32], shapes=[[2]])
        put, size = area.put(x), area.size()
        (taken,), (seen,) = area.get(), area.peek(1)
        assert (put.type, taken.op.type, taken.shape.as_list()) == ("Stage", "Unstage", [2])
        for value in (1.0, 2.0):
            session.run(put, {x: [value, value]})
        assert session.run(size) == 2
        assert session.run(seen).tolist() == [2, 2]
        assert session.run(taken).tolist() == [1, 1]
        session.run(area.clear())
        assert session.run(size) == 0


def test_named_components_are_dictionaries():
    with tf.Graph().as_default(), tf.Session() as session:
        area = StagingArea([tf.float32, tf.int32], names=["a", "b"], capacity=3, memory_limit=100)
        put = area.put({"b": tf.constant([1, 2]), "a": tf.constant(1.0)})
        assert (area.capacity, area.memory_limit, area.names) == (3, 100, ["a", "b"])
        session.run(put)
        found = session.run(area.get())
        assert found["a"] == 1
        np.testing.assert_equal(found["b"], [1, 2])


def test_a_full_area_makes_the_step_wait_until_its_time_is_over():
    with tf.Graph().as_default(), tf.Session() as session:
        area = StagingArea([tf.float32], capacity=1)
        put = area.put(tf.constant(1.0))
        session.run(put)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(put, options=tf.RunOptions(timeout_in_ms=50))
        session.run(area.clear())
        session.run(put)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StagingArea([tf.float32], shared_name=3), "shared_name must be a string, got 3"),
        (lambda: StagingArea([tf.float32], shapes=[[], []]), "shapes must be the same length"),
        (lambda: StagingArea([tf.float32], names=["a", "b"]), "names must be the same length"),
        (lambda: StagingArea([tf.float32]).put({"a": 1.0}), "must have names to enqueue a dict"),
        (lambda: StagingArea([tf.float32]).put([1.0, 2.0]), "Unexpected number of inputs 2 vs 1"),
        (lambda: StagingArea([tf.float32], names=["a"]).put([1.0]), "You must enqueue a dict"),
        (lambda: StagingArea([tf.float32], names=["a"]).put({"c": 1.0}), "do not match names of"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        make()
