"""The base classes of classifiers and regressors, with loss, weights and predictions.

`ClassifierTrainer` and `RegressorTrainer` are the common bases; `SparkTrainerClassifier` and
`SparkTrainerRegressor` accept the network as a function.
"""

from __future__ import annotations

import functools
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pyspark.ml.classification import ProbabilisticClassifier
from pyspark.ml.param.shared import HasWeightCol
from pyspark.ml.regression import Regressor

import sparkflow as tf
from sparkflow.export import InferenceModel
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.data.plan.prepare import PreparedRows, Statistics
from sparkflow.spark.estimators.estimator_accessors import ClassifierParams
from sparkflow.spark.estimators.heads import (
    Logits,
    ModelFn,
    Objective,
    classifier_model_fn,
    regressor_model_fn,
)
from sparkflow.spark.estimators.kept_statistics import continued, from_json, to_json
from sparkflow.spark.estimators.models import (
    SparkTrainerClassificationModel,
    SparkTrainerRegressionModel,
)
from sparkflow.spark.estimators.optimizer_params import OptimizerParams
from sparkflow.spark.estimators.optimizers import ADAMW_DECAY, CONSTANT, Schedule, Stepping
from sparkflow.spark.estimators.sizes import Size, size_of
from sparkflow.spark.estimators.statistics import Moments, RowStatistics, row_statistics, wanted_of
from sparkflow.spark.graphs.model_fn import require_callable, takes
from sparkflow.spark.launch.training import TrainingData
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.trainer import BaseTrainer

_log = logging.getLogger(__name__)


class HeadTrainer(BaseTrainer, OptimizerParams):
    """The common base of classifiers and regressors."""

    LEAST_EPOCHS: ClassVar[int] = 1
    """The minimum number of epochs chosen automatically, for any number of rows."""

    def statistics(self) -> Statistics:
        """The aggregates from which `look_at` computes means, deviations and labels."""
        of_features, counts_values = self._wanted()
        return functools.partial(wanted_of, of_features=of_features, counts_values=counts_values)

    def look_at(self, prepared: PreparedRows) -> RowStatistics:
        """Computes means, deviations and labels of the rows; may run a Spark job."""
        found = row_statistics(prepared, *self._wanted())
        kept = self.start_facts
        return found if kept is None else continued(kept, found, prepared.format)

    def _wanted(self) -> tuple[bool, bool]:
        """Whether to compute the moments of features, and to count values."""
        looks = self.start_facts is None
        return looks and self.standardizes(), looks and self.counts_values()

    def facts_to_json(self, facts: RowStatistics) -> Mapping[str, Any]:
        """Returns the statistics, which are constants of the network."""
        return to_json(facts, self.standardizes())

    def facts_from_json(self, value: Mapping[str, Any]) -> RowStatistics:
        """Reads the statistics.

        Raises:
            ValueError: `standardization` has changed.
        """
        return from_json(value, self.standardizes())

    def counts_values(self) -> bool:
        """Whether the network needs the number of distinct values of integers."""
        return False

    def standardizes(self) -> bool:
        """Whether the network needs means and deviations of the features."""
        return False

    def train_op(self, loss: Any, data: TrainingData) -> Any:
        """Returns the training op, in the graph of the loss."""
        counter = tf.train.get_or_create_global_step()
        return self.stepping(data).minimize(loss, counter, tf.trainable_variables())

    def objective(self, data: TrainingData, reg_param: float) -> Objective:
        """Returns the objective to minimize."""
        return Objective(
            lambda loss: self.train_op(loss, data),
            reg_param,
            self.getElasticNetParam(),
            data.facts.mean_weight,
        )

    def size(self, data: TrainingData) -> Size:
        """Returns the batch size, the epochs and the number of updates."""
        return size_of(
            data.worker_rows if data.shards is None else data.shards.rows,
            in_step=self.config().in_step,
            least_epochs=self.LEAST_EPOCHS,
            batch_size=self.getBatchSize(),
            # Rows that follow these count as much as these do.
            epochs=self.getEpochs() or (self.LEAST_EPOCHS if self.continues else 0),
            max_steps=self.getMaxSteps(),
            accumulation=self.getGradientAccumulation(),
        )

    def stepping(self, data: TrainingData) -> Stepping:
        """Returns the optimizer that the parameters describe."""
        kind = self.schedule_kind()
        if self.continues and not self.isSet(self.learningRateSchedule):
            kind = CONSTANT
        start = self.start_snapshot
        first = 0 if start is None else int(start.shared.get("global_step", 0))
        schedule = Schedule(
            kind,
            self.getLearningRateEnd(),
            self.getLearningRatePieces(),
            self.getWarmup(),
            first,
            self.size(data).updates,
        )
        return Stepping(
            self.getOptimizer(),
            self.getLearningRate(),
            schedule,
            self.getMomentum(),
            self.getNesterov(),
            self.weight_decay(data),
            self.getGradientClipNorm(),
        )

    def weight_decay(self, data: TrainingData) -> float:
        """Returns the weight decay: the one set, or AdamW's default."""
        if self.getOptimizer() == "AdamW" and not self.isSet(self.weightDecay):
            return 0.0 if self.getRegParam() else self.own_decay(data)
        return self.getWeightDecay()

    def own_decay(self, data: TrainingData) -> float:
        """Returns AdamW's weight decay if none is set."""
        return ADAMW_DECAY

    def decided(self, data: TrainingData) -> HeadTrainer:
        """Returns a copy with all parameters that are chosen from the rows set, and logs them."""
        size = self.size(data)
        chosen: dict[str, Any] = {}
        if not self.getBatchSize():
            chosen["batchSize"] = size.batch_size
        if not self.getEpochs():
            chosen["epochs"] = size.epochs
        if self.weight_decay(data) != self.getWeightDecay():
            chosen["weightDecay"] = self.weight_decay(data)
        decided = self.copy()
        decided._set(**chosen)
        decided.chosen = {**chosen, **self.chosen_of_columns(data)}
        if chosen:
            _log.info(
                "chosen for %d rows: %s",
                sum(data.worker_rows),
                ", ".join(f"{name}={value:.4g}" for name, value in chosen.items()),
            )
        return decided

    def chosen_of_columns(self, data: TrainingData) -> dict[str, Any]:
        """Returns a description of how columns are treated."""
        return {}

    def _check_params(self, has_validation: bool) -> FitConfig:
        config = super()._check_params(has_validation)
        self.require_known()
        return config


