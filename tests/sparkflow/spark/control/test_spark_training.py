"""Parts of training control that only a whole `fit` can test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from sparkflow.spark import SparkTrainer
from sparkflow.spark.control.checkpoints.snapshot import Position, Snapshot
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.storage.hadoop_files import HadoopFiles

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def df(spark: SparkSession, request: pytest.FixtureRequest) -> DataFrame:
    generator = np.random.default_rng(3)
    features = generator.normal(size=(91, 3)).astype(np.float32)
    labels = features @ [1.0, -2.0, 0.5] + 0.3
    rows = [
        (row.tolist(), float(label), index % 4 == 0)
        for index, (row, label) in enumerate(zip(features, labels, strict=True))
    ]
    return spark.createDataFrame(
        rows, "features array<float>, label float, held boolean"
    ).repartition(3)


def trainer(rig: Any, **params: Any) -> SparkTrainer:
    more = {"modelParams": {"dropout": 0.25}, "batchSize": 8, "numWorkers": 2, "progress": False}
    return SparkTrainer(model_fn=rig.linear, **{**more, **params})


def variables(model: Any) -> Any:
    return model.inference_model.variables


def test_the_result_depends_on_the_rows_and_the_seed_not_on_partitions(
    rig: Any, df: DataFrame, child_processes: Callable[[], list[int]]
) -> None:
    sync = trainer(rig, syncMode="sync", seed=11, epochs=2)
    models = [
        sync.fit(each) for each in (df, df.repartition(5, "label").sortWithinPartitions("label"))
    ]
    for name, value in variables(models[0]).items():
        np.testing.assert_array_equal(value, variables(models[1])[name])
    assert models[0].history.loss == models[1].history.loss
    assert sum(models[0].history.rows) == 2 * 91


def test_fit_validates_saves_and_goes_on(
    rig: Any, df: DataFrame, tmp_path: Path, child_processes: Callable[[], list[int]]
) -> None:
    recording = rig.Recording()
    params = {
        "syncMode": "allreduce",
        "validationIndicatorCol": "held",
        "earlyStoppingPatience": 50,
        "earlyStoppingMetric": "absolute",
        "earlyStoppingMode": "min",
        "checkpointDir": f"file://{tmp_path}",
    }
    first = trainer(rig, epochs=1, **params)
    model = first.fit(df)
    assert [each["step"] for each in model.history.checkpoints] == [model.history.steps]
    longer = trainer(rig, epochs=2, **params)
    longer.callbacks = (recording,)
    model = longer.fit(df)
    assert recording.steps == model.history.steps // 2
    assert sum(model.history.rows) == 2 * 68
    assert len(model.history.validation) == 2
    held = df.where("held").toPandas()
    values = variables(model)
    error = np.stack(held.features) @ values["weights"].ravel() + values["bias"] - held.label
    best = min(each["absolute"] for each in model.history.validation)
    np.testing.assert_allclose(np.abs(error).mean(), best, rtol=1e-4)


def test_what_makes_no_sense_is_found_before_a_job(rig: Any, df: DataFrame) -> None:
    with pytest.raises(ValueError, match="backupWorkers=1 needs syncMode='sync'"):
        trainer(rig, backupWorkers=1).fit(df)
    with pytest.raises(ValueError, match="the model has the metrics absolute, loss"):
        trainer(
            rig,
            validationFraction=0.3,
            earlyStoppingPatience=1,
            earlyStoppingMetric="auc",
        ).fit(df)


def test_hadoop_keeps_checkpoints_where_pyarrow_cannot(spark: SparkSession, tmp_path: Path) -> None:
    context: Any = spark.sparkContext
    files = HadoopFiles(context._jvm, context._jsc.hadoopConfiguration())
    store = CheckpointStore(f"file://{tmp_path}/a/b", 1, files)
    store.prepare()
    assert store.latest() is None
    values = {"weights": np.arange(5, dtype=np.float32)}
    snapshot = Snapshot(3, Position((3,), (3,), {}), values, {}, (), {})
    for _ in range(2):
        store.write(snapshot)
    found = store.latest()
    assert found is not None
    assert found.path.endswith("/a/b/checkpoint-000002-step-3")
    np.testing.assert_array_equal(found.snapshot.shared["weights"], values["weights"])
    assert len(store.names()) == 1
