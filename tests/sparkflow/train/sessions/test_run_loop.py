"""`run_loop`: it runs the same as `Session.run` step by step, however it ends."""

import signal
import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster

WAIT_S = 60


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield
    tf.summary.FileWriterCache.clear()


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(2, 2) as made:
        yield made


def counter(start=0):
    count = tf.get_variable("count", initializer=start)
    return tf.assign_add(count, 1)


def started(target=""):
    session = tf.Session(target)
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session


def everything_random():
    """A step with random ops, a shuffled dataset, a queue, a counter and a summary."""
    tf.set_random_seed(7)
    data = tf.data.Dataset.range(100).shuffle(20, seed=3).repeat().batch(4)
    batch = tf.to_float(data.make_one_shot_iterator().get_next())
    queue = tf.RandomShuffleQueue(100, 0, tf.float32, shapes=[[]], seed=5)
    fill = queue.enqueue_many([tf.range(60.0)])
    weights = tf.get_variable("w", [4], initializer=tf.random_normal_initializer())
    hidden = tf.nn.dropout(batch * weights, keep_prob=0.5)
    loss = tf.reduce_mean(tf.square(hidden - queue.dequeue() - tf.random_uniform([4])))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
    with tf.control_dependencies([train]):
        after = tf.identity(step.read_value())
    return fill, train, [loss, batch, after, tf.summary.scalar("loss", loss), weights]


@pytest.mark.parametrize("where", ["", "worker"])
def test_a_loop_is_its_steps_bit_for_bit(where, cluster):
    target = cluster.target("worker", 0) if where else ""
    fill, train, fetches = everything_random()

    def run(several):
        with tf.Session(target, config=tf.ConfigProto(isolate_session_state=True)) as session:
            session.run(tf.global_variables_initializer())
            session.run(fill)
            rows = several(session)
            return [list(column) for column in zip(*rows, strict=True)]

    def one_by_one(session):
        return [session.run([train, fetches])[1] for _ in range(30)]

    def in_loops(session):
        rows = []

        def take(update):
            rows.extend(zip(*update.values, strict=True))

        assert tf.train.run_loop(session, train, 12, fetches, on_update=take).num_steps == 12
        rows.append(session.run([train, fetches])[1])
        result = tf.train.run_loop(session, train, 17, fetches, on_update=take)
        for last, value in zip(rows[-1], result.values, strict=True):
            assert np.array_equal(last, value)
        return rows

    for expected, found in zip(run(one_by_one), run(in_loops), strict=True):
        assert len(found) == 30
        for one, other in zip(expected, found, strict=True):
            assert np.asarray(one).dtype == np.asarray(other).dtype
            assert np.array_equal(one, other)


def test_a_loop_ends_with_its_data_and_keeps_the_short_batch():
    batch = tf.data.Dataset.range(10).batch(4).make_one_shot_iterator().get_next()
    total = tf.get_variable("total", initializer=tf.constant(0, tf.int64))
    add = tf.assign_add(total, tf.reduce_sum(batch))
    updates = []
    with started() as session:
        result = tf.train.run_loop(session, add, fetches={"x": batch}, on_update=updates.append)
        assert result.num_steps == 3
        assert result.reason == "data"
        assert result.values["x"].tolist() == [8, 9]
        assert [each.num_steps for each in updates] == [1, 1, 1]  # the last has another shape
        assert updates[1].values["x"].tolist() == [[4, 5, 6, 7]]
        assert session.run(total) == 45
        assert tf.train.run_loop(session, add) == (0, None, "data")


def test_strings_keep_the_zeros_at_their_end():
    text = tf.constant(b"ends with\0")
    texts = tf.constant([b"a\0\0", b"bc"])
    with tf.Session() as session:
        _, updates = tf.train.start_loop(session, tf.no_op(), 4, [text, texts])
        result = tf.train.run_loop(session, tf.no_op(), 2, [text, texts])
    assert updates.values[0].tolist() == [b"ends with\0"] * 3
    assert updates.values[1].tolist() == [[b"a\0\0", b"bc"]] * 3
    assert result.values[0] == b"ends with\0"
    assert result.values[1].tolist() == [b"a\0\0", b"bc"]


