"""Queues between threads and sessions."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import sparkflow as tf

DEADLINE_S = 60


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as executor:
        yield executor


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture(params=["", "grpc"])
def target(request):
    if not request.param:
        yield ""
        return
    server = tf.train.Server.create_local_server()
    yield server.target
    server.stop()


def test_one_thread_puts_in_what_another_waits_for(target, pool):
    queue = tf.FIFOQueue(2, tf.int32, [[]])
    value = tf.placeholder(tf.int32, [])
    put, taken = queue.enqueue(value), queue.dequeue()
    with tf.Session(target) as session:
        results = [pool.submit(session.run, taken) for _ in range(4)]
        for number in range(4):
            session.run(put, {value: number})
        assert sorted(each.result(DEADLINE_S) for each in results) == [0, 1, 2, 3]


def test_a_full_queue_holds_its_givers(target, pool):
    queue = tf.FIFOQueue(1, tf.int32, [[]])
    value = tf.placeholder(tf.int32, [])
    put, taken = queue.enqueue(value), queue.dequeue()
    with tf.Session(target) as session:
        results = [pool.submit(session.run, put, {value: n}) for n in range(5)]
        assert sorted(session.run(taken) for _ in range(5)) == list(range(5))
        for each in results:
            each.result(DEADLINE_S)


def test_closing_ends_who_waits(target, pool):
    queue = tf.FIFOQueue(2, tf.int32, [[]], name="q")
    taken, close = queue.dequeue(), queue.close()
    with tf.Session(target) as session:
        blocked = pool.submit(session.run, taken)
        session.run(close)
        with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has insufficient") as e:
            blocked.result(DEADLINE_S)
        assert e.value.op is taken.op


def test_a_deadline_ends_who_waits(target):
    taken = tf.FIFOQueue(2, tf.int32, [[]]).dequeue()
    with tf.Session(target) as session, pytest.raises(tf.errors.DeadlineExceededError):
        session.run(taken, options=tf.RunOptions(timeout_in_ms=50))


def test_closing_the_session_ends_who_waits(pool):
    taken = tf.FIFOQueue(2, tf.int32, [[]]).dequeue()
    session = tf.Session()
    started = threading.Event()

    def wait():
        started.set()
        session.run(taken)

    blocked = pool.submit(wait)
    assert started.wait(DEADLINE_S)
    session.close()
    # It is waiting by now, or finds the session closed.
    with pytest.raises((tf.errors.CancelledError, RuntimeError)):
        blocked.result(DEADLINE_S)


def test_sessions_of_one_server_share_queues_by_shared_name_only():
    server = tf.train.Server.create_local_server()
    shared = tf.FIFOQueue(5, tf.int32, [[]], shared_name="s")
    own = tf.FIFOQueue(5, tf.int32, [[]], name="own")
    with tf.Session(server.target) as first, tf.Session(server.target) as second:
        first.run([shared.enqueue(3), own.enqueue(3)])
        assert second.run([shared.size(), own.size()]) == [1, 0]
        assert second.run(shared.dequeue()) == 3
    server.stop()


def test_a_queue_selected_by_number():
    queues = [tf.FIFOQueue(5, tf.int32, [[]], name=name) for name in "ab"]
    index = tf.placeholder(tf.int32, [])
    selected = tf.QueueBase.from_list(index, queues)
    put, size = selected.enqueue(7), [queue.size() for queue in queues]
    with tf.Session() as session:
        session.run(put, {index: 1})
        assert session.run(size) == [0, 1]


def test_shuffled_with_a_seed_is_the_same_again():
    def drawn(seed):
        with tf.Graph().as_default():
            queue = tf.RandomShuffleQueue(50, 0, tf.int32, [[]], seed=seed)
            put, taken = queue.enqueue_many([list(range(50))]), queue.dequeue_many(50)
            with tf.Session() as session:
                session.run(put)
                return session.run(taken).tolist()

    assert drawn(1) == drawn(1) != drawn(2)
    assert sorted(drawn(1)) == list(range(50))
