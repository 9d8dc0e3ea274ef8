"""The columns of both an estimator and its model."""

from __future__ import annotations

from sparkflow.spark.params.accessors.column_accessors import ColumnAccessors


class ColumnParams(ColumnAccessors):
    """The columns of both an estimator and its model."""

    def prediction_columns(self) -> dict[str, str]:
        """The output column of each prediction for which Spark ML has a column."""
        return {
            "prediction": self.getPredictionCol(),
            "probability": self.getProbabilityCol(),
            "rawPrediction": self.getRawPredictionCol(),
        }
