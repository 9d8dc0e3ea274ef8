"""Trials of Optuna that are ended early, on rows that are placed once."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparkflow.spark import OptunaPruning, SparkLinearRegressor

optuna = pytest.importorskip("optuna")


RATES = (0.01, 500.0, 0.1)
"""The trials' rates. Two threads may draw the same enqueued trial from SQLite (Optuna 5.0)."""


class _Trial:
    """Records what it is told, and is pruned at a value."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.reports: list[tuple[int, float]] = []

    def report(self, value: float, step: int) -> None:
        self.reports.append((step, value))

    def should_prune(self) -> bool:
        return self.reports[-1][1] > self.limit


def test_validations_are_numbered_and_reported_once() -> None:
    trial = _Trial(limit=3.0)
    pruning = OptunaPruning(trial, "val_rmse")
    pruning.on_epoch_end(0, {"loss": 9.0})
    pruning.on_validation({"step": 20, "loss": 9.0, "rmse": 2.0})
    pruning.on_validation({"step": 40, "loss": 9.0, "rmse": 1.0})
    pruning.on_restart("executor 1 lost")
    pruning.on_validation({"step": 40, "loss": 9.0, "rmse": 8.0})
    assert trial.reports == [(0, 2.0), (1, 1.0)]
    with pytest.raises(optuna.TrialPruned, match="pruned at val_rmse=4, report 2"):
        pruning.on_validation({"step": 60, "loss": 9.0, "rmse": 4.0})
    with pytest.raises(ValueError, match="monitor='val_auc' is not one of the metrics: loss, rmse"):
        OptunaPruning(trial, "val_auc").on_validation({"step": 1, "loss": 1.0, "rmse": 2.0})


def test_epochs_are_reported_where_there_is_no_validation() -> None:
    trial = _Trial(limit=3.0)
    pruning = OptunaPruning(trial, "loss")
    pruning.on_validation({"step": 20, "loss": 9.0})
    pruning.on_epoch_end(0, {"loss": 2.0})
    with pytest.raises(optuna.TrialPruned):
        pruning.on_epoch_end(1, {"loss": 5.0})
    assert trial.reports == [(0, 2.0), (1, 5.0)]


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("child_processes")
@pytest.mark.filterwarnings("ignore")
def test_bad_trials_end_early_and_a_study_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rows = [([i / 50, (i % 7) / 7], 2.0 * i / 50) for i in range(100)]
    df = spark.createDataFrame(rows, "features array<double>, label double").coalesce(2).cache()
    estimator = SparkLinearRegressor(
        numWorkers=1,
        numPs=0,
        epochs=3,
        batchSize=10,
        validationFraction=0.2,
        standardization=False,
        optimizer="SGD",
        progress=False,
    )
    ended: dict[int, int] = {}

    def study() -> Any:
        return optuna.create_study(
            study_name="linear",
            storage=f"sqlite:///{tmp_path}/study.db",
            load_if_exists=True,
            pruner=optuna.pruners.ThresholdPruner(upper=50.0),
        )

    with estimator.training_data(df) as data:
        data.placed.persist()

        def objective(trial: Any) -> float:
            rate = trial.suggest_float("rate", RATES[trial.number], RATES[trial.number])
            own = estimator.copy({estimator.learningRate: rate, estimator.allowNonFinite: True})
            own.callbacks = (OptunaPruning(trial),)
            model = own.fit_data(data)
            ended[trial.number] = len(model.history.epoch_loss)
            found: float = model.history.validation[-1]["loss"]
            return found

        first = study()
        first.optimize(objective, n_trials=2, n_jobs=2)
        again = study()
        assert len(again.trials) == 2
        again.optimize(objective, n_trials=1)
        data.placed.unpersist()
    df.unpersist()
    by_rate = {trial.params["rate"]: trial for trial in study().trials}
    state = optuna.trial.TrialState
    assert by_rate[500.0].state is state.PRUNED
    assert len(by_rate[500.0].intermediate_values) < 3
    assert {by_rate[rate].state for rate in (0.01, 0.1)} == {state.COMPLETE}
    assert sorted(by_rate[0.1].intermediate_values) == [0, 1, 2]
    assert by_rate[500.0].number not in ended
    assert again.best_params == {"rate": 0.1}
