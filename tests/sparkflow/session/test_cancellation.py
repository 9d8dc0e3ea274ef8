"""Steps over many tasks end everywhere, for whatever reason and whatever they wait for."""

import threading
import time

import pytest

import sparkflow as tf
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.testing.leaks import assert_idle, assert_no_steps, assert_nothing_left
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.worker.parted import PartedRun

WAIT_S = 20
CANCELLED = (tf.errors.CancelledError, tf.errors.AbortedError, tf.errors.UnavailableError)


@pytest.fixture(scope="module")
def cluster():
    with assert_nothing_left(), LocalCluster(num_ps=2, num_workers=3) as made:
        yield made
        assert_idle(made.servers)


@pytest.fixture(autouse=True)
def _fresh(cluster):
    with tf.Graph().as_default():
        yield
    tf.Session.reset(cluster.target("worker", 0))


def blocked_dequeue():
    return tf.FIFOQueue(1, tf.float32, [[]], shared_name="q").dequeue()


def blocked_enqueue():
    queue = tf.FIFOQueue(1, tf.float32, [[]], shared_name="full")
    with (
        tf.control_dependencies([queue.enqueue(1.0)]),
        tf.control_dependencies([queue.enqueue(2.0)]),
    ):
        return tf.constant(0.0)


def blocked_gradient():
    return tf.ConditionalAccumulator(tf.float32, [], shared_name="a").take_grad(1)


def blocked_dataset():
    queue = tf.FIFOQueue(1, tf.float32, [[]], shared_name="data")
    data = tf.data.Dataset.range(3).map(lambda _: queue.dequeue())
    iterator = data.make_initializable_iterator()
    with tf.control_dependencies([iterator.initializer]):
        return iterator.get_next()


KINDS = [blocked_dequeue, blocked_enqueue, blocked_gradient, blocked_dataset]


def step_over_all_tasks(kind):
    """A fetch on worker 0 that needs worker 2, which needs worker 1, which is blocked."""
    with tf.device("/job:ps/task:0"):
        item = kind()
    with tf.device("/job:worker/task:1"):
        one = tf.tanh(item)
    with tf.device("/job:worker/task:2"):
        two = tf.sinh(one)
    with tf.device("/job:ps/task:1"):
        three = tf.cosh(two)
    with tf.device("/job:worker/task:0"):
        return tf.exp(three, name="end")


class Blocked:
    """A step that runs in a thread until something ends it."""

    def __init__(self, cluster, sess, fetch, **options):
        self.error = None
        self._fetch = fetch

        def run():
            try:
                sess.run(fetch, **options)
            except (OpError, RuntimeError) as error:
                self.error = error

        self._thread = threading.Thread(target=run)
        self._thread.start()
        deadline = time.monotonic() + WAIT_S
        pause = threading.Event()
        while time.monotonic() < deadline and not all(
            server.worker.rendezvous.running() for server in cluster.servers
        ):
            pause.wait(0.01)

    def end(self):
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        return self.error


@pytest.mark.parametrize("kind", KINDS)
def test_closing_the_session_ends_the_step(cluster, kind):
    sess = tf.Session(cluster.target("worker", 0))
    blocked = Blocked(cluster, sess, step_over_all_tasks(kind))
    sess.close()
    assert isinstance(blocked.end(), (*CANCELLED, RuntimeError))
    assert_idle(cluster.servers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_deadline_ends_the_step_and_the_session_goes_on(cluster, kind):
    fetch = step_over_all_tasks(kind)
    with tf.Session(cluster.target("worker", 0)) as sess:
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(fetch, options=tf.RunOptions(timeout_in_ms=300))
        assert_no_steps(cluster.servers)
        assert sess.run(fetch, {fetch.op.inputs[0]: 0.0}) == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_on_one_task_ends_all_and_is_what_the_user_sees(cluster, kind):
    with tf.device("/job:worker/task:2"):
        x = tf.placeholder(tf.int32, [], name="x")
        bad = tf.floordiv(1, x, name="bad_division")
    fetches = [step_over_all_tasks(kind), bad]
    with tf.Session(cluster.target("worker", 0)) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError) as info:
            sess.run(fetches, {x: 0})
        assert_no_steps(cluster.servers)
    text = str(info.value)
    assert "bad_division" in text
    assert "/job:worker/replica:0/task:2" in text
    assert "test_cancellation.py" in text


@pytest.fixture
def parked(monkeypatch):
    """An event set once a run is parked at another task, where it holds no thread."""
    event = threading.Event()
    park = PartedRun._park

    def noting(run, *what):
        is_parked = park(run, *what)
        if is_parked:
            event.set()
        return is_parked

    monkeypatch.setattr(PartedRun, "_park", noting)
    return event


def step_at_one_task(kind):
    """A fetch on a parameter server that waits only for the op."""
    with tf.device("/job:ps/task:0"):
        return kind()


PARKED_KINDS = [blocked_dequeue, blocked_enqueue, blocked_gradient]


@pytest.mark.parametrize("kind", PARKED_KINDS)
def test_closing_the_session_ends_a_parked_run(cluster, parked, kind):
    sess = tf.Session(cluster.target("worker", 0))
    fetch, errors = step_at_one_task(kind), []

    def run():
        try:
            sess.run(fetch)
        except (OpError, RuntimeError) as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert parked.wait(WAIT_S)
    sess.close()
    thread.join(WAIT_S)
    assert [isinstance(error, (*CANCELLED, RuntimeError)) for error in errors] == [True]
    assert_idle(cluster.servers)


@pytest.mark.parametrize("kind", PARKED_KINDS)
def test_a_deadline_ends_a_parked_run_which_takes_nothing_any_more(cluster, parked, kind):
    fetch = step_at_one_task(kind)
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(-1, tf.float32, [[]], shared_name="of_the_deadline")
        put, taken = queue.enqueue(3.0), queue.dequeue()
    with tf.Session(cluster.target("worker", 0)) as sess:
        for what in (fetch, taken):
            with pytest.raises(tf.errors.DeadlineExceededError):
                sess.run(what, options=tf.RunOptions(timeout_in_ms=300))
            assert parked.is_set()
        assert_no_steps(cluster.servers)
        sess.run(put)
        assert sess.run(taken) == 3.0


@pytest.mark.parametrize("kind", PARKED_KINDS)
def test_a_failure_on_another_task_ends_a_parked_run(cluster, parked, kind):
    def fail(_):
        assert parked.wait(WAIT_S)
        raise ValueError("after the other one was parked")

    with tf.device("/job:worker/task:2"):
        bad = tf.py_func(fail, [0.0], tf.float32)
    with tf.Session(cluster.target("worker", 0)) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="after the other one was parked"):
            sess.run([step_at_one_task(kind), bad])
        assert_no_steps(cluster.servers)
