"""An endless loop is ended by its step's time limit, by its session, and by its client."""

import threading
import time

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.leaks import assert_idle, assert_nothing_left
from sparkflow_runtime.testing.local_cluster import LocalCluster

WAIT_S = 20
SHORT_S = 5
"""The time in which a step must end when told to; others are given up after ten seconds."""


def of_python(x):
    def turn(i, a):
        copied = tf.py_func(np.copy, [a], tf.float32)
        copied.set_shape([2])
        return i * 1, copied

    return tf.while_loop(lambda i, a: tf.less(i, 1), turn, [0, x])[1]


def of_kernels(x):
    return tf.while_loop(lambda i, a: i >= 0, lambda i, a: (i * 1, a * 0.5), [0, x])[1]


def of_variable_shapes(x):
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    return tf.while_loop(
        lambda i, a: i >= 0, lambda i, a: (i * 1, tf.concat([a, x], 0)[:3]), [0, x], shapes
    )[1]


def in_a_branch(x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: of_kernels(x), lambda: x)


def in_a_loop(x):
    return tf.while_loop(lambda i, a: i < 9, lambda i, a: (i + 1, of_kernels(a)), [0, x])[1]


def in_a_function(x):
    return tf.map_fn(lambda row: of_kernels(row * x), tf.ones([2, 2]))


KINDS = [of_python, of_kernels, of_variable_shapes, in_a_branch, in_a_loop, in_a_function]


class Asked:
    """A step in a separate thread."""

    def __init__(self, session, fetch, feeds, options=None):
        self.error = None
        self.took_s = 0.0

        def run():
            began = time.monotonic()
            try:
                session.run(fetch, feeds, options)
            except (tf.errors.OpError, RuntimeError) as error:
                self.error = error
            self.took_s = time.monotonic() - began

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def end(self):
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        return self.error


def is_at_rest():
    """Whether no thread of this process is computing any more."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        before = time.process_time()
        time.sleep(0.2)
        if time.process_time() - before < 0.1:
            return True
    return False


@pytest.fixture(params=["general", "planned"])
def plans(request):
    if request.param == "planned":
        request.getfixturevalue("plans_at_once")


@pytest.fixture(scope="module")
def cluster():
    with assert_nothing_left(), LocalCluster(num_ps=0, num_workers=2) as made:
        yield made
        assert_idle(made.servers)


def graph_of(kind):
    x = tf.placeholder(tf.float32, [2])
    return x, kind(x)


@pytest.mark.usefixtures("plans")
@pytest.mark.parametrize("kind", KINDS)
def test_a_time_ends_it(kind):
    x, y = graph_of(kind)
    with tf.Session() as session:
        for _ in range(2):
            asked = Asked(session, y, {x: [1, 2]}, tf.RunOptions(timeout_in_ms=300))
            assert isinstance(asked.end(), tf.errors.DeadlineExceededError)
            assert asked.took_s < SHORT_S
        assert is_at_rest()


@pytest.mark.usefixtures("plans")
@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_the_session_ends_it(kind):
    x, y = graph_of(kind)
    session = tf.Session()
    asked = Asked(session, y, {x: [1, 2]})
    time.sleep(0.3)
    session.close()
    assert isinstance(asked.end(), (tf.errors.CancelledError, RuntimeError))
    assert asked.took_s < SHORT_S
    assert is_at_rest()


@pytest.mark.parametrize("way", ["time", "session"])
@pytest.mark.parametrize("kind", [of_python, of_kernels, in_a_branch])
@pytest.mark.parametrize("task", [0, 1])
def test_it_is_ended_on_servers(cluster, kind, way, task):
    x = tf.placeholder(tf.float32, [2])
    with tf.device(f"/job:worker/task:{task}"):
        y = kind(x)
    session = tf.Session(cluster.target("worker", 0))
    options = tf.RunOptions(timeout_in_ms=500) if way == "time" else None
    asked = Asked(session, y, {x: [1, 2]}, options)
    time.sleep(0.3)
    if way == "session":
        session.close()
    assert isinstance(asked.end(), (tf.errors.OpError, RuntimeError))
    assert asked.took_s < SHORT_S
    assert is_at_rest()
    session.close()
