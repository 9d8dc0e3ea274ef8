"""Training from Spark DataFrames: the only part of sparkflow that imports pyspark.

Names are imported lazily, on first access: the training processes on the executors also run code of
this package, and must start without pyspark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import sparkflow
from sparkflow.other_package import refuse_its_front_end
from sparkflow.version import SPARKFLOW_VERSION
from sparkflow_runtime.errors import missing_package

if TYPE_CHECKING:
    from sparkflow.spark.control.callbacks import Callback as Callback
    from sparkflow.spark.data.tfrecord.data_source import TFRecordDataSource as TFRecordDataSource
    from sparkflow.spark.errors import (
        NonFiniteError as NonFiniteError,
        OtherTrainingError as OtherTrainingError,
        SparkTrainingError as SparkTrainingError,
    )
    from sparkflow.spark.estimators.flavours import (
        SparkTrainerClassifier as SparkTrainerClassifier,
        SparkTrainerRegressor as SparkTrainerRegressor,
    )
    from sparkflow.spark.estimators.models import (
        SparkTrainerClassificationModel as SparkTrainerClassificationModel,
        SparkTrainerRegressionModel as SparkTrainerRegressionModel,
    )
    from sparkflow.spark.estimators.ready import (
        SparkDNNClassifier as SparkDNNClassifier,
        SparkDNNRegressor as SparkDNNRegressor,
        SparkLinearClassifier as SparkLinearClassifier,
        SparkLinearRegressor as SparkLinearRegressor,
    )
    from sparkflow.spark.estimators.wide_deep import (
        SparkWideDeepClassifier as SparkWideDeepClassifier,
        SparkWideDeepRegressor as SparkWideDeepRegressor,
    )
    from sparkflow.spark.graphs.stages import stage as stage
    from sparkflow.spark.interpreter import use_this_python as use_this_python
    from sparkflow.spark.model.trainer_model import SparkTrainerModel as SparkTrainerModel
    from sparkflow.spark.programs.spark_cluster import SparkCluster as SparkCluster
    from sparkflow.spark.report.optuna_pruning import OptunaPruning as OptunaPruning
    from sparkflow.spark.streaming import StreamingTrainer as StreamingTrainer
    from sparkflow.spark.trainer import SparkTrainer as SparkTrainer

refuse_its_front_end(sparkflow)

__version__ = SPARKFLOW_VERSION
"""The version of this package; `sparkflow.__version__` is the version of TensorFlow's interface."""

_HOMES = {
    "Callback": "sparkflow.spark.control.callbacks",
    "NonFiniteError": "sparkflow.spark.errors",
    "OptunaPruning": "sparkflow.spark.report.optuna_pruning",
    "OtherTrainingError": "sparkflow.spark.errors",
    "SparkCluster": "sparkflow.spark.programs.spark_cluster",
    "SparkDNNClassifier": "sparkflow.spark.estimators.ready",
    "SparkDNNRegressor": "sparkflow.spark.estimators.ready",
    "SparkLinearClassifier": "sparkflow.spark.estimators.ready",
    "SparkLinearRegressor": "sparkflow.spark.estimators.ready",
    "SparkTrainer": "sparkflow.spark.trainer",
    "SparkTrainerClassificationModel": "sparkflow.spark.estimators.models",
    "SparkTrainerClassifier": "sparkflow.spark.estimators.flavours",
    "SparkTrainerModel": "sparkflow.spark.model.trainer_model",
    "SparkTrainerRegressionModel": "sparkflow.spark.estimators.models",
    "SparkTrainerRegressor": "sparkflow.spark.estimators.flavours",
    "SparkTrainingError": "sparkflow.spark.errors",
    "SparkWideDeepClassifier": "sparkflow.spark.estimators.wide_deep",
    "SparkWideDeepRegressor": "sparkflow.spark.estimators.wide_deep",
    "StreamingTrainer": "sparkflow.spark.streaming",
    "TFRecordDataSource": "sparkflow.spark.data.tfrecord.data_source",
    "stage": "sparkflow.spark.graphs.stages",
    "use_this_python": "sparkflow.spark.interpreter",
}

__all__ = [
    "Callback",
    "NonFiniteError",
    "OptunaPruning",
    "OtherTrainingError",
    "SparkCluster",
    "SparkDNNClassifier",
    "SparkDNNRegressor",
    "SparkLinearClassifier",
    "SparkLinearRegressor",
    "SparkTrainer",
    "SparkTrainerClassificationModel",
    "SparkTrainerClassifier",
    "SparkTrainerModel",
    "SparkTrainerRegressionModel",
    "SparkTrainerRegressor",
    "SparkTrainingError",
    "SparkWideDeepClassifier",
    "SparkWideDeepRegressor",
    "StreamingTrainer",
    "TFRecordDataSource",
    "stage",
    "use_this_python",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in ("pandas", "py4j", "pyarrow", "pyspark"):
            raise
        raise missing_package(f"sparkflow.spark.{name}", missing, "spark") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
