"""`run_loop`: what it runs is what `Session.run` runs step by step, however it ends."""

import math
import signal
import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.session.session import BaseSession
from sparkflow.train.session_run_hook import limits_of, narrowest
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
        # Neither parameter server did a step more than the other.
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
        # An operation among the fetches gives None, as it does for `Session.run`.
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
    """A client that goes away without a word ends its loop on the master."""
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
        # The data of the first worker end first: all end with them.
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


class Unknown(tf.train.SessionRunHook):
    """Sees every run."""

    def __init__(self):
        self.runs = 0

    def before_run(self, run_context):
        self.runs += 1


@pytest.fixture
def loops(monkeypatch):
    """The numbers of steps of the loops that were started."""
    started_with = []
    start = BaseSession._start_loop

    def spy(self, fetches, feed_dict, num_steps, first_step, bounds):
        started_with.append(num_steps)
        return start(self, fetches, feed_dict, num_steps, first_step, bounds)

    monkeypatch.setattr(BaseSession, "_start_loop", spy)
    return started_with


def monitored(folder, steps, more, by_steps):
    """What a run with all hooks leaves behind: events, checkpoints, the log, the variables."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x = tf.data.Dataset.range(steps).make_one_shot_iterator().get_next()
        w = tf.get_variable("w", initializer=1.0)
        loss = tf.square(w - tf.to_float(x) + tf.random_uniform([]))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
        tf.summary.scalar("loss", loss)
        logged = []
        saves = []

        class Listener(tf.train.CheckpointSaverListener):
            def after_save(self, session, global_step_value):
                saves.append(global_step_value)

        hooks = [
            tf.train.NanTensorHook(loss),
            tf.train.LoggingTensorHook(
                {"loss": loss, "step": step},
                every_n_iter=7,
                formatter=lambda values: logged.append(dict(values)) or "",
            ),
            tf.train.StopAtStepHook(last_step=41),
            tf.train.CheckpointSaverHook(str(folder), save_steps=13, listeners=[Listener()]),
            tf.train.FinalOpsHook(w),
            tf.train.ProfilerHook(save_steps=9, output_dir=str(folder)),
            *more,
        ]
        losses = []
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder),
            hooks=hooks,
            save_checkpoint_secs=None,
            save_checkpoint_steps=None,
            save_summaries_steps=5,
            log_step_count_steps=10,
        ) as session:
            if by_steps:
                while not session.should_stop():
                    losses.append(session.run([train, loss])[1])
            else:
                tf.train.run_loop(
                    session, train, fetches=loss, on_update=lambda u: losses.extend(u.values)
                )
        tf.summary.FileWriterCache.clear()
        events = [
            (event.step, event.WhichOneof("what"), [v.tag for v in event.summary.value])
            for path in sorted(folder.glob("events*"))
            for event in tf.train.summary_iterator(str(path))
        ]
        values = [
            v.simple_value
            for path in sorted(folder.glob("events*"))
            for event in tf.train.summary_iterator(str(path))
            for v in event.summary.value
            if v.tag == "loss"
        ]
        files = sorted(p.name for p in folder.iterdir() if not p.name.startswith("events"))
        final = hooks[4].final_ops_values
        return losses, logged, saves, events, values, files, final


@pytest.mark.parametrize("steps", [30, 100])
def test_hooks_see_the_same_in_loops(tmp_path, loops, steps):
    results = []
    for name, more, by_steps in [
        ("steps", [], True),
        ("loops", [], False),
        ("unknown", [Unknown()], False),
    ]:
        (tmp_path / name).mkdir()
        del loops[:]
        results.append(monitored(tmp_path / name, steps, more, by_steps))
        if name == "loops":
            assert loops
        else:
            assert loops == []
    assert results[0][0]
    assert len(results[0][0]) == min(steps, 41)
    assert results[0] == results[1] == results[2]
    assert more[0].runs == min(steps, 41) + (steps < 41)


def test_few_runs_are_enough_where_hooks_are_far_apart(loops):
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
    with tf.train.MonitoredTrainingSession(
        hooks=[tf.train.StopAtStepHook(num_steps=1000)], log_step_count_steps=None
    ) as session:
        result = tf.train.run_loop(session, train, fetches=train)
    assert result == (1000, 1000, "stop")
    assert loops == [999]


def test_a_loop_ends_at_the_first_nan(loops):
    add = counter()
    loss = tf.log(tf.to_float(20 - add))
    hook = tf.train.NanTensorHook(loss, fail_on_nan_loss=False)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        result = tf.train.run_loop(session, add, fetches=[add, loss])
        assert result.num_steps == result.values[0] == 21
        assert math.isnan(result.values[1])
        assert session.should_stop()
    with (
        pytest.raises(tf.train.NanLossDuringTrainingError),
        tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as session,
    ):
        tf.train.run_loop(session, add)
    assert loops


def test_hooks_by_seconds_end_a_loop_in_time(tmp_path):
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
    saved = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            saved.append(global_step_value)
            return len(saved) == 3

    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_secs=0.2, listeners=[Listener()])
    with tf.train.SingularMonitoredSession(hooks=[hook]) as session:
        result = tf.train.run_loop(session, train)
        assert session.should_stop()
    assert result.reason == "stop"
    # The last one is of the step at which the loop ended.
    assert saved[0] == 0
    assert 0 < saved[1] < saved[2] == result.num_steps


def test_a_lost_task_is_recovered_from(loops, monkeypatch):
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
    start = BaseSession._start_loop

    def lose(self, *args):
        if len(loops) == 1:
            loops.append("lost")
            raise tf.errors.AbortedError(None, None, "the task is gone")
        return start(self, *args)

    hook = tf.train.StopAtStepHook(last_step=20)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert tf.train.run_loop(session, train, 5).num_steps == 5
        monkeypatch.setattr(BaseSession, "_start_loop", lose)
        result = tf.train.run_loop(session, train, fetches=train)
    # The new session began at step 0.
    assert "lost" in loops
    assert result.values == 20


def test_queue_runners_feed_loops_and_their_errors_end_them():
    queue = tf.FIFOQueue(10, tf.int64, shapes=[[]])
    data = tf.data.Dataset.range(50).make_one_shot_iterator().get_next()
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(data)]))
    item = queue.dequeue()
    items = []
    with tf.train.MonitoredSession() as session:
        result = tf.train.run_loop(
            session, item, fetches=item, on_update=lambda u: items.extend(u.values)
        )
    assert result.reason == "data"
    assert items == list(range(50))


def test_a_program_can_say_how_long_its_hook_may_sleep(loops):
    add = counter()

    class Patient(tf.train.SessionRunHook):
        def __init__(self):
            self.seen = []

        def before_run(self, run_context):
            return tf.train.SessionRunArgs(add)

        def after_run(self, run_context, run_values):
            self.seen.append(int(run_values.results))

        def loop_limits(self):
            return tf.train.LoopLimits(steps=10)

    class Impatient(Patient):
        def after_run(self, run_context, run_values):
            super().after_run(run_context, run_values)

    patient = Patient()
    with tf.train.MonitoredSession(hooks=[patient]) as session:
        tf.train.run_loop(session, add, 25)
    assert patient.seen == [10, 20, 25]
    assert loops == [10, 10, 5]
    impatient = Impatient()
    with tf.train.MonitoredSession(hooks=[impatient]) as session:
        tf.train.run_loop(session, add, 3)
    assert impatient.seen == [1, 2, 3]


def test_limits_of_hooks():
    assert limits_of(tf.train.SessionRunHook()).steps == math.inf
    assert limits_of(tf.train.FinalOpsHook(None)).steps == math.inf
    assert limits_of(Unknown()).steps == 1
    assert limits_of(tf.train.FeedFnHook(dict)).steps == 1
    assert limits_of(object()).steps == 1
    patched = tf.train.SessionRunHook()
    patched.after_run = lambda context, values: None
    assert limits_of(patched).steps == 1
    both = narrowest(
        [
            tf.train.LoopLimits(5, 2.0, {"a": 3.0}),
            tf.train.LoopLimits(7, 1.0, {"a": 2.0, "b": 1.0}),
        ]
    )
    assert both == (5, 1.0, {"a": 2.0, "b": 1.0})


def test_workers_that_share_a_step_counter_stop_where_runs_would(cluster):
    """Between-graph replication: each worker's loop ends by the count that all make together."""
    results, errors = {}, []

    def work(task):
        try:
            with tf.Graph().as_default():
                with tf.device(
                    tf.train.replica_device_setter(2, worker_device=f"/job:worker/task:{task}")
                ):
                    step = tf.train.get_or_create_global_step()
                    data = tf.data.Dataset.range(1, 10000).make_one_shot_iterator().get_next()
                    # The parameter server waits for the worker, as it does for gradients.
                    train = tf.assign_add(step, tf.minimum(data, 1), use_locking=True)
                    hook = tf.train.StopAtStepHook(last_step=200)
                with tf.train.MonitoredTrainingSession(
                    cluster.target("worker", task),
                    is_chief=task == 0,
                    hooks=[hook],
                    save_summaries_steps=None,
                    log_step_count_steps=None,
                    config=tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task}"]),
                ) as session:
                    done = tf.train.run_loop(session, train).num_steps
                    results[task] = done, int(session._tf_sess().run(step))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(task,), daemon=True) for task in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not errors
    counts = [done for done, _ in results.values()]
    # A worker may begin some steps before it hears that the other made the last one.
    assert 200 <= sum(counts) < 220
    assert max(last for _, last in results.values()) == sum(counts)
