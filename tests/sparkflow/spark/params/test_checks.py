"""Incompatible parameters are found before any job."""

from __future__ import annotations

from typing import Any

import pytest

from sparkflow.spark.params.checks import check_metric, check_params
from sparkflow.spark.params.config import FitConfig


def check(validates: bool = False, **given: Any) -> None:
    check_params(FitConfig.of({"numWorkers": 2, **given}, validates), given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"microBatches": 4}, "microBatches=4 needs modelParallel"),
        (
            {"modelParallel": 2, "microBatches": 9, "batchSize": 8},
            "microBatches=9 is more than batchSize=8 has rows",
        ),
        (
            {"modelParallel": 2, "syncMode": "allreduce"},
            "modelParallel=2 needs parameter servers.*use syncMode='sync'",
        ),
        ({"backupWorkers": 1}, r"backupWorkers=1 needs syncMode='sync'.*is 'async'"),
        (
            {"backupWorkers": 2, "syncMode": "sync"},
            "backupWorkers=2 must be less than numWorkers=2",
        ),
        ({"staleness": 2, "syncMode": "sync"}, r"staleness=2 needs syncMode='ssp'"),
        ({"syncMode": "allreduce", "numPs": 2}, r"no parameter servers, but numPs=2"),
        ({"validationSteps": 5}, "validationSteps=5 needs validation rows"),
        ({"earlyStoppingPatience": 2}, "earlyStoppingPatience=2 needs validation rows"),
        ({"earlyStoppingMetric": "auc"}, "no effect without earlyStoppingPatience"),
        ({"checkpointSteps": 5}, "checkpointSteps=5 needs checkpointDir"),
        ({"checkpointSeconds": 5.0}, "checkpointSeconds=5.0 needs checkpointDir"),
        ({"resume": "never"}, "resume='never' needs checkpointDir"),
    ],
)
def test_nonsense_is_an_error(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check(**given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"backupWorkers": 1, "syncMode": "sync"},
        {"modelParallel": 2, "microBatches": 8, "batchSize": 8},
        {"staleness": 0, "syncMode": "ssp"},
        {"syncMode": "allreduce"},
        {"syncMode": "allreduce", "numPs": 0, "gradientAccumulation": 4},
        {"checkpointDir": "/tmp/x", "checkpointSteps": 5, "checkpointSeconds": 2.0},
        {"checkpointDir": "/tmp/x", "resume": "never"},
    ],
)
def test_sense_is_not(given: dict[str, Any]) -> None:
    check(**given)
    check(validates=True, validationSteps=5, earlyStoppingPatience=2, **given)


def test_the_metric_must_be_known() -> None:
    check_metric("-auc", {"auc", "loss"})
    with pytest.raises(ValueError, match="the model has the metrics auc, loss"):
        check_metric("accuracy", {"auc", "loss"})
