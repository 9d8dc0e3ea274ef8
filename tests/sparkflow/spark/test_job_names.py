"""How many Spark jobs a fit and an evaluation take, and what the UI calls them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession

from sparkflow.spark import SparkLinearClassifier
from sparkflow.spark.job_names import described

pytestmark = pytest.mark.timeout(240)

Jobs = Callable[[], list[str]]


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    x = np.random.default_rng(0).normal(size=(60, 3))
    rows = [(Vectors.dense(each), float(each[0] > 0)) for each in x]
    found = spark.createDataFrame(rows, ["features", "label"]).repartition(2).cache()
    found.count()
    return found


@pytest.fixture
def new_jobs(spark: SparkSession) -> Jobs:
    """A function that gives the descriptions of the jobs since it was called last."""
    store: Any = spark.sparkContext._jsc.sc().statusStore()  # type: ignore[attr-defined]
    bus: Any = spark.sparkContext._jsc.sc().listenerBus()  # type: ignore[attr-defined]
    seen: set[int] = set()

    def find() -> list[str]:
        bus.waitUntilEmpty()
        listed = store.jobsList(None)
        found = {}
        for index in range(listed.size()):
            job = listed.apply(index)
            if job.jobId() not in seen:
                text = job.description()
                found[job.jobId()] = text.get() if text.isDefined() else ""
        seen.update(found)
        return [found[number] for number in sorted(found)]

    find()
    return find


def test_a_fit_and_an_evaluation_take_few_jobs_with_names(df: DataFrame, new_jobs: Jobs) -> None:
    estimator = SparkLinearClassifier(epochs=1, batchSize=30, progress=False)
    model = estimator.fit(df)
    jobs = new_jobs()
    uid = estimator.uid
    # Rows are written by the tasks that read them; the training itself is one.
    assert len(jobs) <= 5, jobs
    assert all(jobs), jobs
    assert all(uid in each or uid.rsplit("_", 1)[0] in each for each in jobs), jobs
    model.evaluate(df)
    assert new_jobs() == [f"{uid}: evaluate, all metrics"]


def test_descriptions_are_those_of_a_block(spark: SparkSession, new_jobs: Jobs) -> None:
    spark.sparkContext.setLocalProperty("spark.job.description", "mine")
    try:
        with described(spark, "ours"):
            spark.range(1).rdd.count()
        spark.range(1).rdd.count()
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    assert new_jobs() == ["ours", "mine"]


def test_a_connect_session_is_left_alone() -> None:
    with described(object(), "ours"):
        pass
