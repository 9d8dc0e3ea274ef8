"""Functions that run in every task of a Spark job, with their role in TF_CONFIG."""

import json
import time

import numpy as np
import pytest

from sparkflow.spark import SparkCluster, SparkTrainingError
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.programs.functions import tf_config
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef

WAIT_S = 60


def trained(steps):
    """A between-graph program of TensorFlow 1; returns its task, the last step and the weights."""
    import json
    import os

    import sparkflow as tf

    config = json.loads(os.environ["TF_CONFIG"])
    job, index = config["task"]["type"], config["task"]["index"]
    spec = tf.train.ClusterSpec(config["cluster"])
    server = tf.train.Server(spec, job_name=job, task_index=index)
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
    # Here, because the tasks import this module, too, and have no `support`.
    from support.processes import left_after

    cluster = SparkCluster(spark, numWorkers=2, numPs=1)
    found = cluster.run(trained, 60)
    assert [index for index, _, _ in found] == [0, 1]
    assert max(made for _, made, _ in found) >= 60
    np.testing.assert_allclose(found[0][2], [3, -1], atol=0.1)
    assert "[worker task 1] task 1 has ended" in cluster.logs
    assert cluster.run(lambda a, b: a + b, 1, 2) == [3, 3]
    assert left_after(child_processes) == []


def asked_late():
    """Worker 1 needs the server of worker 0, which has returned long before."""
    import json
    import os
    import time

    import sparkflow as tf

    config = json.loads(os.environ["TF_CONFIG"])
    index = config["task"]["index"]
    spec = tf.train.ClusterSpec(config["cluster"])
    server = tf.train.Server(spec, job_name="worker", task_index=index)
    if index == 0:
        return 0.0
    time.sleep(3)
    with tf.Graph().as_default(), tf.device("/job:worker/task:0"):
        value = tf.constant(2.0) * 3.0
        with tf.Session(server.target) as session:
            return float(session.run(value))


def test_a_server_lives_until_all_workers_have_returned(spark):
    assert SparkCluster(spark, numWorkers=2).run(asked_late) == [0.0, 6.0]


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


def test_functions_without_a_barrier_stage(spark):
    settings = spark.sparkContext._conf
    settings.set("spark.sparkflow.barrier", "false")
    try:
        cluster = SparkCluster(spark, numWorkers=2, numPs=1)
        assert [index for index, _, _ in cluster.run(trained, 60)] == [0, 1]
        with pytest.raises(SparkTrainingError, match="no such thing"):
            cluster.run(failing, "worker")
        with cluster:
            assert cluster.spec.num_tasks("worker") == 2
    finally:
        settings.set("spark.sparkflow.barrier", "auto")


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
    expected = "exited with code 7" if kind == "exit" else "ValueError: no such thing"
    assert expected in text
    deadline = time.monotonic() + WAIT_S
    while child_processes():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_tf_config_says_who_is_where():
    cluster = ClusterDef()
    cluster.job.add(name="ps", tasks={0: "10.0.0.1:5"})
    cluster.job.add(name="worker", tasks={1: "[fd00::7]:7", 0: "10.0.0.2:6"})
    assert json.loads(tf_config(cluster, TaskName("worker", 1))) == {
        "cluster": {"ps": ["10.0.0.1:5"], "worker": ["10.0.0.2:6", "[fd00::7]:7"]},
        "task": {"type": "worker", "index": 1},
    }
