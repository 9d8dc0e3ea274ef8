"""Monitored sessions: what hooks see and when, how loops end, what survives a lost task."""

import socket
import threading
from contextlib import ExitStack

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.sessions import late_runs, session_manager
from sparkflow_runtime.testing.local_cluster import LocalCluster

DEADLINE_S = 60


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield
    tf.summary.FileWriterCache.clear()


class Recorder(tf.train.SessionRunHook):
    """Records its calls."""

    def __init__(self, calls, name="hook", **asks):
        self.calls = calls
        self.name = name
        self.asks = asks

    def begin(self):
        self.calls.append((self.name, "begin"))

    def after_create_session(self, session, coord):
        assert isinstance(session, tf.Session)
        assert tf.get_default_graph().finalized
        self.calls.append((self.name, "after_create_session"))

    def before_run(self, run_context):
        assert run_context.original_args.fetches is not None
        self.calls.append((self.name, "before_run"))
        return tf.train.SessionRunArgs(**self.asks) if self.asks else None

    def after_run(self, run_context, run_values):
        self.calls.append((self.name, "after_run", run_values.results))

    def end(self, session):
        self.calls.append((self.name, "end"))


def counter():
    step = tf.train.get_or_create_global_step()
    return step, tf.assign_add(step, 1)


def test_hooks_are_called_in_order_and_get_what_they_ask_for():
    _, add = counter()
    seven = tf.constant(7)
    calls = []
    hooks = [Recorder(calls, "a", fetches={"x": seven}), Recorder(calls, "b")]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        assert session.run(add) == 1
    assert calls == [
        ("a", "begin"),
        ("b", "begin"),
        ("a", "after_create_session"),
        ("b", "after_create_session"),
        ("a", "before_run"),
        ("b", "before_run"),
        ("a", "after_run", {"x": 7}),
        ("b", "after_run", None),
        ("a", "end"),
        ("b", "end"),
    ]
    with pytest.raises(RuntimeError, match="Session is already closed"):
        session.run(add)


def test_hooks_feed_but_not_what_another_feeds():
    x = tf.placeholder_with_default(1, [])
    y = tf.placeholder_with_default(2, [])
    total = x * 10 + y
    hook = tf.train.FeedFnHook(lambda: {x: 5})
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert session.run(total) == 52
        assert session.run(total, {y: 3}) == 53
        with pytest.raises(RuntimeError, match="fed by a SessionRunHook and user"):
            session.run(total, {x: 1})
    with (
        tf.train.MonitoredSession(hooks=[hook, tf.train.FeedFnHook(lambda: {x: 6})]) as session,
        pytest.raises(RuntimeError, match="fed by two hooks"),
    ):
        session.run(total)


def test_hooks_options_are_merged():
    seen = []

    class Reader(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            seen.append((run_values.options.trace_level, run_values.options.timeout_in_ms))
            seen.append(len(run_values.run_metadata.step_stats.dev_stats) > 0)

    full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    slow = tf.RunOptions(timeout_in_ms=50_000)
    hooks = [Recorder([], options=full), Recorder([], "b", options=slow), Reader()]
    for hook in hooks[:2]:
        hook.asks["fetches"] = None
    _, add = counter()
    with tf.train.MonitoredSession(hooks=hooks) as session:
        session.run(add)
    assert seen == [(tf.RunOptions.FULL_TRACE, 50_000), True]


def test_out_of_range_ends_the_block_and_other_errors_leave_it():
    step, _ = counter()
    calls = []
    with tf.train.MonitoredSession(hooks=[Recorder(calls)]) as session:
        session.run(step)
        raise tf.errors.OutOfRangeError(None, None, "no more")
    assert calls[-1] == ("hook", "end")
    calls.clear()

    def fail():
        with tf.train.MonitoredSession(hooks=[Recorder(calls)]) as session:
            session.run(step)
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        fail()
    assert ("hook", "end") not in calls


def test_the_graph_is_final_inside_only():
    counter()
    with (
        tf.train.MonitoredSession(),
        pytest.raises(RuntimeError, match="finalized"),
    ):
        tf.constant(1)
    tf.constant(1)


def test_stopping_at_a_step_and_at_nan():
    step, add = counter()
    runs = 0
    with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(num_steps=3)]) as session:
        while not session.should_stop():
            session.run(add)
            runs += 1
        with pytest.raises(RuntimeError, match="should_stop requested"):
            session.run(add)
    assert runs == 3
    loss = tf.log(tf.cast(2 - step, tf.float32) * 0 - 1)
    with (
        pytest.raises(tf.train.NanLossDuringTrainingError, match="NaN loss during training"),
        tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as session,
    ):
        session.run(add)
    quiet = tf.train.NanTensorHook(loss, fail_on_nan_loss=False)
    with tf.train.MonitoredSession(hooks=[quiet]) as session:
        session.run(add)
        assert session.should_stop()


