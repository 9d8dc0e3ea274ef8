"""The Spark session of the benchmarks: by default `local[4]`, on the loopback interface."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SLOTS = 4
PACKAGES = ("pyspark", "pyarrow", "numpy", "grpcio")


@contextmanager
def started(folder: Path, slots: int = SLOTS) -> Iterator[Any]:
    """Yields a session that keeps its files below `folder` and is stopped at the end."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    # Executors would otherwise start whatever `python3` is first on PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{slots}]").appName("sparkflow benchmarks")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
