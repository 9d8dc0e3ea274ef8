"""Barrier, BarrierInsertMany, BarrierTakeMany, BarrierClose, BarrierReadySize,
BarrierIncompleteSize."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.queues.barrier import Barrier


@pytest.fixture
def barrier():
    with tf.Graph().as_default():
        yield Barrier((tf.float32, tf.int32), shapes=((), (2,)))


def test_elements_are_given_out_when_they_are_complete(barrier):
    first = barrier.insert_many(0, ["a", "b"], [10.0, 20.0])
    second = barrier.insert_many(1, ["b"], [[1, 2]])
    sizes = [barrier.ready_size(), barrier.incomplete_size()]
    indices, keys, values = barrier.take_many(1)
    assert [each.shape.as_list() for each in values] == [[None], [None, 2]]
    with tf.Session() as session:
        session.run(first)
        assert session.run(sizes) == [0, 2]
        session.run(second)
        assert session.run(sizes) == [1, 1]
        found = session.run([indices, keys, *values])
        np.testing.assert_equal(found, [[-(2**63) + 1], [b"b"], [20], [[1, 2]]])


def test_a_component_is_given_once(barrier):
    insert = barrier.insert_many(0, ["a"], [1.0])
    with tf.Session() as session:
        session.run(insert)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Key a already has a value"):
            session.run(insert)


def test_a_closed_barrier_completes_what_it_has(barrier):
    old, new = (barrier.insert_many(0, [key], [1.0]) for key in "ab")
    rest = barrier.insert_many(1, ["a"], [[1, 2]])
    few, many = barrier.take_many(2, allow_small_batch=True), barrier.take_many(2)
    with tf.Session() as session:
        session.run(old)
        session.run(barrier.close())
        with pytest.raises(tf.errors.CancelledError, match="a brand new key: b"):
            session.run(new)
        with pytest.raises(tf.errors.OutOfRangeError, match="requested 2, total size 1"):
            session.run(many[1])
        session.run(rest)
        assert session.run(few[1]).tolist() == [b"a"]
        with pytest.raises(tf.errors.OutOfRangeError, match="requested 2, total size 0"):
            session.run(few[1])
        session.run(barrier.close(cancel_pending_enqueues=True))
        with pytest.raises(tf.errors.CancelledError, match="already closed"):
            session.run(barrier.close())


def test_shapes_must_be_as_many_as_types():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="1 types and 2 shapes"):
        Barrier((tf.float32,), shapes=((), ()))