# pyspark.ml's own classes know only one features column.
class ClassifierTrainer(  # type: ignore[misc]
    HeadTrainer, ClassifierParams, ProbabilisticClassifier, HasWeightCol
):
    """A classifier; a subclass provides the logits."""

    @abstractmethod
    def logits_fn(self, data: TrainingData, num_classes: int) -> Logits:
        """The network."""

    def model_fn_for(self, data: TrainingData) -> ModelFn:
        """The network with loss, metrics and predictions.

        Raises:
            ValueError: A label is not a class, or the numbers of thresholds and classes differ.
        """
        num_classes = self._count_classes(data.facts)
        logits_fn = self.logits_fn(data, num_classes)
        objective = self.objective(data, self.getRegParam())
        return classifier_model_fn(logits_fn, num_classes, objective)

    def new_model(
        self, inference_model: InferenceModel, history: TrainingHistory
    ) -> SparkTrainerClassificationModel:
        """A model of classes."""
        return SparkTrainerClassificationModel(inference_model, history)

    def _count_classes(self, facts: RowStatistics) -> int:
        found = facts.label_range
        name = self.getLabelCol()
        if found is None:
            raise ValueError(
                f"The label column {name!r} holds vectors or arrays; a classifier takes one class "
                "per row, 0, 1, ..., as a number"
            )
        wrong = found.fractional if found.fractional is not None else found.least
        if found.fractional is not None or found.least < 0:
            raise ValueError(
                f"The label column {name!r} holds {wrong:g}; classes are 0, 1, 2, ... "
                "(pyspark.ml's StringIndexer numbers the values of a column)"
            )
        given, seen = self.getNumClasses(), int(found.greatest) + 1
        if not given and self.start_facts is not None:
            given = max(int(self.start_facts.label_range.greatest) + 1, 2)
            if given < seen:
                raise ValueError(
                    f"The label column {name!r} holds {seen - 1}, and the stream's first batch "
                    f"held 0 to {given - 1}: begin with another checkpointDir and numClasses set "
                    "to the number of all classes"
                )
        if given and given < seen:
            raise ValueError(
                f"The label column {name!r} holds {seen - 1}, and numClasses={given} allows 0 to "
                f"{given - 1}: set numClasses to {seen} or more, or to 0 to have it taken from the "
                "labels"
            )
        num_classes = given or max(seen, 2)
        limits = self.getThresholds() if self.isDefined(self.thresholds) else []
        if limits and len(limits) != num_classes:
            raise ValueError(
                f"There are {len(limits)} thresholds for {num_classes} classes; give one per class"
            )
        return num_classes


