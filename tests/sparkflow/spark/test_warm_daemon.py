"""How Spark's Python workers start in tests: `support/warm_daemon.py`."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from support import warm_daemon


def test_workers_of_tests_have_imported_what_they_need(spark: SparkSession) -> None:
    def look(_):
        import os
        import sys

        command = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        return command.split("\0")[:3], set(sys.modules)

    command, names = spark.sparkContext.parallelize([0], 1).map(look).first()
    assert command == [sys.executable, "-m", "tests.support.warm_daemon"]
    assert set(warm_daemon.IMPORTED) <= names
