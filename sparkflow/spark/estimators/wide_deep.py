"""Wide and deep estimators: columns of strings, integers and numbers, with a ready-made network.

The wide part is a linear model that memorizes the effects of single values and of combinations; the
deep part is a network on embeddings, which generalizes (Cheng et al., "Wide & Deep Learning for
Recommender Systems", 2016).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql import DataFrame

import sparkflow as tf
from sparkflow.estimator.canned.models import linear_logits
from sparkflow.export import InferenceModel
from sparkflow.spark.data.schema.row_format import RAGGED, Input
from sparkflow.spark.estimators.estimator_accessors import StandardizationParams
from sparkflow.spark.estimators.feature_columns import InputColumns
from sparkflow.spark.estimators.flavours import ClassifierTrainer, HeadTrainer, RegressorTrainer
from sparkflow.spark.estimators.heads import Logits
from sparkflow.spark.estimators.kinds import (
    ColumnKind,
    Wanted,
    can_be_categories,
    column_kinds,
    log_kinds,
)
from sparkflow.spark.estimators.optimizers import Stepping, minimize_parts
from sparkflow.spark.estimators.ready import Deep, deep_network
from sparkflow.spark.estimators.statistics import Moments, RowStatistics
from sparkflow.spark.estimators.wide_params import WideParams
from sparkflow.spark.launch.training import TrainingData


class _WideDeep(Deep, WideParams, StandardizationParams):
    """The network, and the columns that it needs."""

    LEAST_EPOCHS: ClassVar[int] = 5

    def getFeaturesCol(self) -> dict[str, str]:
        """Returns every column that is read, under its own name."""
        return {name: name for name in self.input_columns()}

    def setFeaturesCol(self, value: Any) -> Any:
        """Raises an error: the columns are those of `wideCols`, `deepCols` and `crossCols`.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            f"{type(self).__name__} takes its columns from wideCols, deepCols and crossCols, not "
            "from featuresCol"
        )

    def standardizes(self) -> bool:
        """Whether the network needs means and deviations of the features."""
        return self.getStandardization()

    def label_unit(self, facts: RowStatistics) -> Moments | None:
        """Returns the moments of the labels if the data are standardized."""
        return facts.label if self.getStandardization() else None

    def _network(self, data: TrainingData, units: int) -> Logits:
        moments = data.facts.features if self.getStandardization() else {}
        inputs = InputColumns(data.prepared.format, moments)
        kinds = self.kinds(data)
        wide = [self._wide_column(inputs, name, kinds[name]) for name in self.getWideCols()]
        wide += [self._cross(inputs, names) for names in self.getCrossCols()]
        columns = [self._deep_column(inputs, name, kinds[name]) for name in self.getDeepCols()]
        deep = deep_network(self, inputs, columns, units) if columns else None

        def logits_fn(features: Any, mode: str) -> Any:
            parts = []
            if deep is not None:
                parts.append(deep(features, mode))
            if wide:
                parts.append(linear_logits(inputs.features(features), wide, units, "sum", None))
            return parts[0] if len(parts) == 1 else parts[0] + parts[1]

        return logits_fn

    def counts_values(self) -> bool:
        """Whether the network needs the number of distinct values of integers."""
        return True

    def kinds(self, data: TrainingData) -> dict[str, ColumnKind]:
        """Returns how each column is treated.

        Raises:
            TypeError: A column does not fit `categoricalCols` or `numericCols`.
        """
        crossed = {name for names in self.getCrossCols() for name in names}
        by_column = [
            given
            for given in (self.getEmbeddingDim(), self.getHashBuckets())
            if isinstance(given, Mapping)
        ]
        wanted = Wanted(self.getCategoricalCols(), self.getNumericCols(), crossed.union(*by_column))
        inputs = {each.name: each for each in data.prepared.format.features}
        return column_kinds(inputs, wanted, data.facts, standardized=self.getStandardization())

    def chosen_of_columns(self, data: TrainingData) -> dict[str, Any]:
        """Returns a description of how each column is treated."""
        kinds = self.kinds(data)
        log_kinds(kinds, data.facts)
        return {"columns": {name: kind.text for name, kind in kinds.items()}}

    def _wide_column(self, inputs: InputColumns, name: str, kind: ColumnKind) -> Any:
        given = inputs.by_name[name]
        if kind.categorical:
            return inputs.categories(given, self._buckets(name))
        return inputs.numbers(_numeric(given), None)

    def _deep_column(self, inputs: InputColumns, name: str, kind: ColumnKind) -> Any:
        given = inputs.by_name[name]
        width = self.of_column(self.getEmbeddingDim(), name, "embeddingDim")
        if kind.categorical:
            categories = inputs.categories(given, self._buckets(name))
            return tf.feature_column.embedding_column(categories, width)
        # A sparse vector goes through a layer of its own, as wide as the first hidden one.
        return inputs.numbers(_numeric(given), self.getHiddenUnits()[0])

    def _cross(self, inputs: InputColumns, names: list[str]) -> Any:
        for name in names:
            if not can_be_categories(inputs.by_name[name]):
                raise TypeError(
                    f"crossCols: the column {name!r} holds numbers; texts and integers can be "
                    "crossed (pyspark.ml's Bucketizer makes integers of numbers)"
                )
        return inputs.cross(names, self._buckets("_x_".join(names)))

    def _buckets(self, name: str) -> int:
        return self.of_column(self.getHashBuckets(), name, "hashBuckets")


