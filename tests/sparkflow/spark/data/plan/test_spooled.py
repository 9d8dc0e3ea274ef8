"""Rows of a local session in files that its workers map."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession, functions as F

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.feed.worker_feed import WorkerFeed
from sparkflow.spark.data.feed_plan import PERMUTED, FeedPlan
from sparkflow.spark.data.plan import spooled as spooled_module
from sparkflow.spark.data.plan.partitioning import place_rows
from sparkflow.spark.data.plan.prepare import prepare_rows
from sparkflow.spark.data.plan.spooled import SpooledRows, spooled_rows
from sparkflow.spark.data.spool.spool import MESSAGE_COLUMN
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.trainer_params import TrainerParams
from support.row_files import open_row_files

pytestmark = pytest.mark.spark

LAYOUT = ClusterLayout(num_ps=1, num_workers=2)


def _params(**params: Any) -> FitConfig:
    made = TrainerParams()
    return made._set(numWorkers=2, **params).config()


def _rows(spark: SparkSession, rows: int = 41) -> DataFrame:
    features = F.array(F.col("id").cast("double"), F.col("id") * 2.0)
    return spark.range(0, rows, 1, 3).select(
        features.alias("features"), (F.col("id") % 7).alias("label"), (F.col("id") < 11).alias("v")
    )


def _fed(spooled: SpooledRows) -> list[tuple[list[float], list[float]]]:
    """Returns the first feature of training and validation rows, by worker, in order."""
    placed = spooled.place(LAYOUT)
    messages = [row[MESSAGE_COLUMN] for row in placed.df.collect()]
    assert messages[0] is None  # the parameter server's
    plan = FeedPlan(spooled.prepared.format, 5, order=PERMUTED, shuffle=False)
    found = []
    for worker, message in enumerate(messages[1:]):
        feed = WorkerFeed(plan, worker)
        feed.take(json.loads(message))
        assert feed.rows == placed.worker_rows[worker]
        assert feed.validation_rows == placed.validation_rows[worker]
        parts = []
        for source, rows in ((feed.train, feed.rows), (feed.validation, feed.validation_rows)):
            part: list[float] = []
            while len(part) < rows:
                part += source.next_batch()[0][:, 0].tolist()
            parts.append(part)
        found.append((parts[0], parts[1]))
        feed.close()
    return found


def test_ctrl_c_leaves_no_rows(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(texts: object) -> None:
        raise KeyboardInterrupt  # when tasks have written, and the driver does not know of it

    monkeypatch.setattr(spooled_module, "read_facts", interrupt)
    with (
        pytest.raises(KeyboardInterrupt),
        spooled_rows(_rows(spark), _params(), None, by_content=False),
    ):
        pass
    assert list(Path(str(spark.conf.get("spark.local.dir"))).rglob("sparkflow-rows-*")) == []
    assert open_row_files() == 0


@pytest.mark.parametrize("by_content", [False, True])
def test_workers_get_what_an_exchange_would_have_given_them(
    spark: SparkSession, by_content: bool
) -> None:
    df, params = _rows(spark), _params(validationIndicatorCol="v")
    with spooled_rows(df, params, None, by_content=by_content) as spooled:
        assert spooled is not None
        assert (spooled.prepared.num_rows, spooled.prepared.num_validation_rows) == (30, 11)
        assert spooled.prepared.num_classes == 7
        assert open_row_files() == len(spooled.files) > 0
        # If something is killed now, nothing is left.
        local = Path(str(spark.conf.get("spark.local.dir")))
        assert list(local.rglob("sparkflow-rows-*")) == []
        found = _fed(spooled)
    assert open_row_files() == 0
    with prepare_rows(df, params) as prepared:
        placed = place_rows(prepared, LAYOUT, params.seed, by_content)
        rows = placed.df.withColumn("p", F.spark_partition_id()).orderBy("row_number").collect()
    assert found == [
        tuple(
            [row["features"][0] for row in rows if row["p"] == part and row["validates"] is flag]
            for flag in (False, True)
        )
        for part in (1, 2)
    ]


def test_vectors_go_without_an_exchange(spark: SparkSession) -> None:
    rows = [(Vectors.dense([n, 1.0]), float(n)) for n in range(5)]
    df = spark.createDataFrame(rows, ["features", "label"])
    with spooled_rows(df, _params(), None, by_content=False) as spooled:
        assert spooled is not None
        assert spooled.prepared.num_classes is None
        assert sorted(sum((train for train, _ in _fed(spooled)), [])) == [0, 1, 2, 3, 4]  # noqa: RUF017


def test_thin_vectors_stay_sparse(spark: SparkSession) -> None:
    rows = [(Vectors.sparse(100, [n], [1.0]), n) for n in range(5)]
    df = spark.createDataFrame(rows, ["features", "label"])
    with spooled_rows(df, _params(), None, by_content=False) as spooled:
        assert spooled is not None
        (features,) = spooled.prepared.format.features
        assert (features.kind, features.shape) == ("sparse", (100,))
        assert spooled.prepared.num_rows == 5


@pytest.mark.parametrize(
    ("row", "params"),
    [
        pytest.param(None, {}, id="fewer rows than workers"),
        pytest.param("array(1.0D)", {}, id="another length"),
        pytest.param("array(1.0D, null)", {}, id="null"),
        pytest.param("array(1.0D, double('NaN'))", {"handleInvalid": "skip"}, id="NaN"),
        pytest.param("array(1.0D, 2.0D)", {"classWeights": {"1": 2.0}}, id="class weights"),
    ],
)
def test_what_needs_a_closer_look_goes_the_usual_way(
    spark: SparkSession, row: str | None, params: dict[str, Any]
) -> None:
    df = _rows(spark, 1 if row is None else 100).drop("v")
    if row is not None:
        df = df.coalesce(1).union(spark.sql(f"select {row} as features, 1L as label"))
    with spooled_rows(df, _params(**params), None, by_content=False) as spooled:
        assert spooled is None


def test_content_decides_whatever_the_partitions(spark: SparkSession) -> None:
    found = []
    for df in (_rows(spark), _rows(spark).repartition(5, "label")):
        with spooled_rows(df, _params(), None, by_content=True) as spooled:
            assert spooled is not None
            found.append(_fed(spooled))
    np.testing.assert_equal(found[0], found[1])
