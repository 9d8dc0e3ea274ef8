"""Ops that wait for others in their step, or run alongside others that fail.

The answers are those of TensorFlow 2.21. Every test has a time limit, to detect endless waits.
"""

import threading
import time
from typing import ClassVar

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import bool_attr
from sparkflow_runtime.testing.local_cluster import LocalCluster

TIME_MS = 8_000
WAIT_S = 7


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(num_ps=2, num_workers=1) as made:
        yield made


MODES = ["in process", "two devices", "remote", "elsewhere", "callable", "traced"]


class Place:
    """The place of a test: the device of queues, and how a session runs fetches."""

    def __init__(self, mode, cluster):
        self.mode = mode
        remote = mode in ("remote", "elsewhere")
        self.target = cluster.target("worker", 0) if remote else ""
        self.device = {"two devices": "/cpu:1", "elsewhere": "/job:ps/task:1"}.get(mode, "")

    def session(self, timeout_ms=TIME_MS, **options):
        if self.mode == "two devices":
            options["device_count"] = {"CPU": 2}
        config = tf.ConfigProto(operation_timeout_in_ms=timeout_ms, **options)
        return tf.Session(self.target, config=config)

    def run(self, session, fetches, feeds=None):
        feeds = feeds or {}
        if self.mode == "callable":
            return session.make_callable(fetches, list(feeds))(*feeds.values())
        if self.mode == "traced":
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, timeout_in_ms=TIME_MS)
            return session.run(fetches, feeds, options=options, run_metadata=tf.RunMetadata())
        return session.run(fetches, feeds)


@pytest.fixture(params=MODES)
def place(request, cluster):
    with tf.Graph().as_default():
        yield Place(request.param, cluster)
    if request.param in ("remote", "elsewhere"):
        tf.Session.reset(cluster.target("worker", 0))


def plain(values):
    return [None if each is None else np.asarray(each).tolist() for each in values]


def queue(place, capacity=10, types=tf.int32, shapes=()):
    with tf.device(place.device):
        return tf.FIFOQueue(capacity, [types], [shapes])


def one_of_each(place):
    q = queue(place)
    return [q.dequeue(), q.enqueue(33)], [33, None]


def enqueue_first(place):
    q = queue(place)
    return [q.enqueue(33), q.dequeue() * 2], [None, 66]


def full_queue(place):
    q = queue(place, 1)
    return [q.enqueue_many([[1, 2, 3, 4, 5]]), q.dequeue_many(5)], [None, [1, 2, 3, 4, 5]]


def many_from_several(place):
    q = queue(place)
    ins = [q.enqueue(7) for _ in range(3)]
    return [q.dequeue_many(3), *ins], [[7, 7, 7], None, None, None]


def two_dequeues(place):
    q = queue(place)
    total = q.dequeue() + q.dequeue()
    return [total, q.enqueue_many([[20, 1]])], [21, None]


def up_to(place):
    q = queue(place)
    with tf.control_dependencies([q.enqueue_many([[1, 2]])]):
        close = q.close()
    return [q.dequeue_up_to(5), close], [[1, 2], None]


def a_relay(place):
    first, second = queue(place), queue(place)
    hop = second.enqueue(first.dequeue() * 2)
    return [second.dequeue() + 1, hop, first.enqueue(5)], [11, None, None]


def two_chains(place):
    q, r = queue(place), queue(place)
    a, b = q.dequeue(), r.dequeue()
    c, d = q.dequeue(), r.dequeue()
    with tf.control_dependencies([a]):
        e = r.enqueue(a + 1)
    with tf.control_dependencies([b]):
        f = q.enqueue(b + 1)
    return [tf.maximum(a, c), tf.maximum(b, d), e, f, q.enqueue(1), r.enqueue(9)], None


def an_accumulator(place):
    with tf.device(place.device):
        sums = tf.ConditionalAccumulator(tf.float32, shape=[2])
    puts = [sums.apply_grad([1.0, 2.0]), sums.apply_grad([3.0, 4.0])]
    return [sums.take_grad(2), *puts], [[2.0, 3.0], None, None]


def a_sparse_accumulator(place):
    with tf.device(place.device):
        sums = tf.SparseConditionalAccumulator(tf.float32, shape=[3, 1])
    put = sums.apply_grad([1], [[5.0]])
    taken = sums.take_indexed_slices_grad(1)
    return [taken.values, taken.indices, put], [[[5.0]], [1], None]


def a_staging_area(place):
    from sparkflow.contrib.staging import StagingArea

    with tf.device(place.device):
        area = StagingArea([tf.float32], shapes=[[]])
        put, got = area.put([tf.constant(4.0)]), area.get()
    return [got, put], None


def two_functions(place):
    first, second = threading.Event(), threading.Event()

    def one():
        first.set()
        assert second.wait(WAIT_S)
        return np.int64(1)

    def two():
        second.set()
        assert first.wait(WAIT_S)
        return np.int64(2)

    return [tf.py_func(one, [], tf.int64), tf.py_func(two, [], tf.int64)], [1, 2]


def a_function_for_a_queue(place):
    q = queue(place, types=tf.int64)
    seen = threading.Event()

    def later():
        assert seen.wait(WAIT_S)
        return np.int64(8)

    def note():
        seen.set()
        return np.int64(0)

    puts = q.enqueue(tf.py_func(later, [], tf.int64))
    return [q.dequeue(), puts, tf.py_func(note, [], tf.int64)], [8, None, 0]


def within_cond(place):
    q = queue(place)
    yes = tf.placeholder_with_default(True, [])
    with tf.device(place.device):
        got = tf.cond(yes, lambda: q.dequeue() + 1, lambda: 0)
    return [got, q.enqueue(3)], [4, None]


def within_while(place):
    q = queue(place)
    with tf.device(place.device):
        _, total = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + q.dequeue()), [0, 0])
    return [total, q.enqueue_many([[1, 2, 3]])], [6, None]


def both_within_cond(place):
    q = queue(place)
    yes = tf.placeholder_with_default(True, [])

    def both():
        put = q.enqueue(5)
        got = q.dequeue()
        with tf.control_dependencies([put]):
            return tf.identity(got)

    with tf.device(place.device):
        return [tf.cond(yes, both, lambda: 0)], [5]


def within_map(place):
    q = queue(place)
    with tf.device(place.device):
        mapped = tf.map_fn(lambda x: x + q.dequeue(), tf.constant([10, 10]))
    return [mapped, q.enqueue_many([[1, 2]])], [[11, 12], None]


def beside_variables(place):
    q = queue(place, types=tf.float32)
    v = tf.get_variable("v", initializer=3.0)
    with tf.control_dependencies([q.enqueue(v)]):
        add = tf.assign_add(v, 1.0)
    return [q.dequeue() * v, add.op, v], [9.0, None, 4.0]


