"""A model's files sent to the executors, and what is left of them."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparkflow.export import InferenceModel
from sparkflow.spark import SparkTrainerModel
from sparkflow.spark.model.shipping import Shipper

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

GONE_S = 30.0


def test_a_model_is_sent_once(spark: SparkSession, classifier: InferenceModel) -> None:
    shipper = Shipper(classifier)
    assert shipper.ship(spark) is shipper.ship(spark)


def test_files_of_models_that_are_gone_are_removed(
    spark: SparkSession, classifier: InferenceModel
) -> None:
    # Each model that had transformed used to leave a file of its size on the driver's disk.
    context: Any = spark.sparkContext
    rows = spark.createDataFrame([([1.0, 2.0, 3.0],)], "features array<double>")
    folder = Path(context._temp_dir)
    before = set(os.listdir(folder))
    model: Any = SparkTrainerModel(classifier)
    predicted: Any = model.transform(rows)
    (made,) = set(os.listdir(folder)) - before

    def ship_others() -> None:
        gc.collect()
        context._jvm.System.gc()
        Shipper(classifier).ship(spark)

    model = None
    ship_others()
    # The DataFrame still needs it.
    assert (folder / made).exists()
    assert len(predicted.collect()) == 1
    predicted = None
    deadline = time.monotonic() + GONE_S
    while (folder / made).exists() and time.monotonic() < deadline:
        ship_others()
    assert not (folder / made).exists()
