"""Jobs listen where they are told to: in a range of ports, on an interface, on IPv6."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark import SparkCluster, SparkTrainer, SparkTrainingError
from sparkflow.spark.cluster.addresses import local_addresses

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("child_processes")]

WIDTH = 24


@pytest.fixture
def first_port() -> Iterator[int]:
    """Returns the first of 24 ports, one of which is in use, below those that systems assign."""
    start = 20_000 + os.getpid() % 9_000
    for first in range(start, start + 3_000, WIDTH):
        with contextlib.ExitStack() as stack:
            try:
                for offset in range(WIDTH):
                    each = stack.enter_context(socket.socket())
                    each.bind(("127.0.0.1", first + offset))
                    if offset == 1:
                        taken = each
            except OSError:
                continue
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", first + 1))
            taken.listen()
            yield first
        return
    pytest.fail("no free range of ports")


def _role() -> Any:
    return json.loads(os.environ["TF_CONFIG"])["cluster"]


def test_all_that_listens_is_in_the_range(
    spark: Any, child_processes: Any, listening_ports: Any, first_port: int
) -> None:
    allowed = set(range(first_port, first_port + WIDTH)) - {first_port + 1}
    ports = f"{first_port}-{first_port + WIDTH - 1}"
    with SparkCluster(spark, numWorkers=2, numPs=1, ports=ports, interface="lo") as cluster:
        used = listening_ports(child_processes() if cluster.target else [])
        assert len(used) == 6  # each task has one for messages and one for tensors
        assert used <= allowed
        with (
            tf.Graph().as_default(),
            tf.device("/job:worker/task:1"),
            tf.Session(cluster.target, credentials=cluster.credentials) as session,
        ):
            assert session.run(tf.constant(3) + 4) == 7
    (first, _) = SparkCluster(spark, numWorkers=2, ports=ports).run(_role)
    assert {int(place.rpartition(":")[2]) for place in first["worker"]} <= allowed


def test_too_few_ports_are_an_error_of_the_task_with_its_host(spark: Any, first_port: int) -> None:
    df = spark.createDataFrame([([1.0], 1.0)] * 8, "features array<double>, label double")

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        prediction = tf.squeeze(tf.layers.dense(features, 1), axis=[1])
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, prediction)
        loss = tf.reduce_mean(tf.square(prediction - labels))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def fit(ports: str) -> Any:
        return SparkTrainer(
            model_fn=model_fn, numWorkers=1, ports=ports, progress=False, maxRestarts=0
        ).fit(df)

    with pytest.raises(SparkTrainingError) as caught:
        fit(f"{first_port}-{first_port + 2}")
    assert f"ports={first_port}-{first_port + 2} on {socket.gethostname()}" in str(caught.value)
    model = fit(f"{first_port}-{first_port + WIDTH - 1}")
    assert np.isfinite(model.history.loss).all()


@pytest.mark.skipif(("lo", "::1") not in local_addresses(), reason="this machine has no IPv6")
def test_a_driver_with_an_ipv6_address(spark: Any) -> None:
    settings = spark.sparkContext._conf
    before = {key: settings.get(key) for key in ("spark.driver.host", "spark.driver.bindAddress")}
    settings.set("spark.driver.host", "[::1]").set("spark.driver.bindAddress", "::1")
    # In a barrier stage this session's JVM, which listens on IPv4, would look for itself there.
    settings.set("spark.sparkflow.barrier", "false")
    try:
        with SparkCluster(spark, numWorkers=2) as cluster:
            assert all(place.startswith("[::1]:") for place in cluster.spec.job_tasks("worker"))
            with (
                tf.Graph().as_default(),
                tf.Session(cluster.target, credentials=cluster.credentials) as session,
            ):
                with tf.device("/job:worker/task:0"):
                    x = tf.random_uniform([300, 300])
                with tf.device("/job:worker/task:1"):
                    y = tf.reduce_mean(x)
                assert 0.4 < session.run(y) < 0.6
        found = SparkCluster(spark, numWorkers=2).run(_role)
        assert all(place.startswith("[::1]:") for place in found[0]["worker"])
    finally:
        settings.set("spark.sparkflow.barrier", "auto")
        for key, value in before.items():
            settings.set(key, value)
