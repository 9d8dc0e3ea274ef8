"""All traffic between driver and tasks is encrypted, and nobody else gets in."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkflow as tf
from sparkflow.spark import SparkCluster, SparkTrainer, SparkTrainingError
from sparkflow.spark.control.callbacks import Callback, Update
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.security.certificates import Authority
from support.listening import is_closed, listening, where
from support.spark_models import linear

pytestmark = pytest.mark.timeout(300)

PROGRAM = Path(__file__).with_name("tls_program.py")


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    rows = [([float(i % 7), float(i % 3)], float(i % 7 - 2 * (i % 3))) for i in range(120)]
    return spark.createDataFrame(rows, "features array<double>, label double").cache()


def trainer(**params: Any) -> SparkTrainer:
    return SparkTrainer(model_fn=linear, batchSize=20, epochs=60, progress=False, **params)


class Look(Callback):
    """Inspects all ports of the tasks and the driver during training."""

    def __init__(self, children: Callable[[], list[int]]) -> None:
        self.children = children
        self.before = listening(os.getpid())
        self.ports: dict[str, int] = {}
        self.open: list[Any] = []
        self.leaks: list[str] = []

    def on_steps(self, update: Update) -> None:
        if self.ports:
            return
        of_tasks = {place for pid in self.children() for place in listening(pid)}
        of_driver = listening(os.getpid()) - self.before
        self.ports = {"tasks": len(of_tasks), "driver": len(of_driver)}
        for place in of_tasks | of_driver:
            if not is_closed(place):
                self.open.append(place)
        self.leaks = where([b"PRIVATE KEY"], [os.getpid(), *self.children()], [])


@pytest.mark.parametrize("sync_mode", ["async", "allreduce"])
def test_a_fit_within_tls(
    df: DataFrame, child_processes: Callable[[], list[int]], sync_mode: str, tmp_path: Path
) -> None:
    look = Look(child_processes)
    fitted = trainer(tls=True, numWorkers=2, syncMode=sync_mode, callbacks=[look]).fit(df)
    # The port of gRPC and that of tensor channels of each server, and the driver's service.
    servers = 3 if sync_mode == "async" else 2
    assert look.ports == {"tasks": 2 * servers, "driver": 1}
    assert look.open == []
    assert look.leaks == []
    assert fitted.history.loss[-1] < fitted.history.loss[0] / 10


def test_on_loopback_the_default_is_without(
    df: DataFrame, child_processes: Callable[[], list[int]]
) -> None:
    look = Look(child_processes)
    trainer(callbacks=[look]).fit(df)
    assert len(look.open) == sum(look.ports.values())  # so that the test above is meaningful


def test_where_spark_encrypts_tls_cannot_be_turned_off(
    df: DataFrame, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = spark.sparkContext.getConf().set("spark.network.crypto.enabled", "true")
    monkeypatch.setattr(spark.sparkContext, "getConf", lambda: conf)
    with pytest.raises(SparkTrainingError, match=r"tls=False, but the cluster has spark\.network"):
        trainer(tls=False).fit(df)
    with pytest.raises(SparkTrainingError, match=r"tls=False, but the cluster has spark\.network"):
        SparkCluster(spark, tls=False)
    assert SparkCluster(spark).credentials.tls is not None


@pytest.mark.parametrize("given", ["no", 1, None])
def test_other_values_are_refused(given: Any, spark: SparkSession) -> None:
    with pytest.raises((TypeError, ValueError), match="must be one of auto"):
        trainer(tls=given)
    with pytest.raises((TypeError, ValueError), match="must be one of auto"):
        SparkCluster(spark, tls=given)


def test_a_cluster_of_ones_own_lets_in_who_has_its_certificate_and_its_token(
    spark: SparkSession, child_processes: Callable[[], list[int]], tmp_path: Path
) -> None:
    with SparkCluster(spark, numWorkers=1, numPs=1, tls=True) as cluster, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            w = tf.Variable(np.float32([2, 3]))
        with tf.device("/job:worker/task:0"):
            doubled = w * 2.0
        mine = cluster.credentials
        with tf.Session(cluster.target, credentials=mine) as session:
            session.run(w.initializer)
            np.testing.assert_array_equal(session.run(doubled), [4, 6])
        soon = tf.ConfigProto(operation_timeout_in_ms=1500)
        for others in (
            None,
            mine.token,
            Credentials(mine.token, Authority.create().issue("sparkflow job")),
        ):
            with pytest.raises((tf.errors.DeadlineExceededError, tf.errors.UnavailableError)):
                tf.Session(cluster.target, credentials=others, config=soon)
        with pytest.raises(tf.errors.UnauthenticatedError):
            tf.Session(cluster.target, credentials=Credentials("a guess", mine.tls))
        assert mine.token is not None
        secrets = [b"PRIVATE KEY", mine.token.encode()]
        assert where(secrets, [os.getpid(), *child_processes()], []) == []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.nightly
def test_executors_of_their_own_and_an_address_that_others_reach(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    ).stdout
    (line,) = (line for line in said.splitlines() if line.startswith("{"))
    found = json.loads(line)
    assert found["loss"][1] < found["loss"][0] / 10
    # Two ports of each of three servers; the driver has that of the service.
    assert found["ports"] == {"tasks": 6, "driver": 1}
    assert found["open"] == []
    assert found["leaks"] == []
    (events,) = found["events"]  # so the log was searched
    assert events.endswith(".zstd")
