"""The check before the job, without Spark."""

import itertools

import pytest

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.job.layout import Layout
from sparkflow.spark.job.slots import check_slots, require_classic_session


def test_executors_that_register_late_are_waited_for() -> None:
    counts = itertools.count(1)
    check_slots(lambda: next(counts), Layout(1, 2), wait_s=60)
    assert next(counts) == 4


def test_too_few_slots_after_the_wait() -> None:
    with pytest.raises(SparkTrainingError, match=r"numWorkers=2 and numPs=1 need 3 .* Spark has 2"):
        check_slots(lambda: 2, Layout(1, 2), wait_s=0)


def test_spark_connect_is_refused() -> None:
    class ConnectSession:
        pass

    with pytest.raises(SparkTrainingError, match="Spark Connect client"):
        require_classic_session(ConnectSession())  # type: ignore[arg-type]  # a stand-in
