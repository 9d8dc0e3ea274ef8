"""All parameters of `SparkTrainer`, as `table` describes them.

Every parameter is checked when it is set, so that an invalid one fails before any job. The
constructors, `setParams` and attribute access also accept its name in snake_case (`features_col`
for `featuresCol`).
"""

from __future__ import annotations

from sparkflow.spark.params.accessors.control_accessors import ControlParams
from sparkflow.spark.params.accessors.data_accessors import DataParams
from sparkflow.spark.params.accessors.job_accessors import FaultToleranceParams, ReportingParams
from sparkflow.spark.params.accessors.training_accessors import TrainingParams
from sparkflow.spark.params.column_params import ColumnParams
from sparkflow.spark.params.config import FitConfig


class TrainerParams(
    ColumnParams, DataParams, TrainingParams, ControlParams, FaultToleranceParams, ReportingParams
):
    """The parameters of all estimators."""

    def takes_labels(self) -> bool:
        """Whether the model is trained with labels; `labelCol` is not read otherwise."""
        return True

    def takes_weights(self) -> bool:
        """Whether the model's loss can weigh rows."""
        return True

    def config(self, validates: bool = False) -> FitConfig:
        """Returns the configuration of a fit.

        Args:
            validates: Whether there are validation rows.
        """
        return FitConfig.of(
            {param.name: value for param, value in self.extractParamMap().items()},
            validates,
            takes_labels=self.takes_labels(),
            takes_weights=self.takes_weights(),
            made_features=self.getFeaturesCol(),
        )
