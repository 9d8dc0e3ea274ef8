"""Run by test_seed_programs.py as a separate program, because a process has one SparkContext.

    python seed_programs.py MASTER FOLDER

The programs used to teach distributed TensorFlow 1, on a `SparkCluster` with the rows of a
DataFrame. Prints one JSON object: the result of each.
"""

import json
import os
import signal
import sys
import time

import numpy as np
from pyspark.sql import SparkSession, functions as F

import sparkflow as tf
from sparkflow.ops.distributed.collective import all_reduce
from sparkflow.spark import SparkCluster
from sparkflow.spark.errors import LostTaskError
from support.processes import executors

WAIT_S = 120
WEIGHTS = [1.0, -2.0, 0.5]


def in_graph(cluster, rows):
    """Replicas in one graph of the driver, variables round robin on two servers."""
    with tf.Graph().as_default():
        with tf.device(tf.train.replica_device_setter(cluster=cluster.spec)):
            w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
            b = tf.get_variable("b", [1], initializer=tf.ones_initializer())
        losses = []
        for task in range(len(rows)):
            with tf.device(f"/job:worker/task:{task}"):
                features, labels = rows[task].make_one_shot_iterator().get_next()
                predicted = (tf.matmul(features, w) + b)[:, 0]
                losses.append(tf.reduce_mean(tf.square(predicted - labels)))
        step = tf.train.GradientDescentOptimizer(0.2).minimize(tf.add_n(losses) / len(losses))
        with tf.Session(cluster.target, credentials=cluster.credentials) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(150):
                session.run(step)
            found = session.run([w, b])
    return [each.device for each in (w, b)], np.concatenate(found, axis=None).tolist()


def ring(cluster):
    """An all-reduce among the workers, in one graph."""
    with tf.Graph().as_default():
        sums = []
        for task in range(2):
            with tf.device(f"/job:worker/task:{task}"):
                mine = tf.fill([1000], float(task + 1))
                sums.append(all_reduce(mine, 2, 1, 1, "Add", "Id"))
        with tf.Session(cluster.target, credentials=cluster.credentials) as session:
            return [float(each.mean()) for each in session.run(sums)]


def between_graph(rows):
    """A graph in each task, synchronous replicas."""
    config = json.loads(os.environ["TF_CONFIG"])
    job, index = config["task"]["type"], config["task"]["index"]
    spec = tf.train.ClusterSpec(config["cluster"])
    server = tf.train.Server(spec, job_name=job, task_index=index, insecure=True)
    if job == "ps":
        server.join()
    device = tf.train.replica_device_setter(cluster=spec, worker_device=f"/job:worker/task:{index}")
    with tf.Graph().as_default(), tf.device(device):
        features, labels = rows[index].make_one_shot_iterator().get_next()
        w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(features, w)[:, 0] - labels))
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.2), replicas_to_aggregate=2, total_num_replicas=2
        )
        train = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
        hooks = [
            optimizer.make_session_run_hook(index == 0),
            tf.train.StopAtStepHook(last_step=100),
        ]
        found = None
        with tf.train.MonitoredTrainingSession(
            server.target, is_chief=index == 0, hooks=hooks
        ) as session:
            while not session.should_stop():
                _, found = session.run([train, w])
    return found[:, 0].tolist()


def kill_an_executor(folder):
    """Kills the JVM above a task's process."""
    for executor in executors(folder).values():
        os.kill(executor, signal.SIGKILL)
        return


def survive(cluster, rows, folder):
    """What ends when an executor is lost; the cluster can be created again with its rows."""
    kill_an_executor(folder)
    deadline = time.monotonic() + WAIT_S
    while cluster.is_running and time.monotonic() < deadline:
        time.sleep(0.1)
    try:
        cluster.check()
    except LostTaskError as error:
        lost = str(error)
    cluster.stop()
    return lost, in_graph(cluster, rows)[1]


def main():
    master, folder = sys.argv[1:]
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    features = F.array(F.sin("id"), F.cos(F.col("id") * 2), F.sin(F.col("id") * 3))
    df = spark.range(0, 600, 1, 5).select(features.alias("features"))
    label = sum(weight * F.col("features")[place] for place, weight in enumerate(WEIGHTS))
    df = df.withColumn("label", label)
    found = {}
    with SparkCluster(spark, numWorkers=2, numPs=2) as cluster:
        rows = cluster.dataset(df, ["features", "label"], batch_size=50, shuffle=True, epochs=None)
        found["devices"], found["in_graph"] = in_graph(cluster, rows)
        found["ring"] = ring(cluster)
        if not master.startswith("local["):
            found["lost"], found["again"] = survive(cluster, rows, folder)
        cluster.stop()
        found["between_graph"] = cluster.run(between_graph, rows)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
