"""The Spark session of programs whose processes are killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from support import java


def fault_session(
    folder: Path, master: str, host: str = "127.0.0.1", **settings: str
) -> SparkSession:
    """Creates a small and silent session with all files below a folder.

    Args:
        folder: The folder.
        master: Spark's master.
        host: The address at which executors reach the driver.
        **settings: More settings of Spark, named without `spark.`, with `_` for a dot.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_WORKER_DIR"] = str(folder / "work")
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", host)
        .config("spark.driver.bindAddress", host)
        .config("spark.executor.extraJavaOptions", java.options())
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    for name, value in settings.items():
        builder = builder.config(f"spark.{name.replace('_', '.')}", value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark
