"""Creates the archive of Spark's classes for the JVMs of tests, if it does not exist.

    python -m support.class_archive

It takes about 25 seconds, once per environment. If it cannot be created, for example because Java
lacks an archive of its own classes, tests only take longer.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from support import java


def make(path: Path) -> None:
    """Writes the archive with the classes that a few jobs of every kind load."""
    part = path.with_suffix(f".{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = java.making_archive(part)
    os.environ["SPARK_HOME"] = str(java.spark_home())  # paths of classes belong to the archive
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        _run_jobs()
        if not part.exists():
            _without(path).touch()
            raise RuntimeError("this Java did not write one")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _without(path: Path) -> Path:
    """Returns the path of a file that marks that the archive cannot be created."""
    return path.with_suffix(".none")


def _run_jobs() -> None:
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import SparkSession, functions as F

    session: Any = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", False)
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.execution.arrow.pyspark.enabled", True)
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as folder:
        numbers = F.array(F.col("id").cast("double"), F.col("id") * 2.0)
        rows = session.range(0, 100, 1, 3).select("id", numbers.alias("numbers"))
        rows.write.parquet(f"{folder}/rows")
        read = session.read.parquet(f"{folder}/rows").cache()
        read.select(array_to_vector(F.col("numbers")).alias("vector")).collect()
        read.groupBy((F.col("id") % 7).alias("key")).count().orderBy("key").toPandas()
        read.mapInArrow(lambda batches: batches, read.schema).repartition(3).collect()
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    wanted = java.archive_path()
    if not wanted.exists() and not _without(wanted).exists():
        print(f"Creating {wanted}, with which the tests' JVMs start faster (once)", flush=True)
        make(wanted)
