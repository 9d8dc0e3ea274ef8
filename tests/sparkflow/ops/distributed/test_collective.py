"""`collective_ops` between the devices of one session, and what they reject."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.ops.distributed import collective


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def on_devices(count, build):
    made = []
    for index in range(count):
        with tf.device(f"/cpu:{index}"):
            made.append(build(index))
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": count})) as session:
        return session.run(made)


@pytest.mark.parametrize(
    ("merge", "final", "expected"),
    [
        ("Add", "Id", 6),
        ("Add", "Div", 2),
        ("Max", "Id", 3),
        ("Min", "Id", 1),
        ("Mul", "Id", 6),
    ],
)
def test_all_reduce(merge, final, expected):
    def build(index):
        value = tf.ones([2, 3]) * (index + 1.0)
        return collective.all_reduce(value, 3, 1, 1, merge, final) + 0.0

    for result in on_devices(3, build):
        np.testing.assert_array_equal(result, np.full((2, 3), expected))


def test_large_tensors_and_several_instances():
    def build(index):
        value = tf.range(100_000, dtype=tf.float32) + float(index)
        first = collective.all_reduce(value, 2, 1, 1)
        return collective.all_reduce(first[:10] * 2.0, 2, 1, 2)

    for result in on_devices(2, build):
        np.testing.assert_array_equal(result, 4 * (2 * np.arange(10) + 1))


def test_all_gather():
    def build(index):
        return collective.all_gather(tf.fill([index + 1, 2], index), 2, 1, 1)

    for result in on_devices(2, build):
        np.testing.assert_array_equal(result, [[0, 0], [1, 1], [1, 1]])


def test_broadcast():
    def build(index):
        if index == 1:
            value = tf.constant([1.5, 2.5])
            return collective.broadcast_send(value, [2], tf.float32, 3, 1, 1)
        return collective.broadcast_recv([2], tf.float32, 3, 1, 1)

    for result in on_devices(3, build):
        np.testing.assert_array_equal(result, [1.5, 2.5])


def test_a_group_has_at_least_two_ranks():
    x = tf.ones([2])
    with pytest.raises(ValueError, match="group_size to all_reduce must be at least 2"):
        collective.all_reduce(x, 1, 1, 1)
    with pytest.raises(ValueError, match="group_size to all_gather must be at least 2"):
        collective.all_gather(x, 1, 1, 1)
    with pytest.raises(ValueError, match="group_size to broadcast_send must be at least 2"):
        collective.broadcast_send(x, [2], tf.float32, 1, 1, 1)
    with pytest.raises(ValueError, match="group_size to broadcast_recv must be at least 2"):
        collective.broadcast_recv([2], tf.float32, 1, 1, 1)


def test_what_is_sent_is_what_was_declared():
    x = tf.ones([2])
    with pytest.raises(ValueError, match="Shape of broadcast_send tensor not equal"):
        collective.broadcast_send(x, [3], tf.float32, 2, 1, 1)
    with pytest.raises(ValueError, match="Type of broadcast_send tensor not equal"):
        collective.broadcast_send(x, [2], tf.int32, 2, 1, 1)