def test_feeds_are_the_same_in_every_step():
    by = tf.placeholder(tf.int32, [], name="by")
    total = tf.get_variable("total", initializer=0)
    add = tf.assign_add(total, by)
    with started() as session:
        updates = list(tf.train.start_loop(session, add, 3, add, feed_dict={by: 5}))
        assert np.concatenate([each.values for each in updates]).tolist() == [5, 10, 15]
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            tf.train.run_loop(session, add, 3, feed_dict={by: [1, 2]})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"must feed a value.*by"):
            tf.train.run_loop(session, add, 3)


def test_every_listener_gets_every_step():
    add = counter()
    seen = [], []
    with started() as session:
        listeners = [
            lambda update, rows=rows: rows.append((update.first_step, update.values.tolist()))
            for rows in seen
        ]
        tf.train.run_loop(session, add, 50, add, on_update=listeners, first_step=100)
    for rows in seen:
        assert [value for _, values in rows for value in values] == list(range(1, 51))
        assert rows[0][0] == 100


@pytest.mark.parametrize("kind", ["function", "event", "coordinator"])
def test_a_stopped_loop_has_whole_steps_only(kind, cluster):
    with tf.device("/job:ps/task:0"):
        first = counter()
    with tf.device("/job:ps/task:1"), tf.variable_scope("other"):
        second = counter()
    event, coordinator = threading.Event(), tf.train.Coordinator()

    def listen(_):
        event.set()
        coordinator.request_stop()

    stop = {"event": event, "coordinator": coordinator, "function": event.is_set}[kind]
    with started(cluster.target("worker", 0)) as session:
        result = tf.train.run_loop(session, [first, second], on_update=listen, stop=stop)
        assert result.reason == "stop"
        assert result.num_steps > 0
        # Neither parameter server made more steps than the other.
        assert session.run(tf.global_variables()) == [result.num_steps] * 2


def test_what_a_listener_raises_ends_the_loop_between_two_steps():
    add = counter()

    def listen(_):
        raise ZeroDivisionError("of the listener")

    counts = []
    with started() as session:
        with pytest.raises(ZeroDivisionError, match="of the listener"):
            tf.train.run_loop(session, add, on_update=listen)
        counts = [session.run(tf.global_variables()[0]) for _ in range(2)]
    assert counts[0] == counts[1] > 0


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_loop():
    add = counter()
    with started() as session:
        with pytest.raises(KeyboardInterrupt):
            tf.train.run_loop(session, add, on_update=lambda _: signal.raise_signal(signal.SIGINT))
        counts = [session.run(tf.global_variables()[0]) for _ in range(2)]
        assert counts[0] == counts[1]
        assert tf.train.run_loop(session, add, 3).num_steps == 3


@pytest.mark.parametrize(
    ("steps", "error", "text"),
    [
        (-1, ValueError, "must not be negative, got -1"),
        (1.5, TypeError, "whole number or None, got 1.5"),
        (True, TypeError, "whole number or None, got True"),
    ],
)
def test_wrong_numbers_of_steps(steps, error, text):
    add = counter()
    with started() as session:
        for run in (tf.train.run_loop, tf.train.start_loop):
            with pytest.raises(error, match=text):
                run(session, add, steps)


def test_no_step_at_all():
    add = counter()
    with started() as session:
        assert tf.train.run_loop(session, add, 0, add) == (0, None, "steps")
        assert list(tf.train.start_loop(session, add, 0, add)) == []
        assert tf.train.run_loop(session, add, stop=lambda: True) == (0, None, "stop")
        assert session.run(tf.global_variables()[0]) == 0


def test_what_cannot_be_run_or_fetched():
    add = counter()
    handle = tf.get_session_handle(add)
    with started() as session:
        with pytest.raises(TypeError, match="has invalid type <class 'int'>"):
            tf.train.run_loop(session, add, 1, fetches=3)
        with pytest.raises(TypeError, match="Fetch argument None"):
            tf.train.run_loop(session, None, 1)
        with pytest.raises(ValueError, match="would keep a value per step"):
            tf.train.run_loop(session, add, 1, fetches=handle)
        with pytest.raises(TypeError, match="stop must be a function"):
            tf.train.run_loop(session, add, 1, stop=3)
        # An operation among the fetches returns None, as for `Session.run`.
        assert tf.train.run_loop(session, add, 2, [add.op, add]).values == [None, 2]
    with pytest.raises(TypeError, match=r"run_loop needs a tf\.Session"):
        tf.train.run_loop(object(), add, 1)
    with pytest.raises(TypeError, match="start_loop needs"):
        tf.train.start_loop(object(), add, 1)
    with pytest.raises(RuntimeError, match="closed Session"):
        tf.train.run_loop(session, add, 1)