def _numeric(given: Input) -> Input:
    if given.kind == RAGGED:
        raise TypeError(
            f"The column {given.name!r} holds lists of any length of numbers; lists of texts or "
            "integers can be embedded, numbers must be vectors of one length"
        )
    return given


class _WideDeepTrainer(HeadTrainer, WideParams):
    """Trains each part with an optimizer of its own."""

    @contextlib.contextmanager
    def training_data(
        self, dataset: DataFrame, validation: DataFrame | None = None
    ) -> Iterator[TrainingData]:
        """Checks, prepares and places the rows, and holds them while the `with` block lasts."""
        if self.isSet(self.featuresCol):
            self.setFeaturesCol(self.getOrDefault(self.featuresCol))
        self.input_columns()
        with super().training_data(dataset, validation) as data:
            yield data

    def train_op(self, loss: Any, data: TrainingData) -> Any:
        """Returns the training op of both parts; the wide part has a constant rate and no decay."""
        deep, wide = (
            tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=f"{scope}/")
            for scope in ("dnn", "linear")
        )
        of_wide = Stepping(self.getWideOptimizer(), self.getWideLearningRate())
        given = [(self.stepping(data), deep), (of_wide, wide)]
        parts = [(each, variables) for each, variables in given if variables]
        counter = tf.train.get_or_create_global_step()
        return minimize_parts(loss, counter, parts, self.getGradientClipNorm())


class SparkWideDeepClassifier(  # type: ignore[misc]  # see ClassifierTrainer
    _WideDeep,
    _WideDeepTrainer,
    ClassifierTrainer,
    DefaultParamsWritable,
    DefaultParamsReadable["SparkWideDeepClassifier"],
):
    """A wide and deep classifier on columns of strings, integers and numbers.

    Args:
        **params: The parameters, see `docs/spark_estimators.md`; in camelCase or snake_case.
            Callbacks as for `SparkTrainer`.

    Raises:
        TypeError: A parameter is unknown or of a wrong type.
        ValueError: A parameter has an invalid value.

    Examples:
        >>> SparkWideDeepClassifier(
        ...     wideCols=["carrier", "dest"],
        ...     crossCols=[["carrier", "dest"]],
        ...     deepCols=["carrier", "dest", "distance"],
        ...     labelCol="late",
        ... ).fit(flights)  # doctest: +SKIP
    """

    def logits_fn(self, data: TrainingData, num_classes: int) -> Logits:
        """Both parts; one logit, of class 1, if there are two classes."""
        return self._network(data, 1 if num_classes == 2 else num_classes)

    def new_model(self, inference_model: InferenceModel, history: Any) -> Any:
        """A model that reads the same columns."""
        return super().new_model(inference_model, history)._set(featuresCol=self.getFeaturesCol())


class SparkWideDeepRegressor(  # type: ignore[misc]  # see ClassifierTrainer
    _WideDeep,
    _WideDeepTrainer,
    RegressorTrainer,
    DefaultParamsWritable,
    DefaultParamsReadable["SparkWideDeepRegressor"],
):
    """A wide and deep regressor; arguments as for `SparkWideDeepClassifier`."""

    def output_fn(self, data: TrainingData) -> Logits:
        """Both parts."""
        return self._network(data, 1)

    def new_model(self, inference_model: InferenceModel, history: Any) -> Any:
        """A model that reads the same columns."""
        return super().new_model(inference_model, history)._set(featuresCol=self.getFeaturesCol())
