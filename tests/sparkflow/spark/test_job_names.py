"""The number of Spark jobs of a fit and an evaluation, and their names in the UI."""

from collections.abc import Callable
from pathlib import Path
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
    rows = [(Vectors.dense(each), float(each[0] > 0), *map(float, each)) for each in x]
    names = ["features", "label", "a", "b", "c"]
    found = spark.createDataFrame(rows, names).repartition(2).cache()
    found.count()
    return found


@pytest.fixture
def new_jobs(spark: SparkSession) -> Jobs:
    """Returns a function that returns the descriptions of the jobs since its last call."""
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


ROWS, STATISTICS, TRAINING = "rows", "statistics", "training"
NUMBERS = {"featuresCol": ["a", "b"]}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({}, [ROWS, ROWS, TRAINING], id="vectors, whose sizes only rows say"),
        pytest.param(NUMBERS, [ROWS, TRAINING], id="numbers"),
        pytest.param(
            {**NUMBERS, "standardization": False, "validationFraction": 0.3},
            [ROWS, TRAINING],
            id="validation",
        ),
        pytest.param(
            {**NUMBERS, "numWorkers": 2, "syncMode": "sync"}, [ROWS, TRAINING], id="in step"
        ),
        # Spark runs the exchange of rows as a separate job, as well as the profile of rows in
        # groups.
        pytest.param(
            {**NUMBERS, "classWeights": "balanced"},
            [ROWS, ROWS, STATISTICS, TRAINING, TRAINING],
            id="weighted classes",
        ),
    ],
)
def test_a_fit_takes_few_jobs_with_names(
    df: DataFrame, new_jobs: Jobs, params: dict[str, Any], expected: list[str]
) -> None:
    estimator = SparkLinearClassifier(epochs=1, batchSize=30, progress=False, **params)
    estimator.fit(df)
    jobs = new_jobs()
    assert [_what(each) for each in jobs] == expected, jobs
    assert all(jobs), jobs


def test_a_fit_on_files_a_transformation_and_an_evaluation(
    df: DataFrame, new_jobs: Jobs, tmp_path: Path
) -> None:
    df.select("a", "b", "label").write.parquet(str(tmp_path / "rows"))
    estimator = SparkLinearClassifier(epochs=1, batchSize=30, progress=False, **NUMBERS)
    new_jobs()
    model = estimator.fitOnParquet(str(tmp_path / "rows"))
    jobs = new_jobs()
    assert [_what(each) for each in jobs] == [ROWS, ROWS, STATISTICS, TRAINING], jobs
    model.transform(df).select("prediction").collect()
    assert len(new_jobs()) == 1
    model.evaluate(df)
    assert new_jobs() == [f"{estimator.uid}: evaluate, all metrics"]


def test_statistics_that_come_with_the_rows_are_those_of_a_job_of_their_own(
    df: DataFrame,
) -> None:
    """A separate job profiles the rows of a balanced fit; the other's are profiled on writing."""
    one = SparkLinearClassifier(epochs=1, batchSize=30, progress=False)
    weighted = SparkLinearClassifier(
        epochs=1, batchSize=30, progress=False, classWeights={0: 1.0, 1: 1.0}
    )
    found = []
    for each in (one, weighted):
        with each.training_data(df) as data:
            found.append(data.facts)
    (mine,), (theirs,) = (list(each.features.values()) for each in found)
    np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-6)
    np.testing.assert_allclose(mine.scale, theirs.scale, rtol=1e-6)
    assert found[0].label_range == found[1].label_range
    assert found[0].label.mean == found[1].label.mean


def _what(description: str) -> str:
    """Returns the purpose of a job; that of the training shows its progress."""
    what = description.rpartition(": ")[2]
    return what if what in (ROWS, STATISTICS) else TRAINING


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
