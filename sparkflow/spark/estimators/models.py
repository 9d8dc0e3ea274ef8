"""Models of classes and of numbers, with what pyspark.ml's models of that kind have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark import StorageLevel
from pyspark.ml.classification import ProbabilisticClassificationModel
from pyspark.ml.evaluation import (
    BinaryClassificationEvaluator,
    Evaluator,
    MulticlassClassificationEvaluator,
    RegressionEvaluator,
)
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import DenseVector, SparseVector, Vectors
from pyspark.ml.param.shared import HasWeightCol
from pyspark.ml.regression import RegressionModel
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import BooleanType

from sparkflow.spark.data.plan.prepare import release
from sparkflow.spark.data.schema.frame import quoted
from sparkflow.spark.data.schema.row_format import RAGGED
from sparkflow.spark.estimators.estimator_accessors import ThresholdParams
from sparkflow.spark.model.trainer_model import SparkTrainerModel

_CLASS_METRICS = ("accuracy", "f1", "weightedPrecision", "weightedRecall", "logLoss")
_BINARY_METRICS = ("areaUnderROC", "areaUnderPR")
_REGRESSION_METRICS = ("rmse", "mse", "mae", "r2")


class _PredictsRows(SparkTrainerModel, HasWeightCol):
    """What both kinds share."""

    @property
    def numFeatures(self) -> int:
        """The number of elements of a row; -1 if it holds texts or lists of any length."""
        inputs = self.inference_model.signature.inputs
        if any(each.kind == RAGGED or each.dtype == "string" for each in inputs):
            return -1
        return sum(int(np.prod(each.shape, dtype=np.int64)) for each in inputs)

    def _of_row(self, value: Any) -> dict[str, npt.NDArray[Any]]:
        """The predictions for one row, without Spark."""
        if isinstance(value, Mapping):
            rows: Any = {name: [_plain(each)] for name, each in value.items()}
        else:
            rows = [_plain(value)]
        return {name: found[0] for name, found in self.inference_model.predict(rows).items()}

    def _weights(self) -> dict[str, Any]:
        """The weights for evaluators, if there are any."""
        name = self.getOrDefault(self.weightCol) if self.isDefined(self.weightCol) else ""
        return {"weightCol": name} if name else {}

    @contextlib.contextmanager
    def _predicted(self, dataset: DataFrame) -> Iterator[DataFrame]:
        """The predictions, cached, so that the model runs once for all metrics."""
        label: str = self.getOrDefault(self.labelCol)
        if label in dataset.columns and isinstance(dataset.schema[label].dataType, BooleanType):
            # Training takes these as 0 and 1, but evaluators take numbers only.
            dataset = dataset.withColumn(label, quoted(label).cast("double"))
        predicted = self.transform(dataset).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield predicted
        finally:
            release(predicted)


class SparkTrainerClassificationModel(  # type: ignore[misc]
    _PredictsRows, ThresholdParams, ProbabilisticClassificationModel
):
    """A model of classes 0, 1, ..., k - 1.

    `transform` appends `rawPredictionCol` (vector of logits), `probabilityCol` (vector) and
    `predictionCol` (double): the class whose probability, divided by its threshold if `thresholds`
    are set, is the greatest.
    """

    @property
    def numClasses(self) -> int:
        """The number of classes."""
        for each in self.inference_model.signature.outputs:
            if each.name == "probability":
                return int(each.shape[0] or 0) if each.shape else 2
        raise ValueError("This model predicts no probabilities")

    def predict(self, value: Any) -> float:
        """The class of one row.

        Args:
            value: A vector, an array or a list; where the features have names, a dictionary.
        """
        probability = self.predictProbability(value).toArray()
        return float(np.argmax(_divided(probability, self._limits())))

    def predictRaw(self, value: Any) -> DenseVector:
        """The logits of one row; of two classes with one logit r these are -r and r."""
        raw = np.asarray(self._of_row(value)["rawPrediction"], np.float64)
        return Vectors.dense(np.stack([-raw, raw]) if raw.ndim == 0 else raw)

    def predictProbability(self, value: Any) -> DenseVector:
        """The probabilities of the classes for one row."""
        found = np.asarray(self._of_row(value)["probability"], np.float64)
        return Vectors.dense(np.stack([1 - found, found]) if found.ndim == 0 else found)

    def evaluate(self, dataset: DataFrame) -> dict[str, float]:
        """Metrics of the model on rows with labels.

        Returns:
            The metrics of pyspark.ml's evaluators, by name: accuracy, f1,
            weightedPrecision, weightedRecall, logLoss; of two classes areaUnderROC and areaUnderPR
            too. With `weightCol`, rows count by their weights.
        """
        label: Any = self.getOrDefault(self.labelCol)
        weights = self._weights()
        with self._predicted(dataset) as predicted:
            evaluators: dict[str, Evaluator] = {
                name: MulticlassClassificationEvaluator(
                    metricName=name,  # type: ignore[arg-type]  # a literal's type
                    labelCol=label,
                    predictionCol=self.getPredictionCol(),
                    probabilityCol=self.getProbabilityCol(),
                    **weights,
                )
                for name in _CLASS_METRICS
            }
            if self.numClasses == 2:
                evaluators |= {
                    name: BinaryClassificationEvaluator(
                        metricName=name,  # type: ignore[arg-type]  # a literal's type
                        labelCol=label,
                        rawPredictionCol=self.getRawPredictionCol(),
                        **weights,
                    )
                    for name in _BINARY_METRICS
                }
            return {name: each.evaluate(predicted) for name, each in evaluators.items()}

    def _transform(self, dataset: DataFrame) -> DataFrame:
        predicted = super()._transform(dataset)
        limits = self._limits()
        if not limits:
            return predicted
        column = _class_of(vector_to_array(F.col(f"`{self.getProbabilityCol()}`")), limits)
        return predicted.withColumn(self.getPredictionCol(), column)

    def _limits(self) -> list[float]:
        limits = self.getThresholds() if self.isDefined(self.thresholds) else []
        if limits and len(limits) != self.numClasses:
            raise ValueError(
                f"There are {len(limits)} thresholds for {self.numClasses} classes; give one per "
                "class"
            )
        return limits


class SparkTrainerRegressionModel(_PredictsRows, RegressionModel[Any]):  # type: ignore[misc]
    """A model of numbers; `transform` appends `predictionCol` (double)."""

    def predict(self, value: Any) -> float:
        """The prediction for one row.

        Args:
            value: A vector, an array or a list; where the features have names, a dictionary.
        """
        return float(self._of_row(value)["prediction"])

    def evaluate(self, dataset: DataFrame) -> dict[str, float]:
        """Metrics of the model on rows with labels.

        Returns:
            The metrics of pyspark.ml's RegressionEvaluator: rmse, mse, mae, r2. With
            `weightCol`, rows count by their weights.
        """
        with self._predicted(dataset) as predicted:
            return {
                name: RegressionEvaluator(
                    metricName=name,  # type: ignore[arg-type]  # a literal's type
                    labelCol=self.getOrDefault(self.labelCol),
                    predictionCol=self.getPredictionCol(),
                    **self._weights(),
                ).evaluate(predicted)
                for name in _REGRESSION_METRICS
            }


def _plain(value: Any) -> Any:
    return value.toArray() if isinstance(value, DenseVector | SparseVector) else value


def _divided(probability: npt.NDArray[Any], limits: list[float]) -> npt.NDArray[Any]:
    """As pyspark.ml has it: a class with threshold 0 wins wherever it is possible at all."""
    if not limits:
        return probability
    with np.errstate(divide="ignore", invalid="ignore"):
        divided: npt.NDArray[Any] = probability / np.asarray(limits)
    return np.where(np.isnan(divided), -np.inf, divided)


def _class_of(probability: Column, limits: list[float]) -> Column:
    """The same in SQL, as a double."""
    parts = []
    for index, limit in enumerate(limits):
        each = probability[index]
        possible = F.when(each > 0, F.lit(float("inf"))).otherwise(F.lit(float("-inf")))
        parts.append(each / F.lit(limit) if limit else possible)
    divided = F.array(*parts)
    return (F.array_position(divided, F.array_max(divided)) - 1).cast("double")
