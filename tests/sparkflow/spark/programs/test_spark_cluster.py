"""Users' own programs on a cluster hosted by Spark's executors."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark import SparkCluster, SparkTrainingError
from sparkflow.spark.errors import LostTaskError
from sparkflow.spark.programs import tensorboard_server
from support.processes import left_after

WAIT_S = 60


@pytest.fixture
def cluster(spark, child_processes):
    with SparkCluster(spark, numWorkers=2, numPs=1) as made, tf.Graph().as_default():
        yield made
    assert left_after(child_processes) == []


def test_a_session_of_the_driver_places_ops_on_the_executors(cluster, child_processes):
    with tf.device("/job:ps/task:0"):
        w = tf.Variable([[2.0], [1.0]])
    towers = []
    for task in range(2):
        with tf.device(f"/job:worker/task:{task}"):
            x = tf.constant(np.float32([[task + 1, 1]]))
            towers.append(tf.matmul(x, w))
    with tf.Session(cluster.target, credentials=cluster.credentials) as session:
        session.run(tf.global_variables_initializer())
        first, second = session.run(towers)
        devices = [each.name for each in session.list_devices()]
    assert (first.item(), second.item()) == (3.0, 5.0)
    assert len(child_processes()) == 3
    assert {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"} <= {
        name.rpartition("/device")[0] for name in devices
    }
    assert sorted(cluster.spec.as_dict()) == ["ps", "worker"]
    assert cluster.spec.num_tasks("worker") == 2
    assert cluster.is_running
    assert repr(cluster) == "SparkCluster(numWorkers=2, numPs=1; running)"


def test_in_graph_replicas_train_on_parameter_servers(cluster):
    random = np.random.RandomState(0)
    features = random.randn(200, 3).astype(np.float32)
    labels = features @ np.float32([[1], [-2], [0.5]])
    setter = tf.train.replica_device_setter(cluster=cluster.spec)
    losses = []
    with tf.device(setter):
        w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
    for task in range(2):
        with tf.device(f"/job:worker/task:{task}"):
            share = slice(100 * task, 100 * task + 100)
            predicted = tf.matmul(tf.constant(features[share]), w)
            losses.append(tf.reduce_mean(tf.square(predicted - labels[share])))
    loss = tf.add_n(losses) / 2
    step = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    with tf.Session(cluster.target, credentials=cluster.credentials) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            _, last = session.run([step, loss])
        found = session.run(w)
    assert last < 1e-6
    np.testing.assert_allclose(found[:, 0], [1, -2, 0.5], atol=1e-3)


def test_only_who_has_the_token_gets_in(cluster):
    for credentials in (None, "a guess"):
        with pytest.raises(tf.errors.UnauthenticatedError):
            tf.Session(cluster.target, credentials=credentials)


def process_of(task, processes):
    """Returns the process of a task, found by its environment."""
    for process in processes:
        if f"SPARKFLOW_TASK={task}".encode() in Path(f"/proc/{process}/environ").read_bytes():
            return process
    raise AssertionError(f"no process of {task}")


def test_a_lost_worker_is_told_and_the_cluster_can_be_made_again(cluster, child_processes):
    with tf.device("/job:worker/task:1"):
        value = tf.constant(1.0) + tf.random_uniform([])
    with tf.Session(cluster.target, credentials=cluster.credentials) as session:
        session.run(value)
        os.kill(process_of("worker 1", child_processes()), signal.SIGKILL)
        deadline = time.monotonic() + WAIT_S
        while cluster.is_running and time.monotonic() < deadline:
            time.sleep(0.05)
    with pytest.raises(LostTaskError, match="worker task 1"):
        cluster.check()
    with pytest.raises(LostTaskError, match="worker task 1"):
        print(cluster.target)
    cluster.stop()
    with tf.Session(cluster.target, credentials=cluster.credentials) as session:
        assert 1 <= session.run(value) < 2
    cluster.check()


def test_what_tasks_write_is_in_the_logs(cluster):
    with tf.device("/job:worker/task:1"):
        said = tf.Print(tf.constant(1.0), [tf.constant(7)], "written by a task: ")
    with tf.Session(cluster.target, credentials=cluster.credentials) as session:
        session.run(said)
    deadline = time.monotonic() + WAIT_S
    while "[worker task 1] written by a task: [7]" not in cluster.logs:
        assert time.monotonic() < deadline, cluster.logs
        time.sleep(0.05)


def test_what_does_not_fit_is_refused_at_once(spark):
    with pytest.raises(ValueError, match="numWorkers must be 1 or more, got 0"):
        SparkCluster(spark, numWorkers=0, numPs=1)
    with pytest.raises(ValueError, match="numPs must be 0 or more, got -1"):
        SparkCluster(spark, numPs=-1)
    for count in ("two", 1.5, True, None):
        with pytest.raises(TypeError, match="numWorkers must be a whole number, got "):
            SparkCluster(spark, numWorkers=count)
    with (
        SparkCluster(spark, numWorkers=9) as cluster,
        pytest.raises(SparkTrainingError, match="need 9 task slots at once, and Spark has 4"),
    ):
        cluster.start()
    assert not cluster.is_running
    cluster.stop()


def test_tensorboard_ends_with_the_cluster(spark, tmp_path, monkeypatch):
    class Board:
        def __init__(self, folder, host, port):
            self.url = f"http://{host}:{len(made) + 6006}/"
            self.closed = False
            made.append(self)

        def close(self):
            self.closed = True

    made = []
    monkeypatch.setattr(tensorboard_server, "TensorBoardServer", Board)
    with SparkCluster(spark) as cluster:
        assert cluster.tensorboard(tmp_path / "a") == "http://127.0.0.1:6006/"
        assert cluster.tensorboard(str(tmp_path / "b"), "10.0.0.1") == "http://10.0.0.1:6007/"
        assert cluster.tensorboard(tmp_path / "a") == "http://127.0.0.1:6006/"
        cluster.stop()
        assert not any(board.closed for board in made)
    assert len(made) == 2
    assert all(board.closed for board in made)
