"""Hooks one by one, called directly and by a session; the timer they share."""

import json
import logging as python_logging

import pytest

import sparkflow as tf
from sparkflow.train.hooks import step_hooks, step_timer
from sparkflow_runtime.events.event_file import read_events
from support.clocks import give_time

HOOKS = [
    lambda: tf.train.StopAtStepHook(last_step=1),
    tf.train.StepCounterHook,
    lambda: tf.train.CheckpointSaverHook("somewhere", save_steps=1),
    lambda: tf.train.SummarySaverHook(save_steps=1, summary_op=tf.constant("")),
    lambda: tf.train.ProfilerHook(save_steps=1),
]


@pytest.fixture(autouse=True)
def _graph(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        yield
    tf.summary.FileWriterCache.clear()


@pytest.fixture
def log(caplog):
    before = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.INFO)
    logger = python_logging.getLogger("absl")
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)
    tf.logging.set_verbosity(before)


def counter():
    step = tf.train.get_or_create_global_step()
    return step, tf.assign_add(step, 1)


def events_in(folder):
    (path,) = folder.glob("events.out.tfevents.*")
    return list(read_events(str(path)))


def test_the_timer_by_steps():
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    assert timer.last_triggered_step() is None
    assert timer.should_trigger_for_step(1)
    assert timer.update_last_triggered_step(1) == (None, None)
    assert [s for s in range(1, 8) if timer.should_trigger_for_step(s)] == [4, 5, 6, 7]
    assert timer.update_last_triggered_step(4)[1] == 3
    timer.reset()
    assert timer.should_trigger_for_step(4)


def test_the_timer_by_seconds(monkeypatch):
    now = [100.0]
    give_time(monkeypatch, step_timer, time=lambda: now[0])
    timer = tf.train.SecondOrStepTimer(every_secs=1.0)
    timer.update_last_triggered_step(1)
    assert not timer.should_trigger_for_step(2)
    now[0] += 1.0
    assert not timer.should_trigger_for_step(1)  # never twice at the same step
    assert timer.should_trigger_for_step(2)
    assert timer.update_last_triggered_step(2) == (1.0, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tf.train.SecondOrStepTimer(), "Either every_secs or every_steps"),
        (lambda: tf.train.SecondOrStepTimer(1.0, 1), "Can not provide both"),
        (lambda: tf.train.StopAtStepHook(), "One of num_steps or last_step"),
        (lambda: tf.train.StopAtStepHook(1, 2), "Only one of num_steps or last_step"),
        (lambda: tf.train.LoggingTensorHook([]), "exactly one of every_n_iter"),
        (lambda: tf.train.LoggingTensorHook([], every_n_iter=0), "invalid every_n_iter=0"),
        (lambda: tf.train.LoggingTensorHook([], 1, 1.0), "exactly one of every_n_iter"),
        (lambda: tf.train.StepCounterHook(1, 1.0), "exactly one of every_n_steps"),
        (lambda: tf.train.SummarySaverHook(1), "Exactly one of scaffold or summary_op"),
        (lambda: tf.train.CheckpointSaverHook("d"), "Either every_secs or every_steps"),
        (
            lambda: tf.train.CheckpointSaverHook("d", saver=object(), scaffold=object()),
            "both saver and scaffold",
        ),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("make", HOOKS)
def test_hooks_about_steps_need_a_step_counter(make):
    with pytest.raises(RuntimeError, match="Global step should be created to use"):
        make().begin()


def test_values_are_logged(log):
    step, add = counter()
    hooks = [
        tf.train.LoggingTensorHook({"b": step, "a": tf.constant(7)}, every_n_iter=2),
        tf.train.LoggingTensorHook([step], at_end=True, formatter=lambda v: f"END {v[step]}"),
    ]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        for _ in range(3):
            session.run(add)
    texts = [r.getMessage() for r in log.records if "a = 7, b =" in r.getMessage()]
    assert len(texts) == 2
    assert " sec)" not in texts[0]
    assert texts[1].endswith(" sec)")
    assert "END 3" in log.messages


def test_names_of_operations_mean_their_output(log):
    _, add = counter()
    tf.constant(7, name="seven")
    tf.nn.top_k([1.0, 3.0], 1, name="best")
    tf.no_op("nothing")
    hook = tf.train.LoggingTensorHook({"a": "seven", "b": "best:1"}, every_n_iter=1)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(add)
    assert "a = 7, b = [1]" in log.messages
    for name, error in (("best", ValueError), ("nothing", KeyError), ("missing", KeyError)):
        with pytest.raises(error, match=name):
            tf.train.LoggingTensorHook([name], every_n_iter=1).begin()


def test_the_rate_is_written(tmp_path, log):
    _, add = counter()
    hook = tf.train.StepCounterHook(every_n_steps=2, output_dir=str(tmp_path))
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(5):
            session.run(add)
    tf.summary.FileWriterCache.clear()
    rates = [(e.step, v.tag) for e in events_in(tmp_path) for v in e.summary.value]
    assert rates == [(3, "global_step/sec"), (5, "global_step/sec")]


def test_summaries_are_written_when_due(tmp_path):
    step, add = counter()
    summary = tf.summary.scalar("twice", 2 * step)
    hook = tf.train.SummarySaverHook(save_steps=2, output_dir=str(tmp_path), summary_op=summary)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(5):
            session.run(add)
    found = events_in(tmp_path)
    assert [e.step for e in found if e.summary.value] == [1, 3, 5]
    assert [e.session_log.status for e in found if e.HasField("session_log")] == [
        tf.SessionLog.START
    ]


def test_traces_are_written(tmp_path):
    _, add = counter()
    made = tmp_path / "of" / "its_own"
    hook = tf.train.ProfilerHook(save_steps=2, output_dir=str(made))
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(4):
            session.run(add)
    paths = sorted(made.glob("timeline-*.json"))
    assert 1 <= len(paths) <= 2
    assert all(json.loads(path.read_text())["traceEvents"] for path in paths)


def test_a_listener_can_stop_training(tmp_path):
    _, add = counter()
    calls = []

    class Listener(tf.train.CheckpointSaverListener):
        def begin(self):
            calls.append("begin")

        def before_save(self, session, global_step_value):
            calls.append(("before", global_step_value))

        def after_save(self, session, global_step_value):
            calls.append(("after", global_step_value))
            return global_step_value >= 2

        def end(self, session, global_step_value):
            calls.append(("end", global_step_value))

    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=2, listeners=[Listener()])
    tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver())
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        while not session.should_stop():
            session.run(add)
    assert calls == [
        "begin",
        ("before", 0),
        ("after", 0),
        ("before", 2),
        ("after", 2),
        ("end", 2),
    ]


def test_final_values_are_kept():
    step, add = counter()
    hook = tf.train.FinalOpsHook({"step": step})
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(add)
        assert hook.final_ops_values is None
    assert hook.final_ops_values == {"step": 1}


def test_a_waiting_worker_begins_at_its_step(monkeypatch):
    step, add = counter()
    hook = tf.train.GlobalStepWaiterHook(2)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        # Another worker trains while this one waits.
        give_time(monkeypatch, step_hooks, sleep=lambda _: session._tf_sess().run(add))
        assert session.run(step) == 2


def test_the_step_is_read_before_and_after_it_is_initialised():
    step, add = counter()
    read = tf.train.StopAtStepHook(last_step=9)
    read.begin()
    with tf.Session() as session:
        assert session.run(read._global_step_tensor) == 0
        session.run(tf.global_variables_initializer())
        session.run(add)
        assert session.run(read._global_step_tensor) == 1
        assert tf.train.global_step(session, step) == 1
