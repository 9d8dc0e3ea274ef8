"""What is kept of a feed after its step does not change when the caller reuses the array."""

import numpy as np
import pytest

import sparkflow as tf

Dataset = tf.data.Dataset


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def of_dataset(make):
    """What is run with the feed, and what gives it back later."""

    def keeper(x):
        iterator = tf.data.make_initializable_iterator(make(x))
        return iterator.initializer, iterator.get_next()

    return keeper


def of_queue(queue, many):
    def keeper(x):
        made = queue(x)
        put = made.enqueue_many([x]) if many else made.enqueue([x])
        return put, made.dequeue_many(3) if many else made.dequeue()

    return keeper


def table(x):
    made = tf.lookup.MutableHashTable(tf.int64, tf.float32, np.zeros(2, np.float32))
    keys = tf.constant([0, 1, 2], tf.int64)
    return made.insert(keys, x), made.lookup(keys)


def staged(x):
    area = tf.contrib.staging.StagingArea([tf.float32], [[3, 2]])
    return area.put([x]), area.get()


def variable(x, **kind):
    v = tf.get_variable("v", [3, 2], initializer=tf.zeros_initializer(), **kind)
    return tf.group(v.initializer, v.assign(x)), v.read_value()


def accumulated(x):
    made = tf.ConditionalAccumulator(tf.float32, [3, 2])
    return made.apply_grad(x), made.take_grad(1)


KEEPERS = {
    "slices": of_dataset(lambda x: Dataset.from_tensor_slices(x).batch(3)),
    "tensors": of_dataset(Dataset.from_tensors),
    "captured": of_dataset(lambda x: Dataset.range(1).map(lambda i: x)),
    "captured by threads": of_dataset(
        lambda x: Dataset.range(1).map(lambda i: x, num_parallel_calls=2)
    ),
    "flat_map": of_dataset(lambda x: Dataset.range(1).flat_map(lambda i: Dataset.from_tensors(x))),
    "scan": of_dataset(
        lambda x: Dataset.range(1).apply(tf.data.experimental.scan(x, lambda s, i: (s, s)))
    ),
    "shuffle": of_dataset(lambda x: Dataset.from_tensors(x).shuffle(2).repeat(1)),
    "cache": of_dataset(lambda x: Dataset.from_tensors(x).cache()),
    "prefetch": of_dataset(lambda x: Dataset.from_tensors(x).prefetch(1)),
    "fifo": of_queue(lambda x: tf.FIFOQueue(9, tf.float32, [[3, 2]]), False),
    "fifo, many": of_queue(lambda x: tf.FIFOQueue(9, tf.float32, [[2]]), True),
    "shuffling": of_queue(lambda x: tf.RandomShuffleQueue(9, 0, tf.float32, [[3, 2]]), False),
    "padding": of_queue(lambda x: tf.PaddingFIFOQueue(9, tf.float32, [[None, 2]]), False),
    "table": table,
    "staging area": staged,
    "variable": lambda x: variable(x, use_resource=False),
    "resource variable": lambda x: variable(x, use_resource=True),
    "accumulator": accumulated,
}


@pytest.mark.parametrize("change", [lambda x: x, lambda x: tf.reshape(x, [3, 2]), tf.identity])
@pytest.mark.parametrize("keeper", KEEPERS.values(), ids=KEEPERS)
def test_the_caller_may_reuse_the_array(keeper, change):
    x = tf.placeholder(tf.float32, [3, 2])
    keep, give = keeper(change(x))
    given = np.arange(6, dtype=np.float32).reshape(3, 2)
    expected = given.copy()
    with tf.Session() as session:
        session.run(keep, {x: given})
        given[:] = -1
        np.testing.assert_array_equal(np.squeeze(session.run(give)), expected)
        assert (given == -1).all()


def test_a_handle_keeps_its_tensor():
    x = tf.placeholder(tf.float32, [3])
    given = np.arange(3, dtype=np.float32)
    with tf.Session() as session:
        handle = session.run(tf.get_session_handle(x), {x: given})
        given[:] = -1
        np.testing.assert_array_equal(handle.eval(), [0, 1, 2])
