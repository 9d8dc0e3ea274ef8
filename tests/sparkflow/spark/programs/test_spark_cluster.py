"""Programs of the user's own on a cluster that Spark's executors host."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark import SparkCluster, SparkTrainingError
from sparkflow.spark.cluster_layout import Layout, TaskName
from sparkflow.spark.errors import LostTaskError
from sparkflow.spark.programs.functions import tf_config

WAIT_S = 60


@pytest.fixture
def cluster(spark, child_processes):
    with SparkCluster(spark, numWorkers=2, numPs=1) as made, tf.Graph().as_default():
        yield made
    assert child_processes() == []


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
    """The process of a task, by what its environment says."""
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
    with pytest.raises(ValueError, match="numWorkers=0 and numPs=1: a cluster has one worker"):
        SparkCluster(spark, numWorkers=0, numPs=1)
    with (
        SparkCluster(spark, numWorkers=9) as cluster,
        pytest.raises(SparkTrainingError, match="need 9 task slots at once, and Spark has 4"),
    ):
        cluster.start()
    assert not cluster.is_running
    cluster.stop()


def trained(steps):
    """A between-graph program of TensorFlow 1; returns its task, the last step and the weights."""
    import json
    import os

    import sparkflow as tf

    config = json.loads(os.environ["TF_CONFIG"])
    job, index = config["task"]["type"], config["task"]["index"]
    spec = tf.train.ClusterSpec(config["cluster"])
    server = tf.train.Server(spec, job_name=job, task_index=index, insecure=True)
    if job == "ps":
        server.join()
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(cluster=spec)):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        loss = tf.reduce_sum(tf.square(w - [3.0, -1.0]))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        hooks = [tf.train.StopAtStepHook(last_step=steps)]
        with tf.train.MonitoredTrainingSession(
            server.target, is_chief=index == 0, hooks=hooks
        ) as session:
            while not session.should_stop():
                _, made, value = session.run([train, step, w])
    print("task", index, "has ended")
    return index, int(made), value.tolist()


def test_a_function_runs_in_every_task(spark, child_processes):
    cluster = SparkCluster(spark, numWorkers=2, numPs=1)
    found = cluster.run(trained, 60)
    assert [index for index, _, _ in found] == [0, 1]
    assert max(made for _, made, _ in found) >= 60
    np.testing.assert_allclose(found[0][2], [3, -1], atol=0.1)
    assert "[worker task 1] task 1 has ended" in cluster.logs
    assert cluster.run(lambda a, b: a + b, 1, 2) == [3, 3]
    assert child_processes() == []


def failing(kind):
    import json
    import os
    import sys
    import time

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    if [task["type"], task["index"]] == ["ps" if kind == "ps" else "worker", 0]:
        print("about to fail", file=sys.stderr)
        if kind == "exit":
            os._exit(7)
        raise ValueError("no such thing")
    time.sleep(600)


@pytest.mark.parametrize("kind", ["worker", "ps", "exit"])
def test_the_first_failure_comes_back_and_ends_the_others(spark, child_processes, kind):
    cluster = SparkCluster(spark, numWorkers=2, numPs=1)
    began = time.monotonic()
    with pytest.raises(SparkTrainingError) as caught:
        cluster.run(failing, kind)
    assert time.monotonic() - began < WAIT_S
    text = str(caught.value)
    assert f"{'ps' if kind == 'ps' else 'worker'} task 0 on " in text
    assert "about to fail" in text
    expected = "exit code 7" if kind == "exit" else "ValueError: no such thing"
    assert expected in text
    deadline = time.monotonic() + WAIT_S
    while child_processes():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_tf_config_says_who_is_where():
    layout = Layout(1, 2)
    places = [("10.0.0.1", 5), ("10.0.0.2", 6), ("fd00::7", 7)]
    assert json.loads(tf_config(layout, TaskName("worker", 1), places)) == {
        "cluster": {"ps": ["10.0.0.1:5"], "worker": ["10.0.0.2:6", "[fd00::7]:7"]},
        "task": {"type": "worker", "index": 1},
    }
