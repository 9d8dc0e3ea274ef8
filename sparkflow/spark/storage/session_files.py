"""Selection of a session's access to files: pyarrow's or Hadoop's."""

from __future__ import annotations

from typing import Any

from sparkflow.spark.storage.checkpoint_files import CheckpointFiles, PathFiles, pyarrow_reaches
from sparkflow.spark.storage.hadoop_files import HadoopFiles


def files_for(session: Any, path: str) -> CheckpointFiles:
    """The way to a path: pyarrow's, or Hadoop's where a JVM is at hand and pyarrow has none.

    On HDFS it is Hadoop's: pyarrow's rename there replaces no file.
    """
    if not hasattr(session, "_jsparkSession"):
        return PathFiles()
    if not path.startswith(("hdfs:", "viewfs:")) and pyarrow_reaches(path):
        return PathFiles()
    context = session.sparkContext
    return HadoopFiles(context._jvm, context._jsc.hadoopConfiguration())
