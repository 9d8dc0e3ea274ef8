import threading

import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster


def test_closing_ends_a_step_that_waits():
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(1, tf.float32)
        item, size = queue.dequeue(), queue.size()
        session = tf.Session()
        assert session.run(size) == 0
        raised = []
        begun = threading.Event()

        def wait():
            begun.set()
            try:
                session.run(item)
            except Exception as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        begun.wait()
        session.close()
        thread.join()
    (error,) = raised  # RuntimeError when the thread came too late
    assert isinstance(error, tf.errors.CancelledError | RuntimeError)


def test_reset_closes_the_sessions_of_this_process_and_drops_their_variables():
    with tf.Graph().as_default():
        v = tf.Variable(1.0)
        session = tf.Session()
        session.run(v.initializer)
        tf.Session.reset("")
        with pytest.raises(tf.errors.CancelledError, match=r"Session has been closed\."):
            session.run(v)
        error = tf.errors.FailedPreconditionError
        with tf.Session() as fresh, pytest.raises(error, match="uninitialized value"):
            fresh.run(v)


def test_sessions_of_a_server_share_variables_unless_isolated():
    with LocalCluster(1, 1) as cluster, tf.Graph().as_default():
        target = f"grpc://{cluster.address('worker', 0)}"
        with tf.device("/job:ps/task:0"):
            v = tf.Variable(1.0)
        alone = tf.ConfigProto(isolate_session_state=True)
        with tf.Session(target) as first, tf.Session(target) as second:
            first.run(v.initializer)
            assert second.run(v) == 1.0
            with tf.Session(target, config=alone) as third:
                with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
                    third.run(v)
                third.run(v.initializer)
                assert third.run(v.assign_add(4.0)) == 5.0
            assert first.run(v) == 1.0


def test_graphs_may_grow_while_other_threads_run():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        base = tf.constant(1.0)
        failed = []

        def run(number):
            try:
                for _ in range(50):
                    assert session.run(base) == 1.0
            except Exception as error:
                failed.append((number, error))

        threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        with graph.as_default():
            for value in range(50):
                assert session.run(base + float(value)) == 1.0 + value
        for thread in threads:
            thread.join()
    assert failed == []
