"""Supervisors: defaults, managed sessions, services, what only the chief may do."""

import threading

import pytest

import sparkflow as tf
from sparkflow_runtime.events.event_file import read_events
from sparkflow_runtime.testing.local_cluster import LocalCluster

DEADLINE_S = 60


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def counter():
    step = tf.train.get_or_create_global_step()
    return step, tf.assign_add(step, 1)


def test_defaults_come_from_collections_or_are_made(tmp_path):
    step, _ = counter()
    ready = tf.constant([], tf.string)
    tf.add_to_collection(tf.GraphKeys.READY_OP, ready)
    supervisor = tf.train.Supervisor(logdir=str(tmp_path))
    assert supervisor.ready_op is ready
    assert supervisor.global_step is step
    assert supervisor.init_op is tf.get_collection(tf.GraphKeys.INIT_OP)[0]
    assert supervisor.saver is tf.get_collection(tf.GraphKeys.SAVERS)[0]
    assert supervisor.summary_op is None
    assert supervisor.save_path == str(tmp_path / "model.ckpt")
    assert supervisor.is_chief
    assert tf.get_default_graph().finalized
    supervisor.summary_writer.close()


def test_what_is_none_is_gone_without():
    counter()
    supervisor = tf.train.Supervisor(saver=None, init_op=None, global_step=None, logdir=None)
    assert supervisor.saver is None
    assert supervisor.init_op is None
    assert supervisor.global_step is None
    assert supervisor.save_path is None
    assert supervisor.summary_writer is None
    with pytest.raises(RuntimeError, match="Writing a summary requires a summary writer"):
        supervisor.summary_computed(None, b"")


def test_a_managed_session_initialises_saves_and_restores(tmp_path):
    saved = threading.Event()

    class Saver(tf.train.Saver):
        def save(self, *args, **kwargs):
            path = super().save(*args, **kwargs)
            if path.endswith("-3"):  # not that of step 0, which may still be in progress
                saved.set()
            return path

    step, add = counter()
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), saver=Saver(), save_model_secs=0.01)
    with supervisor.managed_session() as session:
        assert session.run(step) == 0
        for _ in range(3):
            session.run(add)
        assert saved.wait(DEADLINE_S)
    assert supervisor.should_stop()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(step)
    with supervisor.managed_session() as session:
        assert session.run(step) == 3
    assert (tmp_path / "graph.pbtxt").exists()


def test_summaries_are_written_by_the_service_and_by_hand(tmp_path):
    _, add = counter()
    merged = tf.summary.merge([tf.summary.scalar("three", tf.constant(3.0))])
    supervisor = tf.train.Supervisor(
        logdir=str(tmp_path), summary_op=None, save_summaries_secs=600, save_model_secs=0
    )
    with supervisor.managed_session() as session:
        session.run(add)
        supervisor.summary_computed(session, session.run(merged))
    (path,) = tmp_path.glob("events.out.tfevents.*")
    events = list(read_events(str(path)))
    values = [(e.step, v.tag) for e in events for v in e.summary.value]
    assert (1, "three") in values
    statuses = [e.session_log.status for e in events if e.HasField("session_log")]
    assert statuses[0] == tf.SessionLog.START
    assert statuses[-1] == tf.SessionLog.STOP


def test_errors_stop_the_supervisor_and_come_out_of_the_block():
    counter()
    supervisor = tf.train.Supervisor()

    def fail():
        with supervisor.managed_session():
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        fail()
    with supervisor.managed_session():
        raise tf.errors.OutOfRangeError(None, None, "no more data")
    assert supervisor.should_stop()


def test_loops_run_until_they_are_stopped_and_their_errors_come_out():
    counter()
    supervisor = tf.train.Supervisor()
    called = threading.Event()
    with supervisor.managed_session():
        looper = supervisor.loop(0.001, called.set)
        assert called.wait(DEADLINE_S)
    assert not looper.is_alive()

    def fail():
        with supervisor.managed_session() as session:
            supervisor.loop(None, session.run, args=("nothing:0",))
            supervisor.wait_for_stop()

    with pytest.raises((ValueError, KeyError), match="nothing"):
        fail()


def test_only_the_chief_may_start_services_and_others_need_devices():
    with tf.device("/job:ps/task:0"):
        counter()
    supervisor = tf.train.Supervisor(is_chief=False, logdir="/nowhere")
    assert supervisor.logdir is None
    with pytest.raises(RuntimeError, match="Only chief supervisor can start standard services"):
        supervisor.start_standard_services(None)
    with tf.Graph().as_default():
        tf.Variable(1, name="loose")
        with pytest.raises(ValueError, match=r"must have their device set: .*loose"):
            tf.train.Supervisor(is_chief=False)


def test_basic_train_loop_starts_again_after_an_abort():
    _, add = counter()
    supervisor = tf.train.Supervisor()
    steps = []

    def train(session, limit):
        steps.append(int(session.run(add)))
        if len(steps) == 2:
            raise tf.errors.AbortedError(None, None, "lost")
        if len(steps) == limit:
            supervisor.request_stop()

    tf.train.basic_train_loop(supervisor, train, args=(4,))
    assert steps == [1, 2, 1, 2]


def test_workers_wait_for_the_chief():
    with LocalCluster(num_ps=1, num_workers=2) as cluster:
        seen = {}

        def run(task):
            with tf.Graph().as_default():
                with tf.device(tf.train.replica_device_setter(ps_tasks=1)):
                    w = tf.get_variable("w", [], initializer=tf.constant_initializer(5.0))
                supervisor = tf.train.Supervisor(is_chief=task == 0, recovery_wait_secs=0.1)
                with supervisor.managed_session(cluster.target("worker", task)) as session:
                    seen[task] = float(session.run(w))

        threads = [threading.Thread(target=run, args=(task,)) for task in (1, 0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert seen == {0: 5.0, 1: 5.0}
