"""The default number of epochs and batch size."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparkflow.spark import SparkDNNClassifier, SparkLinearRegressor, SparkTrainerClassifier
from sparkflow.spark.estimators.sizes import MANY_ROWS, size_of, weight_decay_of

pytestmark = pytest.mark.spark  # pyspark.ml's Params need no session, but pyspark


@pytest.mark.parametrize("rows", [1, 7, 15, 133, 1_400, 5_000, 30_000])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("in_step", [False, True])
def test_few_rows_are_gone_through_often(rows: int, workers: int, in_step: bool) -> None:
    shares = [rows // workers + (each < rows % workers) for each in range(workers)]
    found = size_of(shares, in_step=in_step, least_epochs=10)
    assert 8 <= found.batch_size <= 128
    assert 10 <= found.epochs <= 200
    assert found.updates >= 1000 or found.epochs == 200
    assert found.updates <= 1000 + rows or found.epochs == 10


@pytest.mark.parametrize("rows", [MANY_ROWS, 10**6, 10**9])
def test_many_rows_are_not_gone_through_more_often_than_ever(rows: int) -> None:
    found = size_of([rows], in_step=False, least_epochs=10)
    assert (found.batch_size, found.epochs) == (128, 10)
    # However large the batches are.
    assert size_of([rows], in_step=False, least_epochs=5, batch_size=10**6).epochs == 5
    assert weight_decay_of(rows) <= 0.005


@pytest.mark.parametrize(
    ("given", "batch_size", "epochs", "updates"),
    [
        ({"batch_size": 50, "epochs": 3}, 50, 3, 3 * 4),
        ({"batch_size": 50, "epochs": 3, "in_step": True}, 50, 3, 3 * 2),
        ({"batch_size": 50, "epochs": 3, "max_steps": 5}, 50, 3, 5),
        ({"batch_size": 50, "epochs": 4, "accumulation": 2}, 50, 4, 8),
        ({"batch_size": 50}, 50, 200, 800),
        ({"epochs": 2}, 16, 2, 2 * (7 + 6)),
    ],
)
def test_what_is_given_stays(given: Any, batch_size: int, epochs: int, updates: int) -> None:
    found = size_of([100, 90], **{"in_step": False, "least_epochs": 10, **given})
    assert (found.batch_size, found.epochs, found.updates) == (batch_size, epochs, updates)


@pytest.mark.parametrize("mode", ["sync", "allreduce"])
def test_workers_that_start_decide_nothing(spark: SparkSession, mode: str) -> None:
    df = spark.createDataFrame(
        [([float(i)], float(i)) for i in range(90)], "features array<float>, label float"
    )
    estimator = SparkLinearRegressor(numWorkers=(1, 3), syncMode=mode)

    def chosen(slots: int) -> Any:
        estimator.count_workers = lambda: slots
        with estimator.training_data(df) as data:
            assert data.layout.num_workers == slots
            return estimator.size(data), estimator.decided(data).chosen

    assert chosen(1) == chosen(2) == chosen(3)


def test_own_networks_are_trained_as_their_parameters_say() -> None:
    with pytest.raises(ValueError, match="epochs: must be at least 1, got 0"):
        SparkTrainerClassifier(network=len, epochs=0)
    estimator = SparkDNNClassifier()
    assert (estimator.getEpochs(), estimator.getBatchSize()) == (0, 0)
