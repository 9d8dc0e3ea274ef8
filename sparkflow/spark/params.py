"""The parameters of `SparkTrainer` and `SparkTrainerModel` as pyspark.ml Params.

Every parameter is checked when it is set, so that a wrong one fails before any job. Each has a
second spelling in snake_case (`features_col` for `featuresCol`), which the constructors,
`setParams` and attribute access take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyspark.ml.param import Param, Params

SYNC_MODES = ("async", "sync")

Self = TypeVar("Self", bound="ParamAliases")


def _column(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the name of a column is a text, got {value!r}")
    if not value:
        raise ValueError("the name of a column is empty")
    return value


def _columns(value: Any) -> str | list[str]:
    if isinstance(value, list | tuple):
        names = [_column(item) for item in value]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"a list of columns has one or more names, none twice, got {value!r}")
        return names
    return _column(value)


def _integer(minimum: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"an integer is needed, got {value!r}")
        number = int(value.__index__())
        if number < minimum:
            raise ValueError(f"must be at least {minimum}, got {number}")
        return number

    return convert


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a number of seconds is needed, got {value!r}")
    if not value > 0:
        raise ValueError(f"must be more than 0 seconds, got {value!r}")
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"True or False is needed, got {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is needed, got {value!r}")
    return value


def _sync_mode(value: Any) -> str:
    if value not in SYNC_MODES:
        raise ValueError(f"must be one of {', '.join(SYNC_MODES)}, got {value!r}")
    return str(value)


def _model_params(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"a dictionary with texts as keys is needed, got {value!r}")
    try:
        json.dumps(dict(value))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the values must be what JSON can hold, so that the model can be saved: {error}"
        ) from None
    return dict(value)


def _named(name: str, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converter(value: Any) -> Any:
        try:
            return convert(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None

    return converter


def _param(name: str, doc: str, convert: Callable[[Any], Any]) -> Any:
    return Param(Params._dummy(), name, doc, _named(name, convert))


def camel_case(name: str) -> str:
    """`features_col` as `featuresCol`; a name without underscores is returned as it is."""
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


class ParamAliases(Params):
    """Params whose names may be written in snake_case as well."""

    def __getattr__(self, name: str) -> Any:
        # Called only for what is not found otherwise.
        other = camel_case(name)
        if (
            other != name
            and not name.startswith("_")
            and isinstance(getattr(type(self), other, None), Param)
        ):
            return getattr(self, other)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def setParams(self: Self, **params: Any) -> Self:
        """Sets the parameters that are given, in either spelling.

        Raises:
            TypeError: There is no such parameter, it is given in both spellings, or its value has
                a wrong type.
            ValueError: A value is not allowed.
        """
        found: dict[str, Any] = {}
        for given, value in params.items():
            name = camel_case(given)
            if not self.hasParam(name):
                known = ", ".join(sorted(param.name for param in self.params))
                raise TypeError(f"{type(self).__name__} has no parameter {given!r}; it has {known}")
            if name in found:
                raise TypeError(f"the parameter {name!r} is given twice")
            found[name] = value
        self._set(**found)
        return self

    def _set(self: Self, **params: Any) -> Self:
        # pyspark's own leaves out None and hides the parameter's name in a ValueError.
        for name, value in params.items():
            param = self.getParam(name)
            self._paramMap[param] = param.typeConverter(value)
        return self


class ColumnParams(ParamAliases):
    """The columns that both the estimator and its model know."""

    featuresCol = _param(
        "featuresCol",
        "the features: one column of vectors or numeric arrays, or a list of scalar columns",
        _columns,
    )
    predictionCol = _param(
        "predictionCol", "receives the prediction named 'prediction', as a double", _column
    )
    probabilityCol = _param(
        "probabilityCol", "receives the prediction named 'probability', as a vector", _column
    )
    rawPredictionCol = _param(
        "rawPredictionCol", "receives the prediction named 'rawPrediction', as a vector", _column
    )
    inferenceBatchSize = _param(
        "inferenceBatchSize", "rows per run of the graph in transform", _integer(1)
    )

    def _set_column_defaults(self) -> None:
        self._setDefault(
            featuresCol="features",
            predictionCol="prediction",
            probabilityCol="probability",
            rawPredictionCol="rawPrediction",
            inferenceBatchSize=4096,
        )

    def getFeaturesCol(self) -> str | list[str]:
        """The features column, or the list of scalar columns."""
        value: str | list[str] = self.getOrDefault(self.featuresCol)
        return value

    def setFeaturesCol(self: Self, value: str | list[str]) -> Self:
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


class TrainerParams(ColumnParams):
    """What only the estimator knows."""

    labelCol = _param(
        "labelCol", "the labels: integers (given as int64) or other numbers (float32)", _column
    )
    numWorkers = _param("numWorkers", "tasks that compute gradients, each on its rows", _integer(1))
    numPs = _param("numPs", "tasks that hold the variables", _integer(1))
    batchSize = _param("batchSize", "rows per step of each worker", _integer(1))
    epochs = _param("epochs", "how often each row is trained on", _integer(1))
    syncMode = _param(
        "syncMode",
        "'async': each worker applies its gradients alone; 'sync': all workers' gradients of a "
        "step are averaged and applied together",
        _sync_mode,
    )
    shuffle = _param(
        "shuffle", "whether each worker draws its rows in a new order at each epoch", _boolean
    )
    seed = _param(
        "seed", "decides the orders of the rows, and the random ops that have no seed", _integer(0)
    )
    modelParams = _param("modelParams", "passed to model_fn as its params", _model_params)
    progress = _param("progress", "whether the driver shows a progress bar", _boolean)
    logDir = _param("logDir", "directory on the driver for TensorBoard scalars; '' for none", _text)
    startTimeout = _param(
        "startTimeout",
        "seconds that Spark has for starting all tasks, and the tasks for receiving their rows "
        "without a sign of progress",
        _seconds,
    )

    def _set_trainer_defaults(self) -> None:
        self._set_column_defaults()
        self._setDefault(
            labelCol="label",
            numWorkers=1,
            numPs=1,
            batchSize=128,
            epochs=1,
            syncMode="async",
            shuffle=True,
            # pyspark.ml's HasSeed takes hash(), which differs from process to process.
            seed=42,
            modelParams={},
            progress=True,
            logDir="",
            startTimeout=120.0,
        )

    def getLabelCol(self) -> str:
        """The label column."""
        return str(self.getOrDefault(self.labelCol))

    def setLabelCol(self: Self, value: str) -> Self:
        """Sets `labelCol`."""
        return self._set(labelCol=value)

    def getNumWorkers(self) -> int:
        """The number of workers."""
        return int(self.getOrDefault(self.numWorkers))

    def setNumWorkers(self: Self, value: int) -> Self:
        """Sets `numWorkers`."""
        return self._set(numWorkers=value)

    def getNumPs(self) -> int:
        """The number of parameter servers."""
        return int(self.getOrDefault(self.numPs))

    def setNumPs(self: Self, value: int) -> Self:
        """Sets `numPs`."""
        return self._set(numPs=value)

    def getBatchSize(self) -> int:
        """Rows per step of each worker."""
        return int(self.getOrDefault(self.batchSize))

    def setBatchSize(self: Self, value: int) -> Self:
        """Sets `batchSize`."""
        return self._set(batchSize=value)

    def getEpochs(self) -> int:
        """How often each row is trained on."""
        return int(self.getOrDefault(self.epochs))

    def setEpochs(self: Self, value: int) -> Self:
        """Sets `epochs`."""
        return self._set(epochs=value)

    def getSyncMode(self) -> str:
        """`async` or `sync`."""
        return str(self.getOrDefault(self.syncMode))

    def setSyncMode(self: Self, value: str) -> Self:
        """Sets `syncMode`."""
        return self._set(syncMode=value)

    def getShuffle(self) -> bool:
        """Whether the rows come in a new order at each epoch."""
        return bool(self.getOrDefault(self.shuffle))

    def setShuffle(self: Self, value: bool) -> Self:
        """Sets `shuffle`."""
        return self._set(shuffle=value)

    def getSeed(self) -> int:
        """The seed."""
        return int(self.getOrDefault(self.seed))

    def setSeed(self: Self, value: int) -> Self:
        """Sets `seed`."""
        return self._set(seed=value)

    def getModelParams(self) -> dict[str, Any]:
        """What `model_fn` gets as `params`."""
        return dict(self.getOrDefault(self.modelParams))

    def setModelParams(self: Self, value: Mapping[str, Any]) -> Self:
        """Sets `modelParams`."""
        return self._set(modelParams=value)

    def getProgress(self) -> bool:
        """Whether a progress bar is shown."""
        return bool(self.getOrDefault(self.progress))

    def setProgress(self: Self, value: bool) -> Self:
        """Sets `progress`."""
        return self._set(progress=value)

    def getLogDir(self) -> str:
        """The directory for TensorBoard scalars."""
        return str(self.getOrDefault(self.logDir))

    def setLogDir(self: Self, value: str) -> Self:
        """Sets `logDir`."""
        return self._set(logDir=value)

    def getStartTimeout(self) -> float:
        """Seconds for starting the tasks."""
        return float(self.getOrDefault(self.startTimeout))

    def setStartTimeout(self: Self, value: float) -> Self:
        """Sets `startTimeout`."""
        return self._set(startTimeout=value)
