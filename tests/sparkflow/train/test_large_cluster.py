"""64 workers and 12 parameter servers in one process train like a single one.

Each pair is a call that waits for tensors: 16 servers would need all threads of a process.
"""

import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.leaks import assert_idle, assert_nothing_left
from sparkflow_runtime.testing.local_cluster import LocalCluster

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

NUM_PS, NUM_WORKERS, STEPS, ROWS = 12, 64, 2, 2
WAIT_S = 300


def data():
    """Returns a batch of ROWS rows per worker and step."""
    random = np.random.RandomState(7)
    inputs = random.rand(STEPS, NUM_WORKERS, ROWS, NUM_PS).astype(np.float32)
    labels = inputs.sum(axis=-1, keepdims=True) + 0.1
    return inputs, labels.astype(np.float32)


def model(optimizer):
    """A linear model with one weight per parameter server; returns a step and what it trains."""
    x = tf.placeholder(tf.float32, [None, NUM_PS])
    y = tf.placeholder(tf.float32, [None, 1])
    weights = [
        tf.get_variable(f"w{index}", [1, 1], initializer=tf.zeros_initializer())
        for index in range(NUM_PS)
    ]
    loss = tf.reduce_mean(tf.square(tf.matmul(x, tf.concat(weights, 0)) - y))
    step = tf.train.get_or_create_global_step()
    return x, y, weights, optimizer.minimize(loss, global_step=step)


def train_alone():
    inputs, labels = data()
    with tf.Graph().as_default():
        x, y, weights, train = model(tf.train.GradientDescentOptimizer(0.05))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for features, targets in zip(inputs, labels, strict=True):
                feeds = {x: features.reshape(-1, NUM_PS), y: targets.reshape(-1, 1)}
                sess.run(train, feeds)
            return sess.run(weights)


def train_on(cluster, make_optimizer, in_step=False):
    """Between-graph training in one thread per worker; returns the final weights and step.

    With `in_step`, no worker begins a step before all have completed the last one: a worker that is
    ahead takes the tokens of others.
    """
    inputs, labels = data()
    errors, values = [], []

    def work(index):
        try:
            with starting, tf.Graph().as_default():
                mine = f"/job:worker/task:{index}"
                with tf.device(tf.train.replica_device_setter(NUM_PS, worker_device=mine)):
                    optimizer, hooks = make_optimizer(index)
                    x, y, weights, train = model(optimizer)
                assert {each.device for each in weights} == {
                    f"/job:ps/task:{ps}" for ps in range(NUM_PS)
                }
                target = cluster.target("worker", index)
                config = tf.ConfigProto(device_filters=["/job:ps", mine])
                if index == 0:
                    sess = tf.train.MonitoredTrainingSession(target, hooks=hooks, config=config)
                    initialised.set()
                else:
                    assert initialised.wait(WAIT_S)
                    sess = tf.Session(target, config=config)
                    sess.run(getattr(optimizer, "local_step_init_op", tf.no_op()))
                fetches = [*weights, tf.train.get_global_step()]
            for step in range(STEPS):
                if in_step:
                    together.wait(WAIT_S)
                sess.run(train, {x: inputs[step, index], y: labels[step, index]})
            together.wait(WAIT_S)
            if index == 1:
                values.append(sess.run(fetches))
            sess.close()
        except Exception as error:
            errors.append(error)
            initialised.set()
            together.abort()

    starting = threading.Semaphore(4)  # 64 at once would mostly wait for one another.
    initialised, together = threading.Event(), threading.Barrier(NUM_WORKERS)
    threads = [threading.Thread(target=work, args=(index,)) for index in range(NUM_WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not errors, errors[0]
    return values[0]


@pytest.fixture(scope="module")
def cluster():
    with assert_nothing_left(60), LocalCluster(NUM_PS, NUM_WORKERS) as made:
        yield made
        assert_idle(made.servers, 90)  # If closing took too long, the lease ends a session.


@pytest.fixture(autouse=True)
def _fresh(cluster):
    yield
    tf.Session.reset(cluster.target("ps", 0), config=tf.ConfigProto(device_filters=["/job:ps"]))


def test_synchronous_training_equals_a_single_process(cluster):
    def make_optimizer(index):
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.05), NUM_WORKERS, NUM_WORKERS
        )
        return optimizer, [optimizer.make_session_run_hook(index == 0, num_tokens=0)]

    *weights, step = train_on(cluster, make_optimizer, in_step=True)
    assert step == STEPS
    np.testing.assert_allclose(np.ravel(weights), np.ravel(train_alone()), rtol=1e-5)


def test_asynchronous_training_counts_every_step_and_learns(cluster):
    def make_optimizer(index):
        return tf.train.GradientDescentOptimizer(0.001, use_locking=True), []

    *weights, step = train_on(cluster, make_optimizer)
    assert step == NUM_WORKERS * STEPS
    assert all(0.0 < float(np.ravel(weight)[0]) < 2.0 for weight in weights)
