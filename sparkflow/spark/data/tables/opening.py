"""Opens a table with the library for its format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sparkflow.spark.data.parquet.footers import ParquetFiles
from sparkflow.spark.data.tables.delta import delta_files, is_delta
from sparkflow.spark.data.tables.iceberg import iceberg_files, is_iceberg
from sparkflow_runtime.files import system
from sparkflow_runtime.files.table_formats import DELTA, ICEBERG, table_of

Version = int | str | datetime | None

_METADATA = (".metadata.json", ".metadata.json.gz")


def table_files(
    table: Any, version: Version = None, catalog: str | Mapping[str, str] | None = None
) -> ParquetFiles:
    """Returns the files of a version of a table, which thereby is pinned.

    Args:
        table: See `SparkTrainer.fitOnTable`.
        version: See `SparkTrainer.fitOnTable`.
        catalog: See `SparkTrainer.fitOnTable`.

    Raises:
        ImportError: The format's library is not installed.
        ValueError: It is not a table, or cannot be read; see `delta_files`, `iceberg_files`.
        TypeError: It is not a path, a name or a table of one of the libraries.
    """
    if is_delta(table):
        return delta_files(table, version)
    if is_iceberg(table) or catalog is not None:
        return iceberg_files(table, version, catalog)
    if not isinstance(table, str | os.PathLike):
        raise TypeError(
            "fitOnTable takes the path or URI of a table, a name with its catalog, a DeltaTable or "
            f"a pyiceberg table, got {type(table).__name__}; fit takes a DataFrame"
        )
    path = os.fspath(table)
    if path.endswith(_METADATA):
        return iceberg_files(path, version)
    found = table_of(path)
    kind = None if found is None or found.folder.rstrip("/") != _absolute(path) else found.format
    if kind is DELTA:
        return delta_files(path, version)
    if kind is ICEBERG:
        return iceberg_files(_newest_metadata(path), version)
    if found is not None and kind is None:
        raise ValueError(f"{path!r} is inside a table: pass {found.folder!r} to fitOnTable")
    raise ValueError(
        f"{path!r} is "
        + ("not a table" if kind is None else f"a table of {kind.name}")
        + ": fitOnTable reads tables of Delta Lake (a folder with _delta_log) and of Iceberg (the "
        "metadata file, or a name and a catalog); fitOnParquet reads Parquet files"
    )


def is_table(path: str) -> bool:
    """Whether a path is, or is inside, a table whose log lists its valid files."""
    return path.endswith(_METADATA) or table_of(path) is not None


def _newest_metadata(folder: str) -> str:
    """Returns the metadata file of a table without a catalog, as Hadoop's catalog writes it."""
    log = system.join(folder, "metadata")
    hint = system.join(log, "version-hint.text")
    if system.exists(hint):
        text = system.read_file(hint).decode().strip()
        for name in (f"v{text}.metadata.json", f"{text}.metadata.json", text):
            if system.exists(system.join(log, name)):
                return system.join(log, name)
    raise ValueError(
        f"{folder!r} is an Iceberg table whose catalog determines the current metadata file: use "
        "fitOnTable('namespace.name', catalog=...), or the path of the metadata file"
    )


def _absolute(path: str) -> str:
    storage, inner, head = system.resolve(path)
    inner = os.path.abspath(inner) if storage is system.LOCAL else inner
    return (head + inner).rstrip("/")
