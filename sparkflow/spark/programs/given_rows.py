"""Converts the rows given to `SparkCluster.dataset` to a DataFrame: files, a table or itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparkflow.spark.data.schema.frame import require_frame


def given_rows(
    session: SparkSession,
    given: Any,
    version: int | str | datetime | None,
    catalog: str | Mapping[str, str] | None,
) -> DataFrame:
    """Returns the rows of a DataFrame, of Parquet files, or of a version of a table.

    Files are read by Spark's Python workers, which need no connector for them.

    Args:
        session: The session that reads them.
        given: See `SparkCluster.dataset`.
        version: See `SparkCluster.dataset`.
        catalog: See `SparkCluster.dataset`.

    Raises:
        TypeError: It is neither a DataFrame nor a table.
        ValueError: There are no rows, or the table or version does not exist; see `tables.opening`.
        ImportError, FileNotFoundError: See `tables.opening`.
    """
    if hasattr(given, "sparkSession"):
        if version is not None or catalog is not None:
            raise ValueError("version and catalog are for tables; a DataFrame was given")
        return given  # type: ignore[no-any-return]  # a DataFrame
    is_path = isinstance(given, str | os.PathLike)
    if not is_path and type(given).__module__.partition(".")[0] not in ("deltalake", "pyiceberg"):
        require_frame(given, "SparkCluster.dataset")
    # Arrow and the table libraries: only programs that read files need them.
    from sparkflow.spark.data.parquet.footers import read_footers
    from sparkflow.spark.data.plan.table_frame import frame_of
    from sparkflow.spark.data.tables.opening import is_table, table_files

    try:
        if is_path and version is None and catalog is None and not is_table(os.fspath(given)):
            files = read_footers(os.fspath(given))
        else:
            files = table_files(given, version, catalog)
    except (ValueError, TypeError) as error:
        # The message is for a trainer, whose methods have other names.
        text = str(error).replace("fitOnTable", "dataset").replace("fitOnParquet", "dataset")
        raise type(error)(text) from error
    if not files.rows:
        what = files.origin or f"The Parquet files in {files.uri!r}"
        raise ValueError(f"{what}: no rows")
    return frame_of(session, files)
