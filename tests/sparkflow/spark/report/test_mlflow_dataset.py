"""The sources of rows that MLflow is told."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparkflow.spark.report.mlflow_dataset import TrainingRows, _entity

# MLflow and its dependencies warn of each other's deprecated names.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]


def test_rows_are_from_files_tables_or_the_program(spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    path = str(tmp_path / "rows")
    spark.range(5).write.parquet(path)
    spark.range(5).write.mode("overwrite").saveAsTable("mlflow_dataset_rows")
    files, table = spark.read.parquet(path), spark.table("mlflow_dataset_rows")

    def told(given: DataFrame | str) -> tuple[str, Any]:
        entity = _entity(TrainingRows(given, "id", {"num_rows": 5}))
        assert json.loads(entity.profile) == {"num_rows": 5}
        assert len(entity.digest) == 8
        return entity.source_type, json.loads(entity.source)

    try:
        assert told(files.where("id > 1")) == ("spark", {"path": f"file:{path}"})
        assert told(path) == ("spark", {"path": path})
        kind, source = told(table)
        assert (kind, source["table_name"].rpartition(".")[2]) == ("spark", "mlflow_dataset_rows")
        for several in (files.union(table), files.union(spark.range(3)), spark.range(3)):
            kind, source = told(several)
            assert (kind, list(source)) == ("code", ["tags"])
    finally:
        spark.sql("drop table mlflow_dataset_rows")
