"""Training from Spark DataFrames: the only room that imports pyspark.

The names are loaded when they are first asked for, because the processes that train on the
executors live in this package too and must start without pyspark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkflow.spark.errors import SparkTrainingError as SparkTrainingError
    from sparkflow.spark.model.trainer_model import SparkTrainerModel as SparkTrainerModel
    from sparkflow.spark.run.callbacks import Callback as Callback
    from sparkflow.spark.sources.tfrecord import TFRecordDataSource as TFRecordDataSource
    from sparkflow.spark.trainer import SparkTrainer as SparkTrainer

_HOMES = {
    "Callback": "sparkflow.spark.run.callbacks",
    "SparkTrainer": "sparkflow.spark.trainer",
    "SparkTrainerModel": "sparkflow.spark.model.trainer_model",
    "SparkTrainingError": "sparkflow.spark.errors",
    "TFRecordDataSource": "sparkflow.spark.sources.tfrecord",
}

__all__ = [
    "Callback",
    "SparkTrainer",
    "SparkTrainerModel",
    "SparkTrainingError",
    "TFRecordDataSource",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