def test_two_loops_and_a_run_at_once():
    add = counter()
    value = tf.global_variables()[0]
    with started() as session:
        with (
            tf.train.start_loop(session, tf.assign_add(value, 1, use_locking=True), None) as first,
            tf.train.start_loop(session, tf.assign_add(value, 1, use_locking=True), None) as second,
        ):
            next(iter(first))
            next(iter(second))
            session.run(value)
            first.stop()
            second.stop()
            second.stop()
            total = first.wait(WAIT_S) + second.wait(WAIT_S)
        assert session.run(value) == total
        assert tf.train.run_loop(session, add, 5).num_steps == 5


@pytest.mark.parametrize("where", ["", "worker"])
def test_an_error_tells_the_step_and_the_operation(where, cluster):
    add = counter()
    bad = tf.check_numerics(1.0 / tf.to_float(5 - add), "boom", name="bad")
    updates = []
    with (
        started(cluster.target("worker", 0) if where else "") as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="boom") as info,
    ):
        tf.train.run_loop(session, bad, 10, add, first_step=100, on_update=updates.append)
    assert info.value.op is bad.op
    assert "in step 104 of a loop" in str(info.value)
    assert "test_run_loop.py" in str(info.value)
    assert "/device:CPU:0" in str(info.value)
    assert sum(each.num_steps for each in updates) == 4


def test_closing_the_session_ends_its_loops(cluster):
    add = counter()
    for target in ("", cluster.target("worker", 0)):
        session = started(target)
        loop = tf.train.start_loop(session, add)
        next(iter(loop))
        session.close()
        assert loop.done
        with pytest.raises(tf.errors.CancelledError, match="Session has been closed"):
            loop.wait(WAIT_S)


def test_a_loop_outlives_nobody(cluster):
    """A client that disappears silently ends its loop on the master."""
    add = counter()
    session = started(cluster.target("worker", 0))
    loop = tf.train.start_loop(session, add)
    next(iter(loop))
    session._client._channel.close()
    with pytest.raises(tf.errors.OpError):
        loop.wait(WAIT_S)
    value = tf.global_variables()[0]
    wait = threading.Event()
    with tf.Session(cluster.target("worker", 0)) as other:
        counts = [-1, other.run(value)]
        for _ in range(100):
            if counts[-1] == counts[-2]:
                break
            wait.wait(0.05)
            counts.append(other.run(value))
        assert counts[-1] == counts[-2]


def test_towers_between_parameter_servers(cluster):
    """In-graph replication: two workers, two parameter servers, fetches on four tasks."""
    sums = []
    variables = []
    for ps in range(2):
        with tf.device(f"/job:ps/task:{ps}"):
            variables.append(tf.get_variable(f"v{ps}", initializer=0.0))
    for worker in range(2):
        with tf.device(f"/job:worker/task:{worker}"):
            data = tf.data.Dataset.range(40 + worker).make_one_shot_iterator().get_next()
            sums.append(tf.to_float(data) + variables[0] - variables[0])
    train = [tf.assign_add(v, sums[0] + sums[1]) for v in variables]
    with started(cluster.target("worker", 1)) as session:
        updates = []
        result = tf.train.run_loop(session, train, None, [*sums, *train], on_update=updates.append)
        # The first worker's data end first, which ends the loop.
        assert (result.num_steps, result.reason) == (40, "data")
        assert session.run(variables) == [1560.0, 1560.0]
        columns = [
            np.concatenate([update.values[i] for update in updates]).tolist() for i in range(4)
        ]
    assert columns[0] == columns[1] == list(range(40))
    assert columns[2] == columns[3] == np.cumsum(np.arange(40) * 2.0).tolist()
    assert [u.first_step for u in updates] == list(
        np.cumsum([0, *(u.num_steps for u in updates)])[:-1]
    )


def test_a_killed_worker_ends_the_loop():
    with tf.device("/job:ps/task:0"):
        add = counter()
    with tf.device("/job:worker/task:1"):
        far = tf.identity(add)
    with LocalCluster(1, 2, processes=True) as cluster:
        session = started(cluster.target("worker", 0))
        loop = tf.train.start_loop(session, far, None, far)
        updates = iter(loop)
        next(updates)
        cluster.kill("worker", 1)
        with pytest.raises(tf.errors.UnavailableError, match="/job:worker"):
            for _ in updates:
                pass
        assert session.run(tf.global_variables()[0]) > 0
        session.close()
