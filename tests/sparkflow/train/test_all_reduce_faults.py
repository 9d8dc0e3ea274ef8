"""Collectives between processes: results over any transport, and the errors of survivors."""

import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.ops.distributed import collective as collective_ops
from sparkflow.train.replication.all_reduce import AllReduceReplication
from sparkflow_runtime.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.testing.local_cluster import LocalCluster

DEADLINE_S = 90
TIMEOUT_S = 60.0


class Workers:
    """A separate session for each worker, used in concurrent threads."""

    def __init__(self, cluster, count):
        self.cluster = cluster
        self.count = count

    def run(self, call):
        """Runs the call on all workers; returns each result, or the error raised."""
        results = [None] * self.count

        def run(worker):
            try:
                with tf.Graph().as_default(), tf.device(f"/job:worker/task:{worker}"):
                    results[worker] = call(worker)
            except OpError as error:
                results[worker] = error

        threads = [threading.Thread(target=run, args=(worker,)) for worker in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        return results

    def session(self, worker):
        return tf.Session(self.cluster.target("worker", worker))


def reduced(value, size=3, instance=1):
    return collective_ops.all_reduce(value, size, 1, instance, timeout=TIMEOUT_S)


@pytest.fixture
def workers():
    with LocalCluster(0, 3, processes=True) as cluster:
        yield Workers(cluster, 3)


def test_large_tensors_between_processes_step_after_step(workers):
    steps = 6

    def call(worker):
        start = np.arange(600_000, dtype=np.float32) % 97 + worker
        own = tf.Variable(start)
        step = tf.Variable(1.0)
        total = reduced(own * step)
        mean = tf.reduce_mean(total)
        advance = step.assign_add(1.0)
        with workers.session(worker) as session:
            session.run(tf.global_variables_initializer())
            found = []
            for _ in range(steps):
                # Others may read what the last run left while this rank continues.
                found.append(session.run([mean, total[:5], total[-5:]]))
                session.run(advance)
            return found

    results = workers.run(call)
    base = 3 * (np.arange(600_000) % 97) + 3.0
    for result in results:
        for number, (mean, first, last) in enumerate(result, 1):
            np.testing.assert_array_equal(first, base[:5] * number)
            np.testing.assert_array_equal(last, base[-5:] * number)
            np.testing.assert_allclose(mean, base.mean() * number, rtol=1e-5)


def test_buffers_are_used_again_step_after_step(monkeypatch):
    """Fresh shared memory for every run takes three times as long as the sum."""
    count, allocated = 600_000, []
    allocate = Resources.allocate

    def counted(self, shape, dtype):
        if tuple(shape) == (count,):
            allocated.append(threading.get_ident())
        return allocate(self, shape, dtype)

    monkeypatch.setattr(Resources, "allocate", counted)

    def call(worker):
        own = tf.placeholder(tf.float32, [count])
        mean = tf.reduce_mean(reduced(own, size=2))
        with workers.session(worker) as session:
            fed = {own: np.full(count, worker + 1.0, np.float32)}
            return [session.run(mean, fed) for _ in range(8)]

    with LocalCluster(0, 2) as cluster:
        workers = Workers(cluster, 2)
        assert workers.run(call) == [[3.0] * 8] * 2
    assert len(allocated) == 2 * 2, "two buffers alternate on each rank"


def test_a_worker_that_is_killed_ends_the_others(workers):
    waiting = threading.Barrier(3)

    def call(worker):
        total = reduced(tf.ones([100_000]))
        with workers.session(worker) as session:
            session.run(total.op)
            waiting.wait(DEADLINE_S)
            if worker == 2:
                workers.cluster.kill("worker", 2)
                return None
            session.run(total.op)

    first, second, _ = workers.run(call)
    for error in (first, second):
        assert isinstance(error, UnavailableError | AbortedError)
        assert "instance 1 of group 1" in error.message
        # Directly, or through the other one, which noticed it first.
        assert "/job:worker/replica:0/task:2" in error.message


def test_a_worker_that_runs_another_graph_is_named(workers):
    def call(worker):
        total = reduced(tf.ones([10 + (worker == 1)]))
        with workers.session(worker) as session:
            return session.run(total)

    for error in workers.run(call):
        assert isinstance(error, InvalidArgumentError)
        assert "rank 1 (/job:worker/replica:0/task:1/device:CPU:0)" in error.message
        assert "[11]" in error.message
        assert "[10]" in error.message


def test_a_session_that_is_closed_leaves_and_all_may_begin_again(workers):
    closed = threading.Barrier(3)

    def call(worker):
        total = reduced(tf.ones([50_000]) * (worker + 1.0))
        with workers.session(worker) as session:
            assert session.run(total)[0] == 6
            if worker:
                with pytest.raises((FailedPreconditionError, AbortedError), match="rank 0"):
                    session.run(total)
        closed.wait(DEADLINE_S)
        with workers.session(worker) as session:
            return session.run(total)[-1]

    assert workers.run(call) == [6, 6, 6]


def test_a_step_that_fails_ends_the_others(workers):
    def call(worker):
        total = reduced(tf.ones([10]))
        with tf.control_dependencies([total]):
            broken = tf.check_numerics(tf.constant(np.nan if worker == 0 else 1.0), "no number")
        with tf.control_dependencies([broken]):
            again = reduced(total, instance=2)
        with workers.session(worker) as session:
            session.run(total)
            session.run(again)

    first, *others = workers.run(call)
    assert isinstance(first, InvalidArgumentError)
    assert "no number" in first.message
    for error in others:
        assert isinstance(error, FailedPreconditionError | AbortedError)
        assert "rank 0" in error.message


def test_monitored_sessions_begin_again_when_a_worker_comes_back(tmp_path):
    with LocalCluster(0, 2, processes=True) as cluster:
        workers = Workers(cluster, 2)
        killed = threading.Event()

        def call(worker):
            strategy = AllReduceReplication(replica=worker, num_replicas=2, timeout_s=TIMEOUT_S)
            with strategy.scope():
                step = tf.train.get_or_create_global_step()
                v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
                loss = tf.reduce_sum(tf.square(v - 1.0))
                optimizer = tf.train.GradientDescentOptimizer(0.25)
                train_op = optimizer.minimize(loss, global_step=step)
            with tf.train.MonitoredTrainingSession(
                cluster.target("worker", worker),
                checkpoint_dir=str(tmp_path) if worker == 0 else None,
                save_checkpoint_steps=2,
                save_checkpoint_secs=None,
                hooks=[strategy.make_session_run_hook(), tf.train.StopAtStepHook(last_step=12)],
            ) as session:
                while not session.should_stop():
                    _, value, number = session.run([train_op, v, step])
                    if worker == 1 and number >= 5 and not killed.is_set():
                        killed.set()
                        cluster.kill("worker", 1)
                        cluster.restart("worker", 1)
            return value

        first, second = workers.run(call)
        for value in (first, second):
            if isinstance(value, OpError):
                raise value
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, 1, atol=1e-2)
