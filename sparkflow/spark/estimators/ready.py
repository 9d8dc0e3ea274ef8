"""Deep and linear estimators with a ready-made network.

Their state is only parameters, so they are saved and loaded like pyspark.ml's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable

import sparkflow as tf
from sparkflow.estimator.canned.models import deep_logits, linear_logits
from sparkflow.spark.estimators.estimator_accessors import (
    HiddenParams,
    SizeParams,
    StandardizationParams,
)
from sparkflow.spark.estimators.feature_columns import InputColumns, require_numbers
from sparkflow.spark.estimators.flavours import ClassifierTrainer, RegressorTrainer
from sparkflow.spark.estimators.heads import Logits
from sparkflow.spark.estimators.optimizers import COSINE
from sparkflow.spark.estimators.sizes import weight_decay_of
from sparkflow.spark.estimators.statistics import Moments, RowStatistics
from sparkflow.spark.launch.training import TrainingData

BATCH_NORM_MOMENTUM = 0.9
"""The decay of moving averages: that of TensorFlow's canned networks needs thousands of steps."""


class Deep(HiddenParams, SizeParams):
    """The default training of deep networks."""

    LEAST_EPOCHS: ClassVar[int] = 10
    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "optimizer": "AdamW",
        "learningRate": 0.003,
        "learningRateSchedule": COSINE,
    }

    def own_decay(self, data: TrainingData) -> float:
        """Returns AdamW's weight decay, which is smaller for more rows."""
        return weight_decay_of(data.facts.num_rows)


class _Standardized(StandardizationParams):
    """The base of estimators on numeric features only."""

    def standardizes(self) -> bool:
        """Whether the network needs means and deviations of the features."""
        return self.getStandardization()

    def _columns(
        self, data: TrainingData, sparse_dim: int | None
    ) -> tuple[InputColumns, list[Any]]:
        """Returns all inputs as numeric columns.

        Raises:
            TypeError: An input holds strings or lists of any length.
        """
        given = data.prepared.format
        require_numbers(given.features, type(self).__name__)
        moments = data.facts.features if self.getStandardization() else {}
        inputs = InputColumns(given, moments)
        return inputs, [inputs.numbers(each, sparse_dim) for each in given.features]

    def label_unit(self, facts: RowStatistics) -> Moments | None:
        """Returns the moments of the labels if the data are standardized."""
        return facts.label if self.getStandardization() else None


class _Linear(_Standardized, SizeParams):
    LEAST_EPOCHS: ClassVar[int] = 10
    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "learningRate": 0.01,
        "learningRateSchedule": COSINE,
    }

    def _linear(self, data: TrainingData, units: int) -> Logits:
        inputs, columns = self._columns(data, None)

        def logits_fn(features: Any, mode: str) -> Any:
            return linear_logits(inputs.features(features), columns, units, "sum", None)

        return logits_fn


class _Deep(_Standardized, Deep):
    def _deep(self, data: TrainingData, units: int) -> Logits:
        hidden = self.getHiddenUnits()
        inputs, columns = self._columns(data, hidden[0])
        return deep_network(self, inputs, columns, units)


def deep_network(
    params: HiddenParams, inputs: InputColumns, columns: list[Any], units: int
) -> Logits:
    """Builds hidden layers on the columns, and logits on these."""
    dropout = params.getDropout() or None
    activation = getattr(tf.nn, params.getActivation())

    def logits_fn(features: Any, mode: str) -> Any:
        return deep_logits(
            inputs.features(features),
            columns,
            units,
            params.getHiddenUnits(),
            activation,
            dropout,
            params.getBatchNorm(),
            mode,
            None,
            batch_norm_momentum=BATCH_NORM_MOMENTUM,
        )

    return logits_fn


class SparkLinearClassifier(  # type: ignore[misc]  # see ClassifierTrainer
    _Linear,
    ClassifierTrainer,
    DefaultParamsWritable,
    DefaultParamsReadable["SparkLinearClassifier"],
):
    """Logistic regression for two or more classes.

    Args:
        **params: The parameters, see `docs/spark_estimators.md`; in camelCase or snake_case.
            Callbacks as for `SparkTrainer`.

    Raises:
        TypeError: A parameter is unknown or of a wrong type.
        ValueError: A parameter has an invalid value.

    Examples:
        >>> SparkLinearClassifier(featuresCol="x", regParam=0.01).fit(df)  # doctest: +SKIP
    """

    def logits_fn(self, data: TrainingData, num_classes: int) -> Logits:
        """A weighted sum of the features per class; only that of class 1 for two classes."""
        return self._linear(data, 1 if num_classes == 2 else num_classes)


class SparkLinearRegressor(  # type: ignore[misc]  # see ClassifierTrainer
    _Linear, RegressorTrainer, DefaultParamsWritable, DefaultParamsReadable["SparkLinearRegressor"]
):
    """Linear regression; arguments as for `SparkLinearClassifier`."""

    def output_fn(self, data: TrainingData) -> Logits:
        """A weighted sum of the features."""
        return self._linear(data, 1)


class SparkDNNClassifier(  # type: ignore[misc]  # see ClassifierTrainer
    _Deep, ClassifierTrainer, DefaultParamsWritable, DefaultParamsReadable["SparkDNNClassifier"]
):
    """A fully connected network for classification.

    Args:
        **params: The parameters, see `docs/spark_estimators.md`; in camelCase or snake_case.
            Callbacks as for `SparkTrainer`.

    Raises:
        TypeError: A parameter is unknown or of a wrong type.
        ValueError: A parameter has an invalid value.

    Examples:
        >>> SparkDNNClassifier(hiddenUnits=[128, 64], dropout=0.2).fit(df)  # doctest: +SKIP
    """

    def logits_fn(self, data: TrainingData, num_classes: int) -> Logits:
        """Hidden layers and logits; one logit, of class 1, if there are two classes."""
        return self._deep(data, 1 if num_classes == 2 else num_classes)


class SparkDNNRegressor(  # type: ignore[misc]  # see ClassifierTrainer
    _Deep, RegressorTrainer, DefaultParamsWritable, DefaultParamsReadable["SparkDNNRegressor"]
):
    """A fully connected network for regression; arguments as for `SparkDNNClassifier`."""

    def output_fn(self, data: TrainingData) -> Logits:
        """Hidden layers."""
        return self._deep(data, 1)
