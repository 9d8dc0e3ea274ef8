"""Queue runners: threads that fill queues of a session."""

import contextlib
import itertools
import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture(params=["", "grpc"])
def session(request):
    server = tf.train.Server.create_local_server() if request.param else None
    with tf.Session(server.target if server else "") as made:
        yield made
    if server:
        server.stop()


def counting(limit, threads=1, **options):
    count = tf.Variable(0, trainable=False, name="count")
    queue = tf.FIFOQueue(3, tf.int32, [[]], name="q")
    enqueue = queue.enqueue(count.count_up_to(limit))
    return queue, tf.train.QueueRunner(queue, [enqueue] * threads, **options)


def run_all(session, coord=None):
    session.run(tf.global_variables_initializer())
    return tf.train.start_queue_runners(session, coord)


@pytest.mark.parametrize("threads", [1, 3, 16])
def test_a_runner_fills_until_its_data_end(session, threads):
    queue, runner = counting(20, threads)
    tf.train.add_queue_runner(runner)
    taken = queue.dequeue()
    coord = tf.train.Coordinator()
    found = []
    started = run_all(session, coord)
    with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has insufficient"):
        found.extend(session.run(taken) for _ in itertools.count())
    assert sorted(found) == list(range(20))
    assert len(started) == threads + 1
    coord.request_stop()
    coord.join(started)
    assert runner.exceptions_raised == []


@pytest.mark.parametrize("threads", [1, 16])
def test_a_stop_ends_threads_that_wait(session, threads):
    _, runner = counting(1000, threads)
    tf.train.add_queue_runner(runner)
    coord = tf.train.Coordinator()
    started = run_all(session, coord)
    coord.request_stop()
    coord.join(started, stop_grace_period_secs=60)


@pytest.mark.parametrize("threads", [1, 16])
def test_the_end_of_the_session_ends_threads_that_wait(threads):
    _, runner = counting(1000, threads)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator()
        started = runner.create_threads(session, coord, start=True)
    with pytest.raises(tf.errors.CancelledError):
        coord.join(started, stop_grace_period_secs=60)
    assert not any(thread.is_alive() for thread in started)


def test_one_step_of_this_process_enqueues_several_times():
    queue = tf.FIFOQueue(1 << 20, tf.int32, [[]])
    with tf.Session() as session:
        enqueue = session._make_repeated(queue.enqueue(1))
        enqueue()
        first = session.run(queue.size())
        enqueue()
        assert session.run(queue.size()) > first > 1


def test_threads_of_one_operation_may_wait_for_each_other():
    both = threading.Barrier(2)

    def meet():
        both.wait(60)
        return np.int32(1)

    queue = tf.FIFOQueue(3, tf.int32, [[]])
    number = tf.py_func(meet, [], tf.int32)
    number.set_shape([])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(number)] * 2))
    taken = queue.dequeue()
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        started = tf.train.start_queue_runners(session, coord)
        assert [session.run(taken) for _ in range(20)] == [1] * 20
        coord.request_stop()
        both.abort()
        with contextlib.suppress(tf.errors.OpError):
            coord.join(started, stop_grace_period_secs=60)


def test_a_failure_reaches_who_joins(session):
    queue = tf.FIFOQueue(3, tf.int32, [[]])
    divisor = tf.Variable(0)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1 // divisor)]))
    coord = tf.train.Coordinator()
    started = run_all(session, coord)
    with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
        coord.join(started, stop_grace_period_secs=60)


def test_threads_are_started_once_per_session(session):
    _, runner = counting(1000)
    coord = tf.train.Coordinator()
    session.run(tf.global_variables_initializer())
    first = runner.create_threads(session, coord, start=True)
    assert len(first) == 2
    assert runner.create_threads(session, coord, start=True) == []
    coord.request_stop()
    coord.join(first)


def test_the_message_names_all_operations(graph):
    _, runner = counting(
        3, 2, queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError)
    )
    message = runner.to_proto()
    assert message.queue_name == "q"
    assert message.enqueue_op_name == ["q_enqueue", "q_enqueue"]
    assert (message.close_op_name, message.cancel_op_name) == ("q_Close", "q_Close_1")
    again = tf.train.QueueRunner.from_proto(message)
    assert again.name == "q"
    assert again.enqueue_ops == runner.enqueue_ops
    assert again.close_op is runner.close_op
    assert again.queue_closed_exception_types == (
        tf.errors.OutOfRangeError,
        tf.errors.CancelledError,
    )
    assert runner.to_proto(export_scope="other") is None
    definition = graph.as_graph_def()
    with tf.Graph().as_default():
        tf.import_graph_def(definition, name="imported")
        moved = tf.train.QueueRunner.from_proto(message, import_scope="imported")
        assert moved.name == "imported/q"


def test_what_cannot_be(session):
    queue, runner = counting(3)
    with pytest.raises(ValueError, match="Must provide queue and enqueue_ops"):
        tf.train.QueueRunner(queue)
    with pytest.raises(ValueError, match="mutually exclusive"):
        tf.train.QueueRunner(queue, [queue.enqueue(1)], queue_runner_def=runner.to_proto())
    with pytest.raises(TypeError, match=r"must be a tuple of tf\.error types"):
        tf.train.QueueRunner(queue, [queue.enqueue(1)], queue_closed_exception_types=(KeyError,))
    with pytest.raises(TypeError, match=r"sess must be a `tf\.Session` object"):
        tf.train.start_queue_runners(3)


def elsewhere(capacity):
    """A queue on a parameter server, filled by ops there."""
    with tf.device("/job:ps/task:0"):
        count = tf.Variable(0, trainable=False, name="count")
        queue = tf.FIFOQueue(capacity, tf.int32, [[]], name="q")
        enqueue = queue.enqueue(count.count_up_to(1 << 30))
        return queue, count, tf.train.QueueRunner(queue, [enqueue])


@pytest.mark.parametrize("capacity", [2, 1 << 20])
@pytest.mark.parametrize("how", ["coordinator", "queue", "session"])
def test_a_queue_of_another_task_is_filled_until_it_is_stopped(capacity, how):
    with LocalCluster(1, 1) as cluster:
        queue, count, runner = elsewhere(capacity)
        taken, closing = queue.dequeue(), queue.close(cancel_pending_enqueues=True)
        session = tf.Session(cluster.target("worker", 0))
        session.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator(clean_stop_exception_types=(tf.errors.CancelledError,))
        threads = runner.create_threads(session, coord, start=True)
        assert [session.run(taken) for _ in range(300)] == list(range(300))
        if how == "coordinator":
            coord.request_stop()
        elif how == "queue":
            session.run(closing)
        else:
            session.close()
        coord.join(threads, stop_grace_period_secs=60)
        if how != "session":
            last = session.run(count)
            assert session.run(count) == last  # nothing continues
            session.close()


def test_a_session_of_another_kind_runs_each_step_itself(session):
    """Like that of a debugger, which inspects each step."""
    calls = []

    class Watched(tf.Session):
        def make_callable(self, *args, **options):
            call = super().make_callable(*args, **options)
            return lambda: calls.append(args) or call()

    queue, runner = counting(20)
    with Watched(session.sess_str) as watched:
        watched.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator()
        threads = runner.create_threads(watched, coord, start=True)
        taken = queue.dequeue()
        assert [watched.run(taken) for _ in range(10)] == list(range(10))
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=60)
        assert 10 <= len(calls) <= 14
