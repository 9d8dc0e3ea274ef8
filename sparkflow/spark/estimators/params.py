"""The Params that the estimators of this room have beside those of `SparkTrainer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pyspark.ml.param.shared import HasStandardization

from sparkflow.spark.estimators.converters import (
    class_count,
    fraction,
    integers,
    thresholds,
)
from sparkflow.spark.params.aliases import ParamAliases, Self
from sparkflow.spark.params.converters import boolean, choice, integer, param

ACTIVATIONS = ("relu", "tanh", "sigmoid", "elu", "selu", "softplus", "softsign", "relu6", "swish")


class StandardizationParams(ParamAliases, HasStandardization):
    """What numbers become before the network sees them."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"standardization": True}

    standardization = param(
        "standardization",
        "whether features are given mean 0 and deviation 1, as the training rows have them "
        "(sparse ones only deviation 1), and labels of regression too; predictions are in the "
        "labels' own unit all the same",
        boolean,
    )

    def getStandardization(self) -> bool:
        """Whether features are standardized."""
        return bool(self.getOrDefault(self.standardization))

    def setStandardization(self: Self, value: bool) -> Self:
        """Sets `standardization`."""
        return self._set(standardization=value)


class SizeParams(ParamAliases):
    """How long and in what portions: chosen by the number of rows where nobody says so."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"batchSize": 0, "epochs": 0}

    batchSize = param(
        "batchSize",
        "rows per step of each worker; 0 has it chosen by the number of rows",
        integer(0),
    )
    epochs = param(
        "epochs",
        "how often each row is trained on; 0 has it chosen by the number of rows, see "
        "history.chosen",
        integer(0),
    )


class HiddenParams(ParamAliases):
    """The hidden layers of a deep network."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "hiddenUnits": [64, 32],
        "activation": "relu",
        "dropout": 0.0,
        "batchNorm": False,
    }

    hiddenUnits = param("hiddenUnits", "the sizes of the hidden layers", integers(1))
    activation = param(
        "activation", f"of the hidden layers: one of {', '.join(ACTIVATIONS)}", choice(*ACTIVATIONS)
    )
    dropout = param(
        "dropout", "the share of hidden units that is left out at each training step", fraction
    )
    batchNorm = param("batchNorm", "whether each hidden layer is normalized by batch", boolean)

    def getHiddenUnits(self) -> list[int]:
        """The sizes of the hidden layers."""
        value: list[int] = self.getOrDefault(self.hiddenUnits)
        return value

    def setHiddenUnits(self: Self, value: list[int]) -> Self:
        """Sets `hiddenUnits`."""
        return self._set(hiddenUnits=value)

    def getActivation(self) -> str:
        """The activation of the hidden layers."""
        return str(self.getOrDefault(self.activation))

    def setActivation(self: Self, value: str) -> Self:
        """Sets `activation`."""
        return self._set(activation=value)

    def getDropout(self) -> float:
        """The share of units left out."""
        return float(self.getOrDefault(self.dropout))

    def setDropout(self: Self, value: float) -> Self:
        """Sets `dropout`."""
        return self._set(dropout=value)

    def getBatchNorm(self) -> bool:
        """Whether hidden layers are normalized."""
        return bool(self.getOrDefault(self.batchNorm))

    def setBatchNorm(self: Self, value: bool) -> Self:
        """Sets `batchNorm`."""
        return self._set(batchNorm=value)


class ThresholdParams(ParamAliases):
    """What both a classifier and its model know of thresholds."""

    thresholds = param(
        "thresholds",
        "a number per class by which its probability is divided before the greatest decides; at "
        "most one may be 0",
        thresholds,
    )

    def getThresholds(self) -> list[float]:
        """The thresholds.

        Raises:
            KeyError: None are set.
        """
        value: list[float] = self.getOrDefault(self.thresholds)
        return value

    def setThresholds(self: Self, value: list[float]) -> Self:
        """Sets `thresholds`."""
        return self._set(thresholds=value)


class ClassifierParams(ThresholdParams):
    """What classifiers know."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"numClasses": 0}

    numClasses = param(
        "numClasses",
        "labels are 0, 1, ..., numClasses - 1; 0 has it taken from the greatest label",
        class_count,
    )

    def getNumClasses(self) -> int:
        """The number of classes, or 0."""
        return int(self.getOrDefault(self.numClasses))

    def setNumClasses(self: Self, value: int) -> Self:
        """Sets `numClasses`."""
        return self._set(numClasses=value)