def test_step_functions():
    _, add = counter()
    calls = []
    with tf.train.MonitoredSession(hooks=[Recorder(calls)]) as session:

        def twice(step_context):
            first = step_context.session.run(add)
            return first, step_context.run_with_hooks(add)

        assert session.run_step_fn(twice) == (1, 2)
        assert sum(call[1] == "before_run" for call in calls) == 1
        with pytest.raises(ValueError, match="may either have one `step_context` argument"):
            session.run_step_fn(lambda wrong: None)
        with pytest.raises(StopIteration):
            session.run_step_fn(lambda step_context: step_context.request_stop())


def test_a_scaffold_initialises_and_its_function_gets_the_session():
    w = tf.get_variable("w", [])
    scaffold = tf.train.Scaffold(
        init_op=tf.no_op(), init_fn=lambda scaffold, session: w.load(4.0, session)
    )
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        assert session.run(w) == 4
    assert scaffold.saver is tf.get_collection(tf.GraphKeys.SAVERS)[0]
    unready = tf.train.Scaffold(init_op=tf.no_op())
    with pytest.raises(RuntimeError, match=r"Variables not initialized: w"):
        tf.train.MonitoredTrainingSession(scaffold=unready)


def test_training_goes_on_from_its_checkpoint(tmp_path):
    _, add = counter()
    saved = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            saved.append(global_step_value)

    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=2, listeners=[Listener()])
    for _ in range(2):
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), save_checkpoint_secs=None, chief_only_hooks=[hook]
        ) as session:
            for _ in range(3):
                last = session.run(add)
    assert last == 6
    assert saved == [0, 2, 3, 3, 5, 6]
    assert (tmp_path / "graph.pbtxt").exists()


def test_an_exception_in_a_queue_runner_reaches_the_loop():
    queue = tf.FIFOQueue(2, tf.int32)
    bad = tf.constant(1) // tf.placeholder_with_default(0, [])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(bad)]))
    item = queue.dequeue()

    def loop():
        with tf.train.MonitoredSession() as session:
            while not session.should_stop():
                session.run(item)

    with pytest.raises(tf.errors.InvalidArgumentError, match="by zero"):
        loop()


def maker_that_fails(error):
    """The work of a queue runner that fills a second queue, like tokens of synchronous replicas.

    The runner raises the error in its first life, and produces a number in the second one.
    """
    left = [error, np.int32(7)]

    def make():
        if not left:
            raise StopIteration("no more")
        made = left.pop(0)
        if isinstance(made, Exception):
            raise made
        return made

    made = tf.FIFOQueue(10, tf.int32, [[]])
    own = tf.FIFOQueue(1, tf.int32, [[]])
    number = tf.py_func(make, [], tf.int32)
    number.set_shape([])
    tf.train.add_queue_runner(tf.train.QueueRunner(own, [made.enqueue(number)]))
    return made.dequeue()


def monitored_session():
    return tf.train.MonitoredSession(stop_grace_period_secs=0.05)


def without_hooks(session, item):
    return session.run_step_fn(lambda step_context: step_context.session.run(item))


RUNS = pytest.mark.parametrize(
    "run", [lambda session, item: session.run(item), without_hooks], ids=["run", "raw"]
)


@RUNS
def test_a_run_that_waits_for_what_a_failed_queue_runner_makes_is_ended(monkeypatch, run):
    monkeypatch.setattr(late_runs, "_LEAST_GRACE_S", 0.05)
    item = maker_that_fails(tf.errors.InvalidArgumentError(None, None, "no more"))
    session = monitored_session()
    with pytest.raises(tf.errors.InvalidArgumentError, match="no more"):
        run(session, item)  # even if nobody closes the session
    with pytest.raises(tf.errors.InvalidArgumentError, match="no more"):
        session.close()


@RUNS
def test_a_task_lost_by_a_queue_runner_makes_a_new_session_though_a_run_waits(monkeypatch, run):
    monkeypatch.setattr(late_runs, "_LEAST_GRACE_S", 0.05)
    item = maker_that_fails(tf.errors.UnavailableError(None, None, "lost"))
    with monitored_session() as session:
        assert run(session, item) == 7


def test_a_run_of_a_supervisors_session_is_ended_that_waits_for_a_failed_queue_runner(monkeypatch):
    monkeypatch.setattr(late_runs, "_LEAST_GRACE_S", 0.05)
    item = maker_that_fails(tf.errors.InvalidArgumentError(None, None, "no more"))
    supervisor = tf.train.Supervisor(stop_grace_secs=0.05)
    session = supervisor.prepare_or_wait_for_session()
    with pytest.raises(tf.errors.InvalidArgumentError, match="no more"):
        session.run(item)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no more"):
        supervisor.stop()


def test_the_end_of_a_queue_ends_the_loop():
    numbers = tf.train.range_input_producer(3, num_epochs=1, shuffle=False)
    item = numbers.dequeue()
    seen = []
    with tf.train.MonitoredSession() as session:
        while not session.should_stop():
            seen.append(int(session.run(item)))
    assert seen == [0, 1, 2]


def free_addresses(count):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"localhost:{each.getsockname()[1]}" for each in sockets]


def test_a_lost_session_is_made_anew_from_the_checkpoint(tmp_path):
    calls = []
    ps_address, worker_address = free_addresses(2)
    cluster = {"ps": [ps_address], "worker": [worker_address]}
    ps = tf.train.Server(cluster, "ps", 0)
    worker = tf.train.Server(cluster, "worker", 0)
    try:
        with tf.device(tf.train.replica_device_setter(ps_tasks=1)):
            step, add = counter()
            w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
            train = tf.group(add, tf.assign_add(w, 1.0))
        with tf.train.MonitoredTrainingSession(
            worker.target,
            checkpoint_dir=str(tmp_path),
            save_checkpoint_steps=1,
            save_checkpoint_secs=None,
            hooks=[Recorder(calls)],
        ) as session:
            session.run(train)
            session.run(train)
            ps.stop()
            ps = tf.train.Server(cluster, "ps", 0)
            session.run(train)
            assert session.run([w, step]) == [3.0, 3]
    finally:
        ps.stop()
        worker.stop()
    assert [call[1] for call in calls].count("after_create_session") == 2
    assert [call[1] for call in calls].count("begin") == 1


def test_all_workers_survive_the_loss_of_a_parameter_server(tmp_path):
    ps_address, *worker_addresses = free_addresses(3)
    cluster = {"ps": [ps_address], "worker": worker_addresses}
    ps = tf.train.Server(cluster, "ps", 0)
    workers = [tf.train.Server(cluster, "worker", task) for task in range(2)]
    under_way, outcomes = threading.Event(), {}

    def run(task):
        try:
            with tf.Graph().as_default():
                setter = tf.train.replica_device_setter(
                    ps_tasks=1, worker_device=f"/job:worker/task:{task}"
                )
                with tf.device(setter):
                    _, add = counter()
                hooks = [tf.train.StopAtStepHook(last_step=60)]
                with tf.train.MonitoredTrainingSession(
                    workers[task].target,
                    is_chief=task == 0,
                    checkpoint_dir=str(tmp_path),
                    save_checkpoint_steps=10,
                    save_checkpoint_secs=None,
                    hooks=hooks,
                    max_wait_secs=DEADLINE_S,
                ) as session:
                    while not session.should_stop():
                        if session.run(add) > 20:
                            under_way.set()
                    outcomes[task] = "stopped"
        except BaseException as error:
            outcomes[task] = error
            under_way.set()

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in range(2)]
    try:
        for thread in threads:
            thread.start()
        assert under_way.wait(DEADLINE_S)
        ps.stop()
        ps = tf.train.Server(cluster, "ps", 0)
        for thread in threads:
            thread.join(DEADLINE_S)
    finally:
        for server in (ps, *workers):
            server.stop()
    assert outcomes == {0: "stopped", 1: "stopped"}