CASES = [
    one_of_each,
    enqueue_first,
    full_queue,
    many_from_several,
    two_dequeues,
    up_to,
    a_relay,
    two_chains,
    an_accumulator,
    a_sparse_accumulator,
    a_staging_area,
    two_functions,
    a_function_for_a_queue,
    within_cond,
    within_while,
    both_within_cond,
    within_map,
    beside_variables,
]
SPOILED = (up_to, an_accumulator, a_sparse_accumulator)
"""After one run their queue is closed, or a repeated gradient is stale."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_waits_lets_others_go_on(place, case):
    fetches, expected = case(place)
    init = tf.global_variables_initializer()
    with place.session() as session:
        for _ in range(1 if case in SPOILED else 3):
            session.run(init)
            values = plain(place.run(session, fetches))
            if expected is not None:
                assert values == expected


def no_assert(x):
    return tf.Assert(x > 0, [x])


def no_shape(x):
    return tf.reshape(tf.zeros([4]), tf.stack([tf.cast(x, tf.int32) + 4, 1]))


def no_number(x):
    return tf.check_numerics(x / 0.0, "bad")


def no_value(x):
    return tf.get_variable("v", initializer=1.0) + x


def no_variable(x):
    return tf.get_variable("v", initializer=1.0)


def no_function(x):
    def fail(_):
        raise ValueError("no function")

    return tf.py_func(fail, [x], tf.float32)


def no_row(x):
    return tf.gather(tf.zeros([3]), tf.cast(x, tf.int32) - 7)


def no_element(x):
    q = tf.FIFOQueue(2, [tf.float32], [[2]])
    return q.enqueue(tf.fill([tf.cast(x, tf.int32) + 4], 0.0))


FAILURES = {
    no_assert: tf.errors.InvalidArgumentError,
    no_shape: tf.errors.InvalidArgumentError,
    no_number: tf.errors.InvalidArgumentError,
    no_value: tf.errors.FailedPreconditionError,
    no_variable: tf.errors.FailedPreconditionError,
    no_function: tf.errors.InvalidArgumentError,
    no_row: tf.errors.InvalidArgumentError,
    no_element: tf.errors.InvalidArgumentError,
}
BESIDE = {
    "apart": lambda got, bad: [got, bad],
    "after": lambda got, bad: [bad, got],
    "together": lambda got, bad: [tf.cast(got, tf.float32) + bad],
    "two": lambda got, bad: [got, got + 1, tf.py_func(np.abs, [got], tf.int32), bad],
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("failure", FAILURES, ids=lambda case: case.__name__)
def test_a_failure_ends_what_waits(place, failure, beside):
    x = tf.placeholder(tf.float32, [])
    got, bad = queue(place).dequeue(), failure(x)
    if beside == "together" and not isinstance(bad, tf.Tensor | tf.Variable):
        pytest.skip("it gives nothing")
    fetches = BESIDE[beside](got, bad)
    with place.session() as session:
        begun = time.monotonic()
        with pytest.raises(FAILURES[failure]):
            place.run(session, fetches, {x: -1.0})
        assert time.monotonic() - begun < WAIT_S


def test_a_failure_among_strands(place):
    x = tf.placeholder(tf.float32, [])
    q, r = queue(place), queue(place)
    with place.session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
        place.run(session, [q.dequeue(), r.dequeue(), no_number(x)], {x: -1.0})


def test_a_step_s_time_ends_what_waits(place):
    q, r = queue(place), queue(place)
    with place.session(timeout_ms=300) as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run([q.dequeue(), r.dequeue(), r.size()])
        assert place.run(session, [q.dequeue(), q.enqueue(1)])[0] == 1


@pytest.mark.parametrize("how", ["session", "queue"])
def test_closing_ends_what_waits(place, how):
    q, r = queue(place), queue(place)
    got = [q.dequeue(), r.dequeue()]
    close = tf.group(q.close(True), r.close(True))
    errors = []
    with place.session() as session:

        def work():
            try:
                place.run(session, got)
            except tf.errors.OpError as error:
                errors.append(type(error))

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.3)
        if how == "queue":
            session.run(close)
        else:
            session.close()
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert errors == [tf.errors.OutOfRangeError if how == "queue" else tf.errors.CancelledError]


def test_a_loop_of_steps_that_wait(place):
    q = queue(place, 1, tf.float32)
    v = tf.get_variable("v", initializer=0.0)
    step = tf.group(tf.assign_add(v, q.dequeue()), q.enqueue(2.0))
    with place.session(timeout_ms=0) as session:
        session.run(tf.global_variables_initializer())
        tf.train.run_loop(session, step, 50)
        assert session.run(v) == 100.0


def test_many_sessions_at_once(place):
    q = queue(place)
    step = [q.dequeue(), q.enqueue(1), tf.py_func(lambda: np.int64(3), [], tf.int64)]
    done = []
    with place.session() as session:

        def work():
            done.extend(plain(place.run(session, step)) for _ in range(10))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert done == [[1, None, 3]] * 60
        assert session.run(q.size()) == 0


def test_a_function_may_run_the_session_that_waits_for_it(place):
    q = queue(place)
    put = q.enqueue(4)
    with place.session() as session:

        def run():
            session.run(put)
            return np.int64(0)

        assert plain(place.run(session, [q.dequeue(), tf.py_func(run, [], tf.int64)])) == [4, 0]


def test_a_generator_that_waits_for_a_function():
    import queue as queues

    given = queues.Queue()

    def elements():
        while True:
            yield given.get(timeout=WAIT_S)

    def give():
        given.put(6)
        return np.int64(1)

    with tf.Graph().as_default(), tf.Session() as session:
        data = tf.data.Dataset.from_generator(elements, tf.int64, [])
        element = data.make_one_shot_iterator().get_next()
        assert session.run([element, tf.py_func(give, [], tf.int64)]) == [6, 1]


def test_an_op_of_one_s_own_may_wait():
    first, second = threading.Event(), threading.Event()

    class Meeting(Op):
        """Waits for the other node of its type."""

        outputs = "y: int32"
        attrs: ClassVar = {"leads": bool_attr()}
        stateful = True
        may_block = True

        def infer(self, node):
            return [()]

        def compute(self, xp, *, leads):
            mine, other = (first, second) if leads else (second, first)
            mine.set()
            assert other.wait(WAIT_S)
            return np.int32(leads)

    meeting = tf.register_op(Meeting)
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run([meeting(leads=True), meeting(leads=False)]) == [1, 0]


def test_functions_that_do_not_wait_run_in_order():
    order = []

    def note(number):
        order.append(int(number))
        return np.int64(0)

    with tf.Graph().as_default(), tf.Session() as session:
        calls = [tf.py_func(note, [tf.constant(n)], tf.int64) for n in range(8)]
        for _ in range(5):
            session.run(calls)
    assert order == [*range(8)] * 5


def test_a_partial_run_that_waits(place):
    q = queue(place, types=tf.float32)
    x = tf.placeholder(tf.float32, [], name="x")
    put, got = q.enqueue(x), q.dequeue()
    with tf.control_dependencies([put]):
        done = tf.constant(1.0) + x
    with place.session() as session:
        handle = session.partial_run_setup([got, done], [x])
        assert plain(session.partial_run(handle, [got, done], {x: 2.0})) == [2.0, 3.0]


def test_an_input_pipeline(place):
    words = tf.train.input_producer(tf.range(100), num_epochs=1, shuffle=False)
    first, second = tf.train.batch([words.dequeue(), tf.constant(1)], 10)
    total = tf.reduce_sum(first) + tf.reduce_sum(second)
    with place.session(timeout_ms=0) as session:
        session.run([tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        seen = [int(session.run(total)) for _ in range(10)]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(total)
        coordinator.request_stop()
        coordinator.join(threads)
    assert sum(seen) == sum(range(100)) + 100


def test_every_strand_is_traced():
    with tf.Graph().as_default(), tf.Session() as session:
        q = tf.FIFOQueue(5, [tf.int32], [[]])
        got, put = q.dequeue(name="got"), q.enqueue(3, name="put")
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, timeout_in_ms=TIME_MS)
        metadata = tf.RunMetadata()
        assert session.run([got, put], options=options, run_metadata=metadata)[0] == 3
        [stats] = metadata.step_stats.dev_stats
        assert {"got", "put"} <= {node.node_name for node in stats.node_stats}
        assert len({node.thread_id for node in stats.node_stats}) == len(stats.thread_names) == 2
