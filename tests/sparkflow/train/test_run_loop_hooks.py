"""Hooks in step loops: they see what they would see in single runs, as often as they need."""

import math
import threading

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


class Unknown(tf.train.SessionRunHook):
    """Sees every run."""

    def __init__(self):
        self.runs = 0

    def before_run(self, run_context):
        self.runs += 1


@pytest.fixture
def loops(monkeypatch):
    """Records the numbers of steps of the loops that were started."""
    started_with = []
    start = BaseSession._start_loop

    def spy(self, fetches, feed_dict, num_steps, first_step, bounds):
        started_with.append(num_steps)
        return start(self, fetches, feed_dict, num_steps, first_step, bounds)

    monkeypatch.setattr(BaseSession, "_start_loop", spy)
    return started_with


def monitored(folder, steps, more, by_steps):
    """Returns what a run with all hooks leaves: events, checkpoints, the log, the variables."""
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
    # The last one is for the step at which the loop ended.
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
    """Between-graph replication: each worker's loop ends by the count of all workers."""
    results, errors = {}, []

    def work(task):
        try:
            with tf.Graph().as_default():
                with tf.device(
                    tf.train.replica_device_setter(2, worker_device=f"/job:worker/task:{task}")
                ):
                    step = tf.train.get_or_create_global_step()
                    data = tf.data.Dataset.range(1, 10000).make_one_shot_iterator().get_next()
                    # The parameter server waits for the worker, as for gradients.
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
    # A worker may begin some steps before it learns that the other one made the last step.
    assert 200 <= sum(counts) < 220
    assert max(last for _, last in results.values()) == sum(counts)