def test_without_recovery_the_loss_is_raised():
    _, add = counter()

    class Fails(tf.train.SessionRunHook):
        def __init__(self):
            self.left = 1

        def before_run(self, run_context):
            if self.left:
                self.left -= 1
                raise tf.errors.AbortedError(None, None, "lost")

    single = tf.train.SingularMonitoredSession(hooks=[Fails()])
    assert isinstance(single.raw_session(), tf.Session)
    with pytest.raises(tf.errors.AbortedError, match="lost"):
        single.run(add)
    single.close()
    with tf.train.MonitoredSession(hooks=[Fails()]) as session:
        assert session.run(add) == 1


def test_workers_wait_for_the_chief():
    with LocalCluster(num_ps=1, num_workers=2) as cluster:
        seen = {}

        def run(task):
            with tf.Graph().as_default():
                with tf.device(tf.train.replica_device_setter(ps_tasks=1)):
                    w = tf.get_variable("w", [], initializer=tf.constant_initializer(5.0))
                with tf.train.MonitoredTrainingSession(
                    cluster.target("worker", task), is_chief=task == 0, max_wait_secs=DEADLINE_S
                ) as session:
                    seen[task] = float(session.run(w))

        threads = [threading.Thread(target=run, args=(task,)) for task in (1, 0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert seen == {0: 5.0, 1: 5.0}


def test_waiting_for_a_session_has_a_limit():
    tf.get_variable("w", [])
    manager = tf.train.SessionManager(
        ready_op=tf.report_uninitialized_variables(), recovery_wait_secs=0.01
    )
    with pytest.raises(tf.errors.DeadlineExceededError, match="not ready after waiting"):
        manager.wait_for_session("", max_wait_secs=0.05)
    with pytest.raises(RuntimeError, match="no init_op or init_fn or local_init_op was given"):
        manager.prepare_session("")
    session, restored = manager.recover_session("")
    session.close()
    assert not restored
    with pytest.raises(ValueError, match="must also pass a ready_op"):
        tf.train.SessionManager(ready_for_local_init_op=tf.no_op())


def test_tasks_that_are_not_up_yet_are_waited_for(monkeypatch):
    w = tf.get_variable("w", [], initializer=tf.constant_initializer(2.0))
    missing = [1, 2]

    def open_session(*args, **kwargs):
        if missing:
            raise tf.errors.UnavailableError(None, None, f"task {missing.pop()} is not up")
        return tf.Session(*args, **kwargs)

    monkeypatch.setattr(session_manager, "Session", open_session)
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    with manager.prepare_session("", init_op=w.initializer) as session:
        assert session.run(w) == 2
    missing.append(3)
    with pytest.raises(tf.errors.UnavailableError, match="task 3"):
        manager.prepare_session("", init_op=w.initializer, max_wait_secs=0)


def test_a_task_lost_by_a_thread_makes_a_new_session():
    """The run's own error is only a consequence of the loss."""
    _, add = counter()
    coords = []

    class Loses(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            coords.append(coord)

        def before_run(self, run_context):
            if len(coords) == 1:
                coords[0].request_stop(tf.errors.UnavailableError(None, None, "lost"))
                raise ValueError("what followed")

    with tf.train.MonitoredSession(hooks=[Loses()]) as session:
        assert session.run(add) == 1
    assert len(coords) == 2


def test_values_in_a_restored_session(tmp_path):
    w = tf.get_variable("w", initializer=np.float32(3))
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        saver.save(session, str(tmp_path / "model"))
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    session, restored = manager.recover_session("", saver, checkpoint_dir=str(tmp_path))
    with session:
        assert restored
        assert session.run(w) == 3
