"""MonitoredSessions continue when the tasks of their cluster die and come back at their ports."""

import threading

import pytest

import sparkflow as tf
from sparkflow_runtime.testing.kill_at import KillAt
from sparkflow_runtime.testing.leaks import assert_nothing_left
from sparkflow_runtime.testing.local_cluster import LocalCluster

LAST_STEP, STEPS_AFTER = 40, 5
WAIT_S = 120


class Trainer:
    """One replica in a thread of this process, with the worker as its master; the chief kills."""

    def __init__(self, cluster, index, folder, sync, kills):
        self.error = None
        self.sessions = 0
        self.step = 0
        self.others_ready = lambda: False  # the test defines which tasks must exist before one dies
        self._kills = kills
        self._thread = threading.Thread(
            target=self._run, args=(cluster, index, folder, sync), daemon=True
        )
        self._thread.start()

    def join(self):
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), f"stuck after step {self.step}"
        if self.error is not None:
            raise self.error

    def _run(self, cluster, index, folder, sync):
        try:
            self._train(cluster, index, folder, sync)
        except Exception as error:
            self.error = error

    def _train(self, cluster, index, folder, sync):
        mine = f"/job:worker/task:{index}"
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(1, worker_device=mine)):
                weights = tf.get_variable("weights", [4], initializer=tf.zeros_initializer())
                loss = tf.reduce_sum(tf.square(weights - 1.0))
                step = tf.train.get_or_create_global_step()
                optimizer = tf.train.GradientDescentOptimizer(0.01)
                hooks = [Count(self)]
                if sync:
                    optimizer = tf.train.SyncReplicasOptimizer(optimizer, 2, 2)
                    hooks.append(optimizer.make_session_run_hook(index == 0, num_tokens=0))
                train = optimizer.minimize(loss, global_step=step)
            with tf.train.MonitoredTrainingSession(
                cluster.target("worker", index),
                is_chief=index == 0,
                hooks=hooks,
                config=tf.ConfigProto(device_filters=["/job:ps", mine]),
                checkpoint_dir=folder if index == 0 else None,
                save_checkpoint_steps=5,
                save_summaries_steps=None,
                log_step_count_steps=None,
                stop_grace_period_secs=5,
            ) as sess:
                left = STEPS_AFTER
                while self.step < LAST_STEP or left:
                    self.step = sess.run([train, step])[1]
                    left -= left > 0 and all(kill.done for kill in self._kills)
                    for kill in self._kills if index == 0 and self.others_ready() else ():
                        kill.reached(self.step)


class Count(tf.train.SessionRunHook):
    """Counts how often a session was made."""

    def __init__(self, trainer):
        self._trainer = trainer

    def after_create_session(self, session, coord):
        self._trainer.sessions += 1


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("dies", ["ps", "worker", "both"])
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
def test_training_goes_on_when_tasks_die_and_come_back(tmp_path, dies, sync):
    with assert_nothing_left(), LocalCluster(1, 2, processes=True) as cluster:
        kills = []
        if dies != "worker":
            kills.append(KillAt(cluster, "ps", 0, step=12, restart=True))
        if dies != "ps":
            kills.append(KillAt(cluster, "worker", 0, step=15, restart=True))
        chief = Trainer(cluster, 0, str(tmp_path), sync, kills)
        other = Trainer(cluster, 1, str(tmp_path), sync, kills)  # continues until they are done
        chief.others_ready = lambda: other.sessions > 0
        for trainer in (chief, other):
            trainer.join()
            assert trainer.step >= LAST_STEP
        assert all(kill.done for kill in kills)
        assert chief.sessions > 1
        if dies != "worker":
            assert other.sessions > 1
        tf.summary.FileWriterCache.clear()  # keeps the chief's writer open, as in TensorFlow
