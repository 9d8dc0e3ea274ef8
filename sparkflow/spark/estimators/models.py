"""Classification and regression models, with the interface of pyspark.ml's models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pyspark.ml.classification import ProbabilisticClassificationModel
from pyspark.ml.linalg import DenseVector, SparseVector, Vectors
from pyspark.ml.param.shared import HasWeightCol
from pyspark.ml.regression import RegressionModel
from pyspark.sql import Column, DataFrame, functions as F

from sparkflow.spark.data.schema.frame import quoted, require_frame
from sparkflow.spark.data.schema.row_format import RAGGED
from sparkflow.spark.estimators.estimator_accessors import ThresholdParams
from sparkflow.spark.estimators.one_pass import (
    SUMS_SCHEMA,
    ClassSums,
    NumberSums,
    add_classes,
    add_numbers,
)
from sparkflow.spark.job_names import described
from sparkflow.spark.model.trainer_model import SparkTrainerModel

_PROBABILITY: Final = "_probability"
"""The column of probabilities that only thresholds need."""


class _PredictsRows(SparkTrainerModel, HasWeightCol):
    """The common base of classification and regression models."""

    @property
    def numFeatures(self) -> int:
        """The number of elements of a row; -1 if it holds strings or lists of any length."""
        inputs = self.inference_model.signature.inputs
        if any(each.kind == RAGGED or each.dtype == "string" for each in inputs):
            return -1
        return sum(int(np.prod(each.shape, dtype=np.int64)) for each in inputs)

    def _facts(self) -> dict[str, Any]:
        return {"numFeatures": self.numFeatures, **super()._facts()}

    def _of_row(self, value: Any) -> dict[str, npt.NDArray[Any]]:
        """Returns the predictions for one row, without Spark."""
        if isinstance(value, Mapping):
            rows: Any = {name: [_plain(each)] for name, each in value.items()}
        else:
            rows = [_plain(value)]
        return {name: found[0] for name, found in self.inference_model.predict(rows).items()}

    def _judged(self, dataset: DataFrame) -> tuple[DataFrame, Column, Column]:
        """Returns the predictions with the label and the weight of each row, as doubles.

        Raises:
            ValueError: The DataFrame lacks the label or weight column.
        """
        require_frame(dataset, "evaluate")
        name = self.getOrDefault(self.weightCol) if self.isDefined(self.weightCol) else ""
        label: str = self.getOrDefault(self.labelCol)
        missing = [each for each in (label, name) if each and each not in dataset.columns]
        if missing:
            raise ValueError(
                f"evaluate needs the column {missing[0]!r}; the DataFrame has "
                f"{', '.join(dataset.columns)}"
            )
        weight = quoted(name).cast("double") if name else F.lit(1.0)
        return self._whole().transform(dataset), quoted(label).cast("double"), weight

    def _whole(self) -> _PredictsRows:
        """A copy in which columns that are left out have names of their own."""
        columns = (self.predictionCol, self.probabilityCol, self.rawPredictionCol)
        return self.copy({each: f"_{each.name}" for each in columns if not self.getOrDefault(each)})

    def _added_up(
        self, wanted: DataFrame, add: Callable[[Iterable[Any]], Iterator[Any]]
    ) -> list[Mapping[str, Any]]:
        """Returns the result of `add` for each partition, in one Spark job.

        Raises:
            ValueError: Some rows cannot be evaluated.
        """
        with described(wanted.sparkSession, f"{self.uid}: evaluate, all metrics"):
            rows = wanted.mapInArrow(add, SUMS_SCHEMA).collect()
        found = [json.loads(row["sums"]) for row in rows]
        bad = sum(each.get("invalid", 0) for each in found)
        if bad:
            raise ValueError(
                f"{bad} rows cannot be evaluated: their label, prediction, probability or weight "
                "is null, NaN or infinite, or the weight is negative. Drop them before evaluate"
            )
        return found


class SparkTrainerClassificationModel(  # type: ignore[misc]
    _PredictsRows, ThresholdParams, ProbabilisticClassificationModel
):
    """A classification model for classes 0, 1, ..., k - 1.

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

    def _facts(self) -> dict[str, Any]:
        return {"numClasses": self.numClasses, **super()._facts()}

    def predict(self, value: Any) -> float:
        """Returns the class of one row.

        Args:
            value: A vector, an array or a list; a dictionary if the features have names.
        """
        probability = self.predictProbability(value).toArray()
        return float(np.argmax(_divided(probability, self._limits())))

    def predictRaw(self, value: Any) -> DenseVector:
        """Returns the logits of one row; -r and r for two classes with one logit r."""
        raw = np.asarray(self._of_row(value)["rawPrediction"], np.float64)
        return Vectors.dense(np.stack([-raw, raw]) if raw.ndim == 0 else raw)

    def predictProbability(self, value: Any) -> DenseVector:
        """Returns the probabilities of the classes for one row."""
        found = np.asarray(self._of_row(value)["probability"], np.float64)
        return Vectors.dense(np.stack([1 - found, found]) if found.ndim == 0 else found)

    def evaluate(self, dataset: DataFrame) -> dict[str, float]:
        """Metrics of the model on rows with labels.

        Returns:
            The metrics of pyspark.ml's evaluators, by name: accuracy, f1,
            weightedPrecision, weightedRecall, logLoss; for two classes also areaUnderROC and
            areaUnderPR, exact for up to 65,536 distinct scores, whereas the evaluators use 1000
            bins. With `weightCol`, rows are weighted. This takes one Spark job, which runs the
            model once.

        Raises:
            ValueError: A column is missing, or a label, prediction or weight is not a number.
        """
        predicted, label, weight = self._judged(dataset)
        whole = self._whole()
        score = _elements(whole.getRawPredictionCol())[1]
        of_two = self.numClasses == 2
        # Labels outside the classes have no probability; SQL refuses to cast NaN.
        place = F.when(label.between(0, self.numClasses - 1), label).cast("int")
        own = F.coalesce(F.get(_elements(whole.getProbabilityCol()), place), F.lit(0.0))
        wanted = predicted.select(
            label.alias("label"),
            quoted(whole.getPredictionCol()).alias("prediction"),
            own.alias("own"),
            weight.alias("weight"),
            *([score.alias("score")] if of_two else []),
        )
        sums = ClassSums()
        for each in self._added_up(wanted, add_classes):
            sums.merge(ClassSums.from_json(each))
        return sums.metrics()

    def _transform(self, dataset: DataFrame) -> DataFrame:
        limits = self._limits()
        if not limits or not self.getPredictionCol():
            return super()._transform(dataset)
        if not self.getProbabilityCol():
            whole = self.copy({self.probabilityCol: _PROBABILITY})
            return whole._transform(dataset).drop(_PROBABILITY)
        predicted = super()._transform(dataset)
        column = _class_of(_elements(self.getProbabilityCol()), limits)
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
    """A regression model; `transform` appends `predictionCol` (double)."""

    def predict(self, value: Any) -> float:
        """Returns the prediction for one row.

        Args:
            value: A vector, an array or a list; a dictionary if the features have names.
        """
        return float(self._of_row(value)["prediction"])

    def evaluate(self, dataset: DataFrame) -> dict[str, float]:
        """Metrics of the model on rows with labels.

        Returns:
            The metrics of pyspark.ml's RegressionEvaluator, by name: rmse, mse, mae, r2. With
            `weightCol`, rows are weighted; r2 is then 1 minus the weighted sum of squared errors
            divided by the weighted sum of squared deviations of the labels from their weighted
            mean. This takes one Spark job, which runs the model once.

        Raises:
            ValueError: A column is missing, or a label, prediction or weight is not a number.
        """
        predicted, label, weight = self._judged(dataset)
        wanted = predicted.select(
            label.alias("label"),
            quoted(self._whole().getPredictionCol()).alias("prediction"),
            weight.alias("weight"),
        )
        sums = NumberSums()
        for each in self._added_up(wanted, add_numbers):
            sums.merge(NumberSums.from_json(each))
        return sums.metrics()


def _plain(value: Any) -> Any:
    return value.toArray() if isinstance(value, DenseVector | SparseVector) else value


def _divided(probability: npt.NDArray[Any], limits: list[float]) -> npt.NDArray[Any]:
    """As in pyspark.ml, a class with threshold 0 wins whenever its probability is above 0."""
    if not limits:
        return probability
    with np.errstate(divide="ignore", invalid="ignore"):
        divided: npt.NDArray[Any] = probability / np.asarray(limits)
    return np.where(np.isnan(divided), -np.inf, divided)


def _elements(name: str) -> Column:
    """Returns the elements of a column of predicted vectors, which are dense; null for nulls."""
    return F.unwrap_udt(quoted(name))["values"]


def _class_of(probability: Column, limits: list[float]) -> Column:
    """Returns the same in SQL, as a double; null for nulls."""
    parts = []
    for index, limit in enumerate(limits):
        each = probability[index]
        possible = F.when(each > 0, F.lit(float("inf"))).otherwise(F.lit(float("-inf")))
        parts.append(each / F.lit(limit) if limit else possible)
    divided = F.array(*parts)
    place = F.array_position(divided, F.array_max(divided)) - 1
    return F.when(probability.isNotNull(), place.cast("double"))
