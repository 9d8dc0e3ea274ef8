"""The columns that both an estimator and its model know."""

from __future__ import annotations

from sparkflow.spark.params.accessors import ColumnAccessors


class ColumnParams(ColumnAccessors):
    """The columns that both an estimator and its model know."""

    def prediction_columns(self) -> dict[str, str]:
        """The column of each prediction that Spark ML has a column for."""
        return {
            "prediction": self.getPredictionCol(),
            "probability": self.getProbabilityCol(),
            "rawPrediction": self.getRawPredictionCol(),
        }
