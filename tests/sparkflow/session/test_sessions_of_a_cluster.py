"""Concurrent sessions on one cluster: what they share, what is their own, which tasks are used."""

import threading

import pytest

import sparkflow as tf
from sparkflow_runtime.testing.leaks import assert_idle
from sparkflow_runtime.testing.local_cluster import LocalCluster
from support.waiting import wait_until

WAIT_S = 60


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(num_ps=2, num_workers=2) as made:
        yield made
        assert_idle(made.servers)


@pytest.fixture(autouse=True)
def _fresh(cluster):
    with tf.Graph().as_default():
        yield
    for index in (0, 1):
        tf.Session.reset(cluster.target("worker", index))


def counters():
    """One variable per parameter server, and an operation that adds to both."""
    made = []
    for ps in (0, 1):
        with tf.device(f"/job:ps/task:{ps}"):
            made.append(tf.get_variable(f"v{ps}", [], initializer=tf.zeros_initializer()))
    return made, tf.group(*(tf.assign_add(each, 1.0, use_locking=True) for each in made))


def test_sessions_of_several_masters_and_clients_share_variables(cluster):
    variables, _step = counters()
    with tf.Session(cluster.target("worker", 0)) as sess:
        sess.run(tf.global_variables_initializer())
    errors = []

    def work(index):
        try:
            with tf.Graph().as_default():
                _, mine = counters()
                with tf.Session(cluster.target("worker", index % 2)) as sess:
                    for _ in range(10):
                        sess.run(mine)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not errors
    with tf.Session(cluster.target("ps", 0)) as sess:
        assert sess.run(variables) == [60.0, 60.0]
    assert_idle(cluster.servers)


def test_isolated_sessions_do_not_see_one_another(cluster):
    variables, step = counters()
    init = tf.global_variables_initializer()
    isolated = tf.ConfigProto(isolate_session_state=True)
    target = cluster.target("worker", 0)
    with (
        tf.Session(target) as shared,
        tf.Session(target, config=isolated) as one,
        tf.Session(cluster.target("worker", 1), config=isolated) as two,
    ):
        for count, sess in enumerate((shared, one, two), 1):
            with pytest.raises(tf.errors.FailedPreconditionError):
                sess.run(variables)
            sess.run(init)
            for _ in range(count):
                sess.run(step)
        assert [sess.run(variables) for sess in (shared, one, two)] == [[1, 1], [2, 2], [3, 3]]
        with tf.Session(target) as other:
            assert other.run(variables) == [1, 1]


def test_reset_drops_the_named_containers_on_all_tasks_and_closes_sessions(cluster):
    kept, _ = counters()
    dropped, sizes = [], []
    with tf.container("experiment"):
        for ps in (0, 1):
            with tf.device(f"/job:ps/task:{ps}"):
                dropped.append(tf.get_variable(f"d{ps}", [], initializer=tf.ones_initializer()))
                queue = tf.FIFOQueue(5, tf.float32, [[]], shared_name=f"q{ps}")
                sizes.append((queue.enqueue(1.0), queue.size()))
    target = cluster.target("worker", 0)
    config = tf.ConfigProto(device_filters=["/job:ps"])
    other = tf.Session(cluster.target("worker", 1))
    sess = tf.Session(target)
    sess.run(tf.global_variables_initializer())
    sess.run([enqueue for enqueue, _ in sizes])
    assert sess.run([size for _, size in sizes]) == [1, 1]
    tf.Session.reset(target, ["experiment"], config)
    with pytest.raises(tf.errors.AbortedError, match="not known here"):
        sess.run(kept)
    assert other.run(kept) == [0, 0]  # Sessions of other masters continue, as in TensorFlow,
    for variable in dropped:
        with pytest.raises(tf.errors.FailedPreconditionError):  # without what was dropped.
            other.run(variable)
    assert other.run([size for _, size in sizes]) == [0, 0]
    other.close()
    with tf.Session(target) as again:
        assert again.run(kept) == [0, 0]


def test_tasks_that_are_filtered_out_need_not_be_up_nor_are_placed_on():
    with LocalCluster(num_ps=1, num_workers=3) as cluster, tf.Graph().as_default():
        cluster.server("worker", 2).stop()
        with tf.device("/job:ps"):
            v = tf.get_variable("v", [], initializer=tf.ones_initializer())
        with tf.device("/job:worker/task:2"):
            away = tf.negative(v)
        config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
        with tf.Session(cluster.target("worker", 0), config=config) as sess:
            sess.run(v.initializer)
            assert sess.run(v) == 1.0
            assert {device.name.partition("/device")[0] for device in sess.list_devices()} == {
                "/job:ps/replica:0/task:0",
                "/job:worker/replica:0/task:0",
            }
            with pytest.raises(tf.errors.InvalidArgumentError, match="task:2"):
                sess.run(away)
            assert len(cluster.server("worker", 1).worker.sessions) == 0
        tf.Session.reset(cluster.target("worker", 0), config=config)
        assert_idle(cluster.servers)


def test_a_session_is_extended_while_it_runs(cluster):
    variables, step = counters()
    sess = tf.Session(cluster.target("worker", 0))
    sess.run(tf.global_variables_initializer())
    errors, go_on = [], threading.Event()

    def work():
        try:
            while not go_on.is_set():
                sess.run(step)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    values = [sess.run(tf.identity(variables[turn % 2]) * 0.0 + turn) for turn in range(30)]
    go_on.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert not errors
    assert values == list(range(30))
    sess.close()


def test_two_clients_of_one_session_cannot_extend_it_at_once(cluster):
    a = tf.constant(1.0)
    sess = tf.Session(cluster.target("worker", 0))
    assert sess.run(a) == 1.0
    sess._client._version -= 1  # as if another client had extended it
    with pytest.raises(tf.errors.AbortedError, match=r"Current version is \d+ but caller expected"):
        sess.run(tf.constant(2.0))
    sess.close()


def test_a_broken_channel_is_not_said_to_be_a_lost_task(cluster):
    """The task at the other end may be the one that runs the step, and be alive."""
    ps, _, worker, other = cluster.servers
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.float32], [[]], shared_name="waited for")
        element = queue.dequeue()
        more = queue.enqueue(2.0)
    with tf.device("/job:worker/task:0"):
        doubled = element * 2.0
    raised = []

    def wait_for_an_element():
        with pytest.raises(tf.errors.UnavailableError) as found:
            sess.run(doubled)
        raised.append(found.value.message)

    with tf.Session(other.target) as sess:
        waiting = threading.Thread(target=wait_for_an_element)
        waiting.start()
        wait_until(lambda: any(each._sinks for each in channels_from(ps, worker)), WAIT_S)
        for channel in channels_from(ps, worker):
            channel.wire.close()
        waiting.join(WAIT_S)
        (text,) = raised
        assert "is gone" not in text
        assert "channel to Task /job:" in text
        sess.run(more)
        assert sess.run(doubled) == 4.0


def channels_from(server, asker):
    """The tensor channels from another task to a server."""
    channels = list(server.worker.answering._channels)
    return [each for each in channels if each.wire.task == asker.task]