class RegressorTrainer(  # type: ignore[misc]
    HeadTrainer, Regressor[SparkTrainerRegressionModel], HasWeightCol
):
    """A regressor; a subclass provides the output."""

    @abstractmethod
    def output_fn(self, data: TrainingData) -> Logits:
        """The network."""

    def label_unit(self, facts: RowStatistics) -> Moments | None:
        """Returns mean and deviation of the labels if the network learns standardized labels."""
        return None

    def model_fn_for(self, data: TrainingData) -> ModelFn:
        """The network with loss, metrics and predictions.

        Raises:
            ValueError: The labels are vectors.
        """
        if data.facts.label is None:
            raise ValueError(
                f"The label column {self.getLabelCol()!r} holds vectors or arrays; a regressor "
                "takes one number per row (SparkTrainer with a model_fn takes any)"
            )
        unit = self.label_unit(data.facts)
        # As in pyspark.ml, the penalty is added to half the mean square in the labels' unit.
        reg_param = 2 * self.getRegParam() / (1.0 if unit is None else float(unit.scale[0]))
        objective = self.objective(data, reg_param)
        return regressor_model_fn(self.output_fn(data), objective, unit)

    def new_model(
        self, inference_model: InferenceModel, history: TrainingHistory
    ) -> SparkTrainerRegressionModel:
        """A model of numbers."""
        return SparkTrainerRegressionModel(inference_model, history)


class SparkTrainerClassifier(ClassifierTrainer):
    """A classifier whose network you write; loss, metrics and predictions are provided.

    Args:
        network: `network(features, mode, params, num_classes)` returns the logits: [batch,
            num_classes], or for two classes [batch] or [batch, 1], those of class 1. Only the first
            argument is required. `params` is `modelParams`. Losses in
            `tf.GraphKeys.REGULARIZATION_LOSSES` are added to the loss; operations in
            `tf.GraphKeys.UPDATE_OPS` run with each step.
        **params: The parameters, see `docs/spark_estimators.md`; callbacks as for `SparkTrainer`.

    Raises:
        TypeError: `network` is not callable, or a parameter is unknown or of a wrong type.
        ValueError: A parameter has an invalid value.

    Examples:
        >>> def network(features):
        ...     return tf.layers.dense(tf.layers.dense(features, 16, tf.nn.relu), 3)
        >>> SparkTrainerClassifier(network=network).fit(df)  # doctest: +SKIP
    """

    def __init__(self, *, network: Callable[..., Any], **params: Any) -> None:
        super().__init__(**params)
        require_callable(network, "network", ("mode", "params", "num_classes"))
        self.network = network

    def logits_fn(self, data: TrainingData, num_classes: int) -> Logits:
        """The user's function."""
        return _by_name(self.network, self.getModelParams(), num_classes=num_classes)


class SparkTrainerRegressor(RegressorTrainer):
    """A regressor whose network you write; loss, metrics and predictions are provided.

    Args:
        network: `network(features, mode, params)` returns [batch] or [batch, 1], in the unit of
            the labels; otherwise as for `SparkTrainerClassifier`.
        **params: The parameters, see `docs/spark_estimators.md`; callbacks as for `SparkTrainer`.

    Raises:
        TypeError: `network` is not callable, or a parameter is unknown or of a wrong type.
        ValueError: A parameter has an invalid value.
    """

    def __init__(self, *, network: Callable[..., Any], **params: Any) -> None:
        super().__init__(**params)
        require_callable(network, "network", ("mode", "params"))
        self.network = network

    def output_fn(self, data: TrainingData) -> Logits:
        """The user's function."""
        return _by_name(self.network, self.getModelParams())


def _by_name(network: Callable[..., Any], params: Mapping[str, Any], **given: Any) -> Logits:
    def logits_fn(features: Any, mode: str) -> Any:
        named = {"mode": mode, "params": dict(params), **given}
        logits = network(
            features, **{name: value for name, value in named.items() if takes(network, name)}
        )
        if not isinstance(logits, tf.Tensor):
            raise TypeError(f"network must return a tensor of logits, got {logits!r}")
        return logits

    return logits_fn
