"""The columns that both an estimator and its model know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from sparkflow.spark.params.aliases import ParamAliases, Self
from sparkflow.spark.params.converters import choice, column, columns, integer, param

FeaturesCol: TypeAlias = str | list[str] | dict[str, str | list[str]]
"""A column, a list of scalar columns, or a dictionary of input to one of these."""


class ColumnParams(ParamAliases):
    """The columns that both the estimator and its model know."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "featuresCol": "features",
        "predictionCol": "prediction",
        "probabilityCol": "probability",
        "rawPredictionCol": "rawPrediction",
        "inferenceBatchSize": 1024,
        "inferenceDevice": "auto",
    }

    featuresCol = param(
        "featuresCol",
        "the features: a column of vectors, arrays or single values; a list of scalar columns; or "
        "a dictionary of named inputs, each of which is one of these",
        columns,
    )
    predictionCol = param(
        "predictionCol", "receives the prediction named 'prediction', as a double", column
    )
    probabilityCol = param(
        "probabilityCol", "receives the prediction named 'probability', as a vector", column
    )
    rawPredictionCol = param(
        "rawPredictionCol", "receives the prediction named 'rawPrediction', as a vector", column
    )
    inferenceBatchSize = param(
        "inferenceBatchSize", "rows per run of the graph in transform", integer(1)
    )
    inferenceDevice = param(
        "inferenceDevice",
        "where transform runs the graph: 'auto' (on the GPU that Spark gives the task, if it gives "
        "one), 'cpu' or 'gpu'",
        choice("auto", "cpu", "gpu"),
    )

    def getFeaturesCol(self) -> FeaturesCol:
        """The features column, the list of scalar columns, or these by the input's name."""
        value: FeaturesCol = self.getOrDefault(self.featuresCol)
        return value

    def setFeaturesCol(self: Self, value: FeaturesCol) -> Self:
        """Sets `featuresCol`."""
        return self._set(featuresCol=value)

    def getPredictionCol(self) -> str:
        """The column of the prediction named `prediction`."""
        return str(self.getOrDefault(self.predictionCol))

    def setPredictionCol(self: Self, value: str) -> Self:
        """Sets `predictionCol`."""
        return self._set(predictionCol=value)

    def getProbabilityCol(self) -> str:
        """The column of the prediction named `probability`."""
        return str(self.getOrDefault(self.probabilityCol))

    def setProbabilityCol(self: Self, value: str) -> Self:
        """Sets `probabilityCol`."""
        return self._set(probabilityCol=value)

    def getRawPredictionCol(self) -> str:
        """The column of the prediction named `rawPrediction`."""
        return str(self.getOrDefault(self.rawPredictionCol))

    def setRawPredictionCol(self: Self, value: str) -> Self:
        """Sets `rawPredictionCol`."""
        return self._set(rawPredictionCol=value)

    def prediction_columns(self) -> dict[str, str]:
        """The column of each prediction that Spark ML has a column for."""
        return {
            "prediction": self.getPredictionCol(),
            "probability": self.getProbabilityCol(),
            "rawPrediction": self.getRawPredictionCol(),
        }

    def getInferenceBatchSize(self) -> int:
        """How many rows `transform` runs the graph on at once."""
        return int(self.getOrDefault(self.inferenceBatchSize))

    def setInferenceBatchSize(self: Self, value: int) -> Self:
        """Sets `inferenceBatchSize`."""
        return self._set(inferenceBatchSize=value)

    def getInferenceDevice(self) -> str:
        """`auto`, `cpu` or `gpu`."""
        return str(self.getOrDefault(self.inferenceDevice))

    def setInferenceDevice(self: Self, value: str) -> Self:
        """Sets `inferenceDevice`."""
        return self._set(inferenceDevice=value)
