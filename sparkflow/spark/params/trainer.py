"""All parameters of `SparkTrainer`, of which each room beside this one has its own.

Every parameter is checked when it is set, so that a wrong one fails before any job. Each has a
second spelling in snake_case (`features_col` for `featuresCol`), which the constructors,
`setParams` and attribute access take.
"""

from __future__ import annotations

from sparkflow.spark.params.columns import ColumnParams
from sparkflow.spark.params.control import ControlParams
from sparkflow.spark.params.data import DataParams
from sparkflow.spark.params.life import LifeParams
from sparkflow.spark.params.reporting import ReportingParams
from sparkflow.spark.params.training import TrainingParams


class TrainerParams(
    ColumnParams, DataParams, TrainingParams, ControlParams, LifeParams, ReportingParams
):
    """What the estimators know."""

    def takes_labels(self) -> bool:
        """Whether the model is trained with labels; `labelCol` is not read otherwise."""
        return True

    def takes_weights(self) -> bool:
        """Whether the model's loss can weigh rows."""
        return True
